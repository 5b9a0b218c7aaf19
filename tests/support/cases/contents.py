"""The cases of content: data in `tests/cases/content/`.

A case has a `title` and a payload: `text` (with an `encoding`, if not UTF-8), `hex`, or `sparkplug`, which another
encoder writes. `declared` is the format that somebody says it has; without it, the format is found by looking. What
must come of it is `format` (as declared, if left out), and `attributes` or `unreadable`, the reason. `finds` says what
XPath expressions find in it; `refuses`, why others find nothing. A reason that ends with `…` may go on, as the words
after it are a library's.

Values that JSON does not have are written as in the cases of conditions.
"""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from penstock.model.content.content import Content, Format
from tests.support.memory.sparkplug import encode

FOLDER = Path(__file__).parents[2] / "cases" / "content"


@dataclass(frozen=True)
class ContentCase:
    """One case."""

    file: str
    title: str
    text: str = ""
    encoding: str = "utf-8"
    hex: str | None = None
    sparkplug: dict[str, Any] | None = None
    declared: str | None = None
    format: str | None = None
    attributes: dict[str, Any] | None = None
    unreadable: str | None = None
    finds: dict[str, Any] = field(default_factory=dict)
    refuses: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"

    @property
    def payload(self) -> bytes:
        if self.hex is not None:
            return bytes.fromhex(self.hex)
        return self.text.encode(self.encoding) if self.sparkplug is None else encode(self.sparkplug)

    @property
    def content(self) -> Content:
        return Content(self.payload, Format(self.declared) if self.declared else None)

    @property
    def expected_format(self) -> str | None:
        return self.format or self.declared


def says(reason: str, expected: str) -> bool:
    """Whether a reason is the expected one."""
    return reason.startswith(expected[:-1]) if expected.endswith("…") else reason == expected


@cache
def cases() -> list[ContentCase]:
    """All cases of payloads."""
    files = ["json.yaml", "xml.yaml", "sparkplug.yaml", "looking.yaml"]
    return [ContentCase(name.removesuffix(".yaml"), **case) for name in files for case in load(name)]


def load(name: str) -> Any:
    """What a file of cases says."""
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))
