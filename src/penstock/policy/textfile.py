"""Policy files made of lines: reading them, and saying where in them something is wrong."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.model.errors import PolicyError


def read_lines(path: str | os.PathLike[str]) -> list[str]:
    """The file's lines without their ends; raises PolicyError if it cannot be read as UTF-8 text."""
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
