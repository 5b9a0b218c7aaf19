"""`penstock xacml`: check, decide, print, and the conformance cases' runner on cases of our own."""

import json
from pathlib import Path

import pytest

from penstock.cli.main import main
from penstock.policy.xacml import read_policy, read_short
from penstock.policy.xacml.names import CORE

CASES = Path(__file__).parents[2] / "cases/xacml"
REQUEST = {
    "Request": {
        "AccessSubject": {
            "Attribute": [
                {"AttributeId": f"urn:oasis:names:tc:xacml:3.0:example:attribute:{name}", "Value": value}
                for name, value in (("group", "INCOME"), ("purpose", "health"))
            ]
        },
        "Resource": {
            "Attribute": [{"AttributeId": "urn:oasis:names:tc:xacml:1.0:resource:resource-id", "Value": "location"}]
        },
        "Action": {"Attribute": [{"AttributeId": "urn:oasis:names:tc:xacml:1.0:action:action-id", "Value": "access"}]},
    }
}


@pytest.fixture
def request_file(tmp_path: Path) -> str:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(REQUEST))
    return str(file)


def test_check_counts_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xacml", "check", str(CASES / "listing-2.xml")]) == 0
    assert "0 policy sets, 1 policies, 2 rules" in capsys.readouterr().out


def test_check_says_what_is_wrong_and_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.xml"
    file.write_text((CASES / "listing-2.xml").read_text().replace("string-equal", "strings-equal"))
    assert main(["xacml", "check", str(file)]) == 3
    assert "strings-equal" in capsys.readouterr().err
    file.write_text("<Policy")
    assert main(["xacml", "check", str(file)]) == 3
    assert f"{file}: not XML" in capsys.readouterr().err


BAG = "{attribute: resource.id}"
ONE = f"{{apply: string-one-and-only, to: [{BAG}]}}"


@pytest.mark.parametrize(
    ("rule", "is_good"),
    [
        ("{permit: {resource.id: {matches: 'a+'}}}", True),
        ("{permit: {resource.id: {matches: 'a('}}}", False),
        (f"{{permit: {{}}, when: {{apply: string-regexp-match, to: ['[a', {ONE}]}}}}", False),
        (
            f"{{permit: {{}}, when: {{not: {{apply: any-of, to: [{{function: string-regexp-match}}, '[a', {BAG}]}}}}}}",
            False,
        ),
    ],
)
def test_a_pattern_that_is_none(rule: str, is_good: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"policy: p\nattributes: {{resource.id: {{id: x}}}}\nrules: [{rule}]\n")
    assert main(["xacml", "check", str(file)]) == (0 if is_good else 3)
    assert ("is not a regular expression" in capsys.readouterr().err) == (not is_good)


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xacml", "check", "no-such-file.xml"]) == 1
    assert "cannot read `no-such-file.xml`" in capsys.readouterr().err


