"""The canonical form: it means the same, is its own canonical form, and keeps every comment."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, example, given
from hypothesis import strategies as st

from penstock.domain.yaml.comments import notes_of
from penstock.domain.yaml.format import formatted
from penstock.domain.yaml.layout import layout, text_of
from penstock.model.errors import DomainError
from penstock.model.yaml.document import compose
from penstock.model.yaml.tree import plain

WORDS = st.sampled_from(["nodes", "links", "between", "a", "on", "yes", "1", "1:30", "* -> a", "", "#", "x y", "{1}"])
TEXTS = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=8) | WORDS
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def canonical(text: str) -> str:
    root = compose(text, "t.yaml", Path(), [])
    return layout(root.node, notes_of(text, root))


def meaning(text: str) -> object:
    return plain(compose(text, "t.yaml", Path(), []).node)


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("\u0085")
@example("a: b")
@example("- a")
@example("a #b")
@example("\U0001f600 \u2028")
def test_a_text_is_read_as_the_same_text(text: str) -> None:
    written = text_of(text)
    for form in (f"k: {written}\n", f"k: [{written}, {written}]\n", f"{{{written}: 1}}\n"):
        value = meaning(form)
        assert value in ({"k": text}, {"k": [text, text]}, {text: 1})


@given(st.dictionaries(TEXTS.filter(lambda key: key != "<<"), VALUES, min_size=1, max_size=5))
def test_the_canonical_form_means_the_same_and_is_stable(value: dict[str, object]) -> None:
    text = json.dumps(value)
    assume("\\u" not in text and "Infinity" not in text)
    once = canonical(text)
    assert meaning(once) == meaning(text)
    assert canonical(once) == once


FILE = """\
links: []
nodes:
  a: {store: memory, listen: 127.0.0.1:0}
  b:
    store: memory
    listen:
      - 127.0.0.1:1
      - 127.0.0.1:2
domain: x
monitors:
  m: {link: a -> b, states: {
    q0: {x: pass},
    q1: {y: pass}}}
""".splitlines()


@given(st.data())
def test_every_comment_is_kept_once(data: st.DataObject) -> None:
    lines, count = list[str](), 0
    for line in FILE:
        for _ in range(data.draw(st.integers(0, 2))):
            lines.append(data.draw(st.sampled_from(["", "  "])) + f"# c{count}" if data.draw(st.booleans()) else "")
            count += 1
        behind = data.draw(st.booleans())
        lines.append(f"{line}  # c{count}" if behind else line)
        count += behind
    text = "\n".join([*lines, *(["# the end"] if data.draw(st.booleans()) else [])]) + "\n"
    once = canonical(text)
    assert sorted(re.findall(r"# c\d+|# the end", once)) == sorted(re.findall(r"# c\d+|# the end", text))
    assert meaning(once) == meaning(text)
    assert canonical(once) == once


def test_keys_come_in_the_order_of_the_models_and_names_in_that_of_the_file() -> None:
    text = "links: [{type: t, between: [b, a]}]\nnodes: {b: {store: memory, listen: x}, a: {listen: y}}\ndomain: d\n"
    assert canonical(text) == (
        "domain: d\nnodes:\n  b: {listen: x, store: memory}\n  a: {listen: y}\nlinks:\n  - {between: [b, a], type: t}\n"
    )


@pytest.mark.parametrize("parser", ["CSafeLoader", "SafeLoader"])
def test_comments_go_with_what_they_are_about(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, parser))
    text = """\
# A home.
# All of it.

# who is joined
links:   # none yet
  []


nodes:
  # in the cellar
  a:  {listen: x}  # old
  b: {listen: [p,
    # the second
    q]}
domain: d # its name
# the end
"""
    assert canonical(text) == (
        "# A home.\n# All of it.\n\n"
        "domain: d  # its name\n\n"
        "nodes:\n"
        "  # in the cellar\n"
        "  a: {listen: x}  # old\n"
        "  b:\n"
        "    listen:\n"
        "      - p\n"
        "      # the second\n"
        "      - q\n"
        "# who is joined\n"
        "links: []  # none yet\n"
        "# the end\n"
    )


def test_what_does_not_fit_on_a_line_gets_several() -> None:
    long = "x" * 50
    text = f"clients: {{{long}: {{node: a, type: {long}}}, b: {{node: a}}}}\n"
    assert canonical(text) == f"clients:\n  {long}:\n    node: a\n    type: {long}\n  b: {{node: a}}\n"


def test_a_comment_behind_an_item_that_does_not_fit_stays_with_it() -> None:
    long = "x" * 50
    listen = f"      - p  # one\n      - address: q  # two\n        tls: {{cert: {long}, key: {long}}}\n"
    once = canonical(f"nodes:\n  a:\n    listen:\n{listen}")
    assert f"      - p  # one\n      - address: q  # two\n        tls:\n          cert: {long}\n" in once
    assert canonical(once) == once


def test_anchors_and_merge_keys_are_written_out() -> None:
    text = "nodes:\n  a: &a {listen: x, store: memory}\n  b: {<<: *a, listen: y}\n"
    assert canonical(text) == "nodes:\n  a: {listen: x, store: memory}\n  b: {listen: y, store: memory}\n"


LINES = st.text(st.sampled_from("a {}:#-|'\"\t\n\u0085\u2028"), max_size=30)


@given(
    LINES, st.sampled_from(["{{statements: {{policies: {{a: {}}}}}}}", "{{a: [{{b: {}, c: 1}}]}}", "{{a: [[1, {}]]}}"])
)
@example("P {\n\n  a # b\n}\n", "{{a: {{b: {}}}}}")
def test_texts_of_several_lines_mean_the_same_and_are_stable(text: str, where: str) -> None:
    written = where.format(json.dumps(text, ensure_ascii=True))
    laid_out = canonical(written)
    assert meaning(laid_out) == meaning(written)
    assert canonical(laid_out) == laid_out


def test_a_text_of_several_lines_is_written_line_by_line() -> None:
    text = """statements: {policies: {a: "P {\\n\\n  If {}\\n}\\n", b: "x\\ny", c: " x\\ny", d: "x\\n\\n\\ny"}}"""
    assert canonical(text).splitlines() == [
        "statements:",
        "  policies:",
        "    a: |",
        "      P {",
        "",
        "        If {}",
        "      }",
        "    b: |-",
        "      x",
        "      y",
        '    c: " x\\ny"',
        '    d: "x\\n\\n\\ny"',
    ]


def test_words_that_other_tools_read_as_something_else_are_quoted() -> None:
    assert canonical("domain: no\nclients: {x: {user: '1:30', id: 'null', node: 2024-01-01}}\n") == (
        'domain: "no"\nclients:\n  x: {node: "2024-01-01", id: "null", user: "1:30"}\n'
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a\n", "found a list, expected a mapping"),
        ("a: 1\na: 2\n", "found a second `a`"),
        ("a: [\n", "not valid YAML"),
    ],
)
def test_what_cannot_be_read_is_not_formatted(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(DomainError, match=re.escape(says)):
        formatted(tmp_path / "t.yaml")
