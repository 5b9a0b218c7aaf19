"""The number of missing rows that are not yet recorded as a gap, for the case that the run ends before they are.

The number is in the name of an empty file: even a full disk has room for that.
"""

import os
from contextlib import suppress
from pathlib import Path

from penstock.journal.private import FILE_MODE, make_folder

MISSING = "_missing-"


class MissingRows:
    """The missing rows of one node, as the next run will find them."""

    def __init__(self, folder: Path, node: str) -> None:
        self._home = folder / f"node={node}"
        self._kept: int | None = None
        """The number on disk; None until it is known."""

    def find(self) -> int:
        """Return how many rows an earlier run has left as missing; the first time only."""
        if self._kept is not None:
            return 0
        names = [path.name.removeprefix(MISSING) for path in self._home.glob(f"{MISSING}*")]
        self._kept = max((int(name) for name in names if name.isdecimal()), default=0)
        return self._kept

    def keep(self, count: int) -> None:
        """Store the number of missing rows; if the disk refuses, the old one stays until the next call."""
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
