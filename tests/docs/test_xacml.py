"""What docs/xacml.md shows is so."""

import re
from pathlib import Path

import pytest

from penstock.policy.xacml import Pdp, read_short
from penstock.policy.xacml.forms.short import from_plain, read_yaml
from penstock.policy.xacml.request import Context
from tests.support.cases.xacml import single

PAGE = (Path(__file__).parents[2] / "docs/xacml.md").read_text()
POLICY = re.search(r"```yaml\n(policy: location\n.*?)```", PAGE, re.DOTALL)
NINE = 9 * 3600 * 10**9


def test_the_policy_of_the_page_decides_as_it_says() -> None:
    assert POLICY is not None
    pdp = Pdp([read_short(POLICY[1].encode())])

    def decide(other: dict[str, object], now: int = NINE) -> str:
        attributes = {"subject.purpose": "health", "resource.kind": "location", "subject.id": "Bob", **other}
        return pdp.evaluate(Context(single(attributes), now)).decision.shown

    nurse: dict[str, object] = {
        "subject.urn:example:group": "INCOME",
        "subject.urn:example:age": 30,
        "subject.urn:example:role": "nurse",
    }
    assert decide(nurse) == "Permit"
    assert decide(nurse, 21 * 3600 * 10**9) == "Deny"
    assert decide(nurse | {"subject.purpose": "advertising"}) == "Deny"
    assert decide(nurse | {"subject.urn:example:age": 17}) == "Deny"
    assert decide({}) == "Deny"  # the group is required and missing


@pytest.mark.parametrize("text", re.findall(r"`(\{xpath[^`]*\}|\{cel[^`]*\})`", PAGE))
def test_expressions_of_the_page_are_read(text: str) -> None:
    plain = read_yaml(text.replace('"..."', "\"subject.id == 'x'\"").encode())
    condition = plain if "cel" in plain else {"apply": "string-is-in", "to": ["x", plain]}
    Pdp([from_plain({"policy": "p", "rules": [{"permit": {}, "when": condition}]})])
