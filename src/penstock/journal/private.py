"""Files with payloads in them: for their owner, and for who is in its group to read."""

import os
from pathlib import Path

FILE_MODE = 0o640
FOLDER_MODE = 0o750


def make_folder(path: Path) -> None:
    """It and those around it that are not there; what is there stays as it is."""
    for one in (*reversed(path.parents), path):
        if not one.is_dir():
            one.mkdir(mode=FOLDER_MODE, exist_ok=True)


def write_file(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