@pytest.mark.parametrize("policy", ["listing-2.xml", "listing-2.yaml"])
def test_decide(policy: str, request_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xacml", "decide", "--policy", str(CASES / policy), "--request", request_file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"Response": [{"Decision": "Permit"}]}
    assert main(["xacml", "decide", "--policy", str(CASES / policy), "--request", request_file]) == 0
    assert "<Decision>Permit</Decision>" in capsys.readouterr().out


def test_what_is_no_request_has_an_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "request.xml"
    file.write_text("<Request/>")
    assert main(["xacml", "decide", "--policy", str(CASES / "listing-2.xml"), "--request", str(file), "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["Response"]
    assert result["Decision"] == "Indeterminate"
    assert result["Status"]["StatusCode"]["Value"].endswith("syntax-error")


@pytest.mark.parametrize(("name", "text"), [("a.json", "[]"), ("b.json", "{"), ("c.json", "x"), ("d", "[1]")])
def test_json_that_is_no_request_is_not_called_xml(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert main(["xacml", "decide", "--policy", str(CASES / "listing-2.xml"), "--request", str(file)]) == 0
    out = capsys.readouterr().out
    assert "Indeterminate" in out
    assert "XML:" not in out
    if name.endswith(".json"):
        assert main(["xacml", "check", str(file)]) == 3
        assert "not in JSON" in capsys.readouterr().err


def test_decide_at_a_time_with_references(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "set.yaml").write_text("{policy_set: s, policies: [{reference: hours}]}")
    (tmp_path / "hours.yaml").write_text(
        "policy: hours\ncombine: first-applicable\n"
        "rules: [{permit: {}, when: 'environment.now.getHours() < 12'}, {deny: {}}]\n"
    )
    (tmp_path / "request.json").write_text('{"Request": {}}')
    for at, expected in (("2026-11-16T09:00:00Z", "Permit"), ("2026-11-16T13:00:00Z", "Deny")):
        arguments = ["--policy", str(tmp_path / "set.yaml"), "--reference", str(tmp_path / "hours.yaml"), "--at", at]
        assert main(["xacml", "decide", *arguments, "--request", str(tmp_path / "request.json"), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["Response"][0]["Decision"] == expected
    with pytest.raises(SystemExit):
        main(["xacml", "decide", *arguments[:-1], "noon", "--request", str(tmp_path / "request.json")])


def test_print_is_the_same_policy_as_xml(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["xacml", "print", str(CASES / "listing-2.yaml")]) == 0
    printed = capsys.readouterr().out
    assert read_policy(printed.encode()) == read_short((CASES / "listing-2.yaml").read_bytes())


# --- conformance cases, of our own making


def _request(**attributes: str) -> str:
    elements = "".join(
        f'<Attribute AttributeId="{name}" IncludeInResult="false"><AttributeValue '
        f'DataType="http://www.w3.org/2001/XMLSchema#string">{value}</AttributeValue></Attribute>'
        for name, value in attributes.items()
    )
    category = "urn:oasis:names:tc:xacml:1.0:subject-category:access-subject"
    return (
        f'<Request xmlns="{CORE}" ReturnPolicyIdList="false" CombinedDecision="false">'
        f'<Attributes Category="{category}">{elements}</Attributes></Request>'
    )


def _response(decision: str, status: str = "ok", obligations: str = "") -> str:
    return (
        f'<Response xmlns="{CORE}"><Result><Decision>{decision}</Decision><Status><StatusCode '
        f'Value="urn:oasis:names:tc:xacml:1.0:status:{status}"/></Status>{obligations}</Result></Response>'
    )


def _policy(effect: str, name: str = "p", inside: str = "") -> str:
    algorithm = "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-overrides"
    return (
        f'<Policy xmlns="{CORE}" PolicyId="{name}" Version="1.0" RuleCombiningAlgId="{algorithm}"><Target/>'
        f'<Rule RuleId="r" Effect="{effect}">{inside}</Rule></Policy>'
    )


def _set(*references: str) -> str:
    algorithm = "urn:oasis:names:tc:xacml:3.0:policy-combining-algorithm:deny-overrides"
    inside = "".join(f"<PolicyIdReference>{reference}</PolicyIdReference>" for reference in references)
    return (
        f'<PolicySet xmlns="{CORE}" PolicySetId="s" Version="1.0" PolicyCombiningAlgId="{algorithm}"><Target/>'
        f"{inside}</PolicySet>"
    )


OBLIGATION = '<Obligations><Obligation ObligationId="o" FulfillOn="Permit"/></Obligations>'
EXPRESSION = (
    '<ObligationExpressions><ObligationExpression ObligationId="o" FulfillOn="Permit"/></ObligationExpressions>'
)
NEVER = '<Condition><Apply FunctionId="urn:oasis:names:tc:xacml:1.0:function:or"/></Condition>'
FILES = {
    "IIA001Policy.xml": _policy("Permit"),
    "IIA001Request.xml": _request(a="b"),
    "IIA001Response.xml": _response("Permit"),
    "IIA012Policy.xml": _policy("Permit", inside="<Condition/>"),
    "IIA012Request.xml": _request(),
    "IIA012Response.xml": _response("Indeterminate", "syntax-error"),
    "IIA003Policy.xml": _policy("Permit"),
    "IIA003Request.xml": _request().replace("Category=", "Kategorie="),
    "IIA003Response.xml": _response("Indeterminate", "processing-error"),
    "IIE001Policy.xml": _set("q"),
    "IIE001PolicyId1.xml": _policy("Deny", "q"),
    "IIE001Request.xml": _request(),
    "IIE001Response.xml": _response("Deny"),
    "IIIA001Policy.xml": _policy("Permit", inside=EXPRESSION),
    "IIIA001Request.xml": _request(),
    "IIIA001Response.xml": _response("Permit", obligations=OBLIGATION),
    "IID029Policy1.xml": _policy("Permit", "a"),
    "IID029Policy2.xml": _policy("Permit", "b"),
    "IID029Request.xml": _request(),
    "IID029Response.xml": _response("Indeterminate", "processing-error"),
    "folders/IIA901/Policy.xml": _policy("Permit"),
    "folders/IIA901/Request.xml": _request(),
    "folders/IIA901/Response.xml": _response("Permit"),
    "folders/IIE901/Policy.xml": _set("q"),
    "folders/IIE901/Policies/any-name.xml": _policy("Permit", "q"),
    "folders/IIE901/Request.xml": _request(),
    "folders/IIE901/Response.xml": _response("Permit"),
    "folders/IIA902/Policy.xml": _policy("Permit", inside="<Condition/>"),
    "folders/IIA902/Request.xml.ignore": _request(),
    "folders/IIA902/Response.xml.ignore": _response("Indeterminate", "syntax-error"),
}
FILES |= {
    "IIE003Policy.xml": _set("good", "bad").replace(
        "3.0:policy-combining-algorithm:deny-overrides", "1.0:policy-combining-algorithm:first-applicable"
    ),
    "IIE003PolicyId1.xml": _policy("Permit", "good"),
    "IIE003PolicyId2.xml": _policy("Permit", "bad", "<Condition/>"),
    "IIE003Request.xml": _request(),
    "IIE003Response.xml": _response("Permit"),
    "IIE004Policy.xml": _set("bad"),
    "IIE004PolicyId2.xml": _policy("Permit", "bad", "<Condition/>"),
    "IIE004Request.xml": _request(),
    "IIE004Response.xml": _response("Indeterminate", "processing-error"),
}
FILES |= {
    "IID028Policy1.xml": _policy("Permit", "a", NEVER),
    "IID028Policy2.xml": _policy("Deny", "b"),
    "IID028Request.xml": _request(),
    "IID028Response.xml": _response("Deny"),
}
SHARED = {
    "IIE001Policy.xml": _set("q"),
    "IIE001Request.xml": _request(),
    "IIE001Response.xml": _response("Deny"),
    "IIE002Policy.xml": _set("q", "common"),
    "IIE002Request.xml": _request(),
    "IIE002Response.xml": _response("Permit"),
    "IIE003Policy.xml": _set("common"),
    "IIE003Request.xml": _request(),
    "IIE003Response.xml": _response("Permit"),
    "Policies/IIE001Policy1.xml": _policy("Deny", "q"),
    "Policies/IIE002PolicyId1.xml": _policy("Permit", "q"),
    "Policies/PolicyId1.xml": _policy("Permit", "common"),
    "IIE904/Policy.xml": _set("q"),
    "IIE904/Policies/IIE904PolicyId1.xml": _policy("Permit", "q"),
    "IIE904/Request.xml": _request(),
    "IIE904/Response.xml": _response("Permit"),
}
FAILING = {
    "IIZ001Policy.xml": _policy("Permit"),
    "IIZ001Request.xml": _request(),
    "IIZ001Response.xml": _response("Deny"),
    "IIZ002Policy.xml": _policy("Permit"),
    "IIZ002Request.xml": _request(),
    "IIZ002Response.xml": _response("Permit", obligations=OBLIGATION),
    "IIZ003Policy.xml": _policy("Permit").replace("<Target/>", "<PolicyIssuer/><Target/>", 1),
    "IIZ003Request.xml": _request(),
    "IIZ003Response.xml": _response("Permit"),
}


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_conformance_cases_that_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, FILES)
    assert main(["xacml", "conformance", str(tmp_path), "--all"]) == 0
    out = capsys.readouterr().out
    assert "12 pass, 0 fail, 0 unsupported" in out
    assert "IIA003: status syntax-error, not processing-error" in out


def test_referenced_policies_may_be_in_a_folder_for_all_cases(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that begins with a case's name is that case's; the others are for all (issue 17, item 25)."""
    _write(tmp_path, SHARED)
    assert main(["xacml", "conformance", str(tmp_path), "--all"]) == 0, capsys.readouterr().out
    assert "4 pass, 0 fail, 0 unsupported" in capsys.readouterr().out


def test_conformance_cases_that_fail_or_are_not_taken_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write(tmp_path, FILES | FAILING)
    assert main(["xacml", "conformance", str(tmp_path)]) == 4
    out = capsys.readouterr().out
    assert "fail        IIZ001: Permit, not Deny" in out
    assert "fail        IIZ002: obligations" in out
    assert "unsupported IIZ003" in out
    assert "12 pass, 2 fail, 1 unsupported" in out
    assert main(["xacml", "conformance", str(tmp_path), "--only", "IIA"]) == 0


def test_a_folder_without_cases_is_a_bad_argument(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(SystemExit) as ended:
            main(["xacml", "conformance", str(folder)])
        assert ended.value.code == 2
