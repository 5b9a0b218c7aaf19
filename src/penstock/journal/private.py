"""Files with payloads, of the journal and of all that is made of it: their owner writes them, its group may read them.
What no policy has judged, as quarantine, is the owner's alone.

Every folder and file of the kind is made here, or by Spark within `kept_from_others`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE_MODE = 0o640
FOLDER_MODE = 0o750
OTHERS = 0o027
"""The same as a umask."""
OPERATORS_MODE, _OPERATORS_FILE = 0o700, 0o600
"""For the operator alone."""


@contextmanager
def kept_from_others() -> Iterator[None]:
    """Have all files that are made within, also by processes that are started, kept from other users."""
    before = os.umask(OTHERS)
    os.umask(before | OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def make_folder(path: Path, with_parents: bool = True) -> None:
    """Make a folder and its missing parents; existing ones keep their mode."""
    for folder in (*(reversed(path.parents) if with_parents else ()), path):
        if not folder.is_dir():
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def make_operators_folder(root: Path, inside: str = "") -> Path:
    """Make a folder for the operator alone, and one inside it, and return that; one that is there becomes so too."""
    make_folder(root.parent)
    path = root
    for name in ("", *Path(inside).parts):
        path /= name
        path.mkdir(mode=OPERATORS_MODE, exist_ok=True)
        path.chmod(OPERATORS_MODE)
    return path


def leave_to_operators(path: Path) -> None:
    """Leave a file, or a folder with all that is in it, to the operator alone."""
    for each in (path, *path.rglob("*")):
        each.chmod(OPERATORS_MODE if each.is_dir() else _OPERATORS_FILE)


def write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
