"""The cases of content: what a payload says, in its format or in the one found by looking, and what XPath finds."""

from collections import Counter

import pytest

from penstock.model.content.content import ContentError, Unreadable
from tests.support.cases.conditions import expected_value, same
from tests.support.cases.contents import ContentCase, cases, says

ALL = cases()


@pytest.mark.parametrize("case", ALL, ids=str)
def test_format(case: ContentCase) -> None:
    assert case.content.format == case.expected_format


@pytest.mark.parametrize("case", ALL, ids=str)
def test_attributes(case: ContentCase) -> None:
    attributes = case.content.attributes
    if case.unreadable is not None:
        assert isinstance(attributes, Unreadable)
        assert says(attributes.reason, case.unreadable), attributes.reason
    else:
        assert same(attributes, expected_value(case.attributes)), attributes


@pytest.mark.parametrize(
    ("case", "expression"), [(case, each) for case in ALL for each in case.finds], ids=lambda part: str(part)
)
def test_xpath_finds(case: ContentCase, expression: str) -> None:
    found = case.content.xpath(expression)
    assert same(found, expected_value(case.finds[expression])), found


@pytest.mark.parametrize(
    ("case", "expression"), [(case, each) for case in ALL for each in case.refuses], ids=lambda part: str(part)
)
def test_xpath_refuses(case: ContentCase, expression: str) -> None:
    with pytest.raises(ContentError) as caught:
        case.content.xpath(expression)
    assert says(str(caught.value), case.refuses[expression]), caught.value


def test_titles_are_unique() -> None:
    assert [title for title, count in Counter(map(str, ALL)).items() if count > 1] == []
