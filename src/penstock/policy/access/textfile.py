"""Policy files made of lines: reading and writing them, and saying where in them something is wrong."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.model.errors import PolicyError


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """Return the file's lines without their ends; raises PolicyError if it cannot be read as UTF-8 text."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise PolicyError(f"cannot read `{os.fspath(path)}`: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise PolicyError(f"`{os.fspath(path)}` is not UTF-8 text") from error
    return text.removesuffix("\n").split("\n") if text else []


@contextmanager
def located(path: str | os.PathLike[str], number: int) -> Iterator[None]:
    """Put file and line before the message of a PolicyError raised inside."""
    try:
        yield
    except PolicyError as error:
        raise PolicyError(f"{os.fspath(path)}:{number}: {error}") from error


def replace_file(path: str | os.PathLike[str], text: str, mode: int) -> None:
    """Write the file whole or not at all; raises PolicyError."""
    target = Path(os.path.realpath(path))  # a link stays a link
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise PolicyError(f"cannot write `{os.fspath(path)}`: {error.strerror}") from error
