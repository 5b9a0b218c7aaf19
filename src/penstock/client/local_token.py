"""The token a node leaves for the system user that runs it: a file that only this user can read, named by the address.

A process that may read that user's files could read the node's store too, so the token gives nothing away; and the
command line, run by the same user on the same machine, needs no log-in.
"""

import contextlib
import os
import re
import tempfile
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from urllib.parse import urlsplit

MAX_BYTES = 4096
SERVICE = Path("/run/penstock")
"""The folder that systemd makes for `packaging/penstock.service`; nobody else can make it there."""


def folder() -> Path:
    """Return the folder where nodes of this user leave their tokens: systemd's, the session's, or one of our own."""
    for name, inside in (("RUNTIME_DIRECTORY", ""), ("XDG_RUNTIME_DIR", "penstock")):
        path = os.environ.get(name, "").partition(":")[0]
        if path and Path(path).is_dir():
            return Path(path) / inside
    return Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"


def token_path(url: str) -> Path:
    """Return the file with the token of the node at this admin address."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return folder() / f"{re.sub(r'[^0-9A-Za-z.]', '_', parts.hostname or '')}_{parts.port or 80}.token"


def write_token(url: str, token: str) -> Path:
    """Write the token for the user that runs this process; raise `OSError`."""
    path = token_path(url)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    owner = path.parent.stat()
    if owner.st_uid != os.getuid() or owner.st_mode & 0o022:
        raise PermissionError(f"folder `{path.parent}` is not this user's alone")
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".token")
    with os.fdopen(handle, "w") as file:  # mkstemp makes it readable for its owner only
        file.write(token)
    os.replace(draft, path)
    return path


def delete_token(url: str, token: str) -> None:
    """Delete the token of a node that stops, unless another node has its address by now."""
    with contextlib.suppress(OSError):
        path = token_path(url)
        if path.read_text() == token:
            path.unlink()


def find_token(url: str) -> str | None:
    """Return the token of a node if this user runs it here; the system administrator finds that of the service too."""
    try:
        path = token_path(url)
        own = _read(path, os.getuid())
        if own is None and os.getuid() == 0:
            return _read(SERVICE / path.name, None)
        return own
    except ValueError:
        return None


def _read(path: Path, owner: int | None) -> str | None:
    """Return the token in a file, unless others could have put it there or redirected the path."""
    try:
        around = path.parent.lstat()
        if owner is not None and (around.st_uid != owner or around.st_mode & 0o022 or not S_ISDIR(around.st_mode)):
            return None
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle) as file:
            status = os.fstat(handle)
            if not S_ISREG(status.st_mode) or (owner is not None and status.st_uid != owner):
                return None
            return file.read(MAX_BYTES).strip() or None
    except (OSError, ValueError):
        return None
