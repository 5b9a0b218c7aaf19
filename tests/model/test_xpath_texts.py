"""Texts that a document must have for XPath to find something, against looking for it."""

import pytest

from penstock.model.content.content import Content, Format
from penstock.model.content.xpath_texts import texts_of

LISTING_1 = "//observable[uri='#pollution' and entity[uri='paris://henri_martin_avenue./sensors/45/']]"
CASES: dict[str, tuple[str, set[str]]] = {
    "Listing 1": (LISTING_1, {"#pollution", "paris://henri_martin_avenue./sensors/45/"}),
    "Listing 3": (
        "//qocindicator[@id='10' and qocriterion[@id='10.1']/qocmetricdefinition[@id='10.1']"
        " and qocmetricvalue[@value>='40']]",
        {"10", "10.1"},
    ),
    "double quotation marks": ('/a/b[@c="d"]', {"d"}),
    "the node itself": ("/a/*[.='x']", {"x"}),
    "an element called and": ("/a[and='x' and and]", {"x"}),
    "nothing is asked": ("/a/b", set()),
    "only numbers": ("/a[b=1]", set()),
    "not equal": ("/a[b!='x']", set()),
    "or": ("/a[b='x' or c='y']", set()),
    "not": ("/a[not(b='x')]", set()),
    "in brackets": ("/a[(b='x')]", set()),
    "a function": ("/a[contains(b, 'x')]", set()),
    "text nodes, of which there may be several": ("/a[text()='x']", set()),
    "an axis": ("/a[parent::b='x']", set()),
    "a namespace": ("/a[namespace::b='x']", set()),
    "an union": ("/a[b='x'] | /c", set()),
    "a comparison": ("/a='x'", set()),
    "a position": ("/a[1]", set()),
    "a text first": ("/a['x'=b]", set()),
    "two paths": ("/a[b=c]", set()),
    "a string": ("string(/a[b='x'])", set()),
    "longer than expressions are": (f"/a[b='{'x' * 1_000}']", set()),
}


@pytest.mark.parametrize(("expression", "texts"), CASES.values(), ids=CASES)
def test_texts_without_which_nothing_is_found(expression: str, texts: set[str]) -> None:
    assert texts_of(expression) == texts


DOCUMENTS = {
    "elements": b"<a><b>x</b><c>y</c></a>",
    "inside each other": b"<a><b>x<c>y</c>z</b><b/></a>",
    "attributes": b"<a b='x'><b c='y'>z</b></a>",
    "comments, instructions, references": b"<a><b>x<!-- z -->y</b><c><?b z?>&#120;</c>&lt;</a>",
    "raw text": b"<a><b>x<![CDATA[y]]></b><c><![CDATA[x]]></c></a>",
    "blanks": b"<a>\n  <b> x</b>\n  <c>x</c>\n</a>",
    "a namespace": b"<a><b xmlns='urn:x'>x</b><n:c xmlns:n='urn:x' n:b='y'/></a>",
}
PATHS = (".", "b", "c", "*", "@b", "@*", "b/c", ".//c", "//c", "/a/b")
SAID = ("x", "y", "xy", "xyz", "", "\n  ", "<", "z", "x<")
COMPARED = [f"{path}='{text}'" for path in PATHS for text in SAID]
EXPRESSIONS = [
    f"{around}[{inside}]"
    for around in ("//*", "//b", "/a", "//@*", "//*[b]", "//a[.//c]/b")
    for one in COMPARED
    for inside in (one, f"*[{one}]", f"{one} and b='x'", f"{one} and .!='x'")
]


@pytest.mark.parametrize("payload", DOCUMENTS.values(), ids=DOCUMENTS)
def test_what_is_found_has_the_texts(payload: bytes) -> None:
    content = Content(payload, Format.XML)
    document = content.document
    assert document is not None
    found = [one for one in EXPRESSIONS if content.xpath(one)]
    assert len(found) > 15
    assert all(texts_of(one) for one in found)
    assert [one for one in found if not texts_of(one) <= document.texts] == []


def test_long_texts_are_left_out_and_those_around_them() -> None:
    document = Content(f"<a><b>{'x' * 2_000}</b><c>y</c></a>".encode()).document
    assert document is not None
    assert document.texts == {"y"}
