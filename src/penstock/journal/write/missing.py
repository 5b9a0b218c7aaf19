"""How many rows are missing of which the journal does not say so yet: kept for a run that ends before it can.

It is the name of an empty file: a disk that is full has room for that, and to give it another name.
"""

import os
from contextlib import suppress
from pathlib import Path

from penstock.journal.private import FILE_MODE, make_folder

MISSING = "_missing-"


class Missing:
    """The rows that are missing of one node, as the next run will find them."""

    def __init__(self, folder: Path, node: str) -> None:
        self._home = folder / f"node={node}"
        self._kept: int | None = None
        """What the disk has; None until that is known."""

    def find(self) -> int:
        """How many an earlier run has left; the first time only."""
        if self._kept is not None:
            return 0
        names = [path.name.removeprefix(MISSING) for path in self._home.glob(f"{MISSING}*")]
        self._kept = max((int(name) for name in names if name.isdecimal()), default=0)
        return self._kept

    def keep(self, count: int) -> None:
        """So many are missing now. If the disk does not even take this, it is as before, and tried the next time."""
        if self._kept is None or count == self._kept:
            return
        with suppress(OSError):
            if not count:
                self._path(self._kept).unlink(missing_ok=True)
            elif self._kept:
                self._path(self._kept).rename(self._path(count))
            else:
                make_folder(self._home)
                os.close(os.open(self._path(count), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
            self._kept = count

    def _path(self, count: int) -> Path:
        return self._home / f"{MISSING}{count}"
