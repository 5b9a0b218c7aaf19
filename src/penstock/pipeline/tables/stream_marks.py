"""What belongs together: a stream's tables and its checkpoint, each of no use with another's."""

import fcntl
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.journal.private import FILE_MODE, make_folder, write_file
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.govern import VIEW

_NAME = "_stream.json"


@dataclass(frozen=True)
class StreamLedger:
    """A stream that is open here, and nowhere else as long as the process lives."""

    token: str
    _lock: int

    @classmethod
    def open(cls, folder: Path, checkpoint: Path, shape: dict[str, object], table: str = VIEW) -> "StreamLedger":
        """Begin a stream to a table, or go on with it; raises `PipelineError` if these two cannot go on together."""
        make_folder(folder)
        make_folder(checkpoint)
        lock = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, FILE_MODE)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PipelineError(f"another process is streaming to `{folder}`") from None
            return cls(_token(folder, checkpoint, shape, table), lock)
        except BaseException:
            os.close(lock)
            raise

    def close(self) -> None:
        """Leave it to others."""
        os.close(self._lock)


def _token(folder: Path, checkpoint: Path, shape: dict[str, object], table: str) -> str:
    known, other = _read(folder / _NAME), _read(checkpoint / _NAME)
    if known is None and other is None:
        if (folder / table).exists():
            raise PipelineError(f"`{folder / table}` exists already, and no stream made it: choose another folder")
        token = uuid.uuid4().hex[:12]
        # The checkpoint's first: what a process leaves that is killed in between is told by the case below.
        for place in (checkpoint, folder):
            write_file(place / _NAME, json.dumps({"stream": token, "shape": shape}, indent=2).encode())
        return token
    if known is None and not (folder / table).exists() and not (checkpoint / "offsets").exists():
        write_file(folder / _NAME, (checkpoint / _NAME).read_bytes())
        return _token(folder, checkpoint, shape, table)
    if known is None or other is None or known["stream"] != other["stream"]:
        raise PipelineError(
            f"`{checkpoint}` is not the checkpoint of the stream to `{folder}`: use the one that it began with"
        )
    for key, value in known["shape"].items():
        if shape.get(key) != value:
            raise PipelineError(
                f"the stream to `{folder}` began with other {key}: begin a new one, in other folders"
                f" (it was `{json.dumps(value)}`, it is `{json.dumps(shape.get(key))}`)"
            )
    return str(known["stream"])


def _read(path: Path) -> dict[str, Any] | None:
    text = path.read_text() if path.exists() else ""
    return json.loads(text) if text else None
