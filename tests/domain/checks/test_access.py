"""`penstock check` on access policies: wrong files, and policies that are probably not what was meant."""

from pathlib import Path

import pytest

from penstock.domain import check, load, read
from penstock.model.errors import DomainError

LISTED = """
nodes: {plant: {listen: "127.0.0.1:1883"}}
clients: {e1: {node: plant, edge: G1/E1}, a1: {node: plant, groups: [analytics]}}
"""
OPEN = """
nodes: {plant: {listen: "127.0.0.1:1883"}}
"""
TOPICS = "spBv1.0/G1/NDATA/E1"


def warned(folder: Path, text: str, access: str) -> list[str]:
    file = folder / "domain.yaml"
    file.write_text(f"{text}access:\n{access}", "utf-8")
    return [str(warning).removeprefix(f"{file}:") for warning in check(read(file, {})).warnings]


@pytest.mark.parametrize(
    ("domain", "policy", "what"),
    [
        (LISTED, "{subject: a1, topics: T, may: read}", ""),
        (LISTED, '{subject: "group:analytics", topics: T, may: read}', ""),
        (LISTED, '{subject: ["*", G1/E1], topics: T, may: read}', ""),
        (LISTED, "{subject: a2, topics: T, may: read}", "no client has the id `a2`, there is `a1` and `e1`"),
        (
            OPEN,
            "{subject: a2, topics: T, may: read}",
            "anyone may connect as `a2`: it is not among `clients`, and node",
        ),
        (
            LISTED,
            '{subject: "user:bob", topics: T, may: read}',
            "a client that claims to be user `bob` is refused: node `plant` has no",
        ),
        (LISTED, "{subject: G1/E2, topics: T, may: read}", "no client is edge node `G1/E2`, did you mean `G1/E1`?"),
        (LISTED, '{subject: "group:x", topics: T, may: read}', "no client is in group `x`, there is `analytics`"),
        (LISTED, "{subject: a1, topics: plant/#, may: read}", "`plant/#` matches no Sparkplug topic"),
        (LISTED, "{subject: a1, topics: spBv1.0/G1/NDATUM/E1, may: read}", "matches no Sparkplug topic"),
        (LISTED, "{subject: a1, topics: spBv1.0/G1/+/E1/d/x, may: read}", "matches no Sparkplug topic"),
        (LISTED, '{subject: a1, topics: "#", may: read}', ""),
        (LISTED, "{subject: a1, topics: T, may: read, when: a.value > 5 && a.value < 5}", "is never true"),
        (LISTED, "{subject: a1, topics: T, may: read, when: message.value > 5}", "`metrics['message']`"),
        (LISTED, "{subject: a1, topics: T, may: read, when: subject.value > 5}", "`metrics['subject']`"),
        (LISTED, "{subject: a1, topics: T, may: read, when: now.value > 5}", "`metrics['now']`"),
        (LISTED, "{subject: a1, topics: T, may: read, when: metrics.value > 5}", "`metrics['metrics']`"),
        (LISTED, "{subject: a1, topics: T, may: read, when: message.type == 'x' && metrics.a.value == 1}", ""),
    ],
)
def test_warnings(tmp_path: Path, domain: str, policy: str, what: str) -> None:
    warnings = warned(tmp_path, domain, f"  - {policy.replace('topics: T', f'topics: {TOPICS}')}\n")
    assert len(warnings) == bool(what)
    assert not what or (what in warnings[0] and "access[0]: " in warnings[0])


def test_of_many_alike_in_a_file_one_is_told_and_their_number(tmp_path: Path) -> None:
    rows = [f"x{number},{TOPICS},read" for number in range(5)] + ["a1,plant/#,read"]
    (tmp_path / "bulk.csv").write_text("\n".join(["subject,topics,may", *rows]))
    first, second = warned(tmp_path, LISTED, "  files: bulk.csv\n")
    assert "access.files: " in first
    assert "bulk.csv:2: no client has the id `x0`" in first
    assert first.endswith("; and 4 more like it")
    assert second.endswith("bulk.csv:7: `plant/#` matches no Sparkplug topic")


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("b.csv", "subject,topics,may\na1,spBv1.0/#,read\na1,spBv1.0/#,reed\n", "b.csv:3: unknown privilege `reed`"),
        ("b.csv", "subject,topics,may\na1,spBv1.0/#/x,read\n", "b.csv:2: `topics`"),
        ("b.csv", 'subject,topics,may,when\na1,spBv1.0/#,read,"a.value >"\n', "b.csv:2: `when`"),
        ("b.csv", "subject,topics,may\na1,spBv1.0/#\n", "b.csv:2: expected 3 columns, found 2"),
        ("b.csv", "who,topics,may\n", "b.csv:1: expected a header"),
        ("b.jsonl", '{"subject": "a1", "topics": "a", "may": "read"}\n{"subject": 1}\n', "b.jsonl:2: "),
        ("b.jsonl", '{"subject"\n', "b.jsonl:1: expected a JSON object"),
        ("b.jsonl", '{"subject": "a1", "topic": "a", "may": "read"}\n', "b.jsonl:1: unknown column `topic`"),
        ("b.txt", "", "expected a file that ends in .csv or .jsonl"),
        ("b.csv", None, "No such file"),
    ],
)
def test_a_file_that_is_wrong_is_named_with_its_line(tmp_path: Path, name: str, text: str | None, what: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    (tmp_path / "domain.yaml").write_text(f"{LISTED}access: {{files: [{name}]}}\n")
    with pytest.raises(DomainError) as raised:
        load(tmp_path / "domain.yaml", {})
    (problem,) = raised.value.problems
    assert (problem.line, problem.path) == (4, "access.files[0]")
    assert what in problem.what


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text(f"{LISTED}access: {{files: b.csv}}\n")
    for may in ("read", "writ"):
        (tmp_path / "b.csv").write_text(f"subject,topics,may\na1,spBv1.0/#,{may}\n")
        if may == "read":
            load(tmp_path / "domain.yaml", {})
    with pytest.raises(DomainError, match=r"b\.csv:2: unknown privilege `writ`"):
        load(tmp_path / "domain.yaml", {})
