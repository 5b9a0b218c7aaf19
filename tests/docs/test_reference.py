"""The pages that are made of the code are as the code is."""

import pytest

from scripts.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_it_is_as_the_code_is(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run `make format`"


def test_nothing_else_is_called_reference() -> None:
    assert {page.name for page in FOLDER.iterdir()} == set(PAGES)
