"""Elements of installed packages: the example package of the docs."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.language.statements.statement import Matching, Message, Point, Verb
from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.model.event import Event
from penstock.policy.statements.copies import PublicationCopy
from penstock.policy.statements.elements.table import BUILT_IN, elements
from penstock.policy.statements.judging import Bound, Here, Judgement, judge
from penstock.policy.statements.statement import make_policy

EXAMPLE = Path(__file__).parents[3] / "docs" / "example-element"
RULE = "PolicyStatement {{ On(Forward, Publication) {{ If {{{}}} Then {{{}}} }} }}"


def install(folder: Path, points: str) -> None:
    """What pip would have put beside the module."""
    folder.mkdir(exist_ok=True)
    info = folder / "penstock_formats-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock-formats\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[penstock.elements]\n{points}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    elements.cache_clear()
    yield tmp_path
    elements.cache_clear()
    sys.modules.pop("penstock_formats", None)


@pytest.fixture
def _formats(site: Path) -> None:
    stated = (EXAMPLE / "pyproject.toml").read_text().partition('"penstock.elements"]\n')[2].splitlines()[0]
    install(site, stated.replace('"', ""))
    shutil.copy(EXAMPLE / "penstock_formats.py", site)


def judged(text: str, payload: bytes) -> PublicationCopy:
    event = Event("t", payload)
    copy = PublicationCopy(event, Content(payload))
    judgement = Judgement(Message.PUBLICATION, copy, Here("n"))
    judge(judgement, Verb.FORWARD, frozenset({Point.EGRESS}), [Bound(make_policy(text), "p")], Matching.AFTER)
    return copy


@pytest.mark.usefixtures("_formats")
def test_the_example_package_s_elements_are_called() -> None:
    assert set(elements()) == {one.name for one in BUILT_IN} | {"ToFormat1", "ToFormat2", "IsUnder"}
    copy = judged(RULE.format("IsUnder(t)", "RemoveAttributes(c), ToFormat1()"), b'{"b": 2, "a": "x", "c": 1}')
    assert (copy.payload, copy.content_type) == (b"a=x\nb=2\n", "text/plain")


@pytest.mark.usefixtures("_formats")
def test_what_an_element_finds_wrong_is_an_exception_of_its_rule() -> None:
    text = "PolicyStatement {{ On(Forward, Publication) {{ If {{}} Then {{ToFormat2()}} OnException {{{}}} }} }}"
    copy = judged(text.format("If {} Then {ToFormat1()}"), b'{"a": ";"}')
    assert copy.payload == b"a=;\n"


def test_an_element_that_is_none_is_told(site: Path) -> None:
    install(site, "formats = json:loads")
    with pytest.raises(PolicyError, match=r"entry point `json:loads` of `penstock.elements`: expected an element"):
        elements()


def test_an_element_that_cannot_be_loaded_is_told(site: Path) -> None:
    install(site, "formats = penstock_formats:ELEMENTS")
    with pytest.raises(PolicyError, match=r"entry point `penstock_formats:ELEMENTS` of .* cannot be loaded: No module"):
        elements()
