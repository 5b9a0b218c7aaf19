"""`--token FILE` of `penstock pub` and `penstock sub`: read when it is needed, so that another program can renew it."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.options import UsageError

_MAX_BYTES = 65535  # bytes of a password in MQTT


@dataclass
class TokenFile:
    """A file with an authorisation token, and the last token read from it."""

    path: Path
    last: str

    @classmethod
    def parse(cls, text: str) -> "TokenFile":
        """Read the file for the first time; raise `UsageError`."""
        try:
            return cls(Path(text), _read(Path(text)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"`{text}` has no token that can be read: {reason}") from None

    def current(self) -> str:
        """Return the token in the file; if it cannot be read now, the last one."""
        with contextlib.suppress(OSError, ValueError):
            self.last = _read(self.path)
        return self.last


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 2).strip()
    if not data.startswith(b"{") or len(data) > _MAX_BYTES:
        raise ValueError("expected what `penstock token request` or `penstock token issue` writes")
    return data.decode()
