"""The pages of contracts, quality and XACML say which keys and obligations there are."""

import re
from pathlib import Path

import pytest

from penstock.policy.contracts import text_form
from penstock.policy.contracts.privacy import PARAMETERS
from scripts.settings_table import CONTRACTS_PAGE, QUALITY_PAGE, XACML_PAGE, with_tables


@pytest.mark.parametrize("page", [CONTRACTS_PAGE, QUALITY_PAGE, XACML_PAGE], ids=lambda page: page.stem)
def test_the_tables_are_as_the_models_are(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "<!-- settings of" in text
    assert with_tables(text) == text, "run `.venv/bin/python -m scripts.settings_table`"


def keys(page: str, of: str) -> set[str]:
    """The keys in the first column of the table with this head."""
    rows = page.partition(f"| {of} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {key for row in rows for key in re.findall(r"`([\w.]+)`", row.split("|")[1])}


def test_all_keys_of_contracts_have_their_place() -> None:
    page = CONTRACTS_PAGE.read_text("utf-8")
    assert keys(page, "key of a producer's contract") == text_form._OFFERED | {"producer"}
    assert keys(page, "key of a rule") == text_form._RULE
    consumer = text_form._WANTED | {"consumer", "attributes", "wants.NAME"}
    assert keys(page, "key of a consumer's contract") == consumer
    assert keys(page, "key of a situation") == {"sources", "opens", "closes", "lasts"}


def test_all_obligations_have_their_place() -> None:
    page = XACML_PAGE.read_text("utf-8")
    rows = page.partition("| obligation |")[2].partition("\n\n")[0].splitlines()[2:]
    told = {}
    for row in rows:
        _, name, must, may, *_ = row.split("|")
        told[name.strip("` ")] = tuple(
            frozenset(re.findall(r"`([a-z]+)`", one)) - {"lat", "lon"} for one in (must, may)
        )
    assert told == PARAMETERS
