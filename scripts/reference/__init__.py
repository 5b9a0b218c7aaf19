"""Pages of reference that are made of the code: `python -m scripts.reference` writes them to docs/reference.

A test compares the pages with what this would write.
"""

from collections.abc import Callable
from pathlib import Path

from scripts.reference import admin, commands, domain_file, elements, journal, metrics

FOLDER = Path(__file__).parent.parent.parent / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands.page,
    "domain-file.md": domain_file.page,
    "rule-elements.md": elements.page,
    "journal.md": journal.page,
    "metrics.md": metrics.page,
    "admin-api.md": admin.page,
}
