"""Files with payloads: writable by their owner, readable by the owner's group."""

import os
from pathlib import Path

FILE_MODE = 0o640
FOLDER_MODE = 0o750
OTHERS = 0o027
"""The same as a umask."""
OPERATORS_MODE = 0o700
"""Of folders that are for the operator alone: with packets that no policy has judged."""


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents; existing ones keep their mode."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)


def write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
