"""`--token FILE` of `penstock pub` and `penstock sub`: read when it is needed, so that another program can renew it."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from penstock.cli.options import UsageError

_MOST = 65535  # bytes of a password in MQTT


@dataclass
class TokenFile:
    """A file with an authorisation token, and what was last in it."""

    path: Path
    last: str

    @classmethod
    def parse(cls, text: str) -> "TokenFile":
        """Read it for the first time; raises UsageError."""
        try:
            return cls(Path(text), _read(Path(text)))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"`{text}` has no token that can be read: {reason}") from None

    def current(self) -> str:
        """What is in it now; if it cannot be read now, what was in it before."""
        with contextlib.suppress(OSError, ValueError):
            self.last = _read(self.path)
        return self.last


def _read(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MOST + 2).strip()
    if not data.startswith(b"{") or len(data) > _MOST:
        raise ValueError("expected what `penstock token request` or `penstock token issue` writes")
    return data.decode()
