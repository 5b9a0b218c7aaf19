from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import PolicyError
from penstock.policy.access.acl import Acl, AclRule, Rights

FILE = """\
# Everybody
topic read news/#
topic greetings

user ann
topic readwrite home/#
topic deny home/diary
topic write with a space/in it
pattern read mail/%u/in
pattern write sensor/%c/data
pattern deny mail/eve/#

user bob
topic read home/+
user ann
topic read late/+
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "acl"


@pytest.fixture
def acl(path: Path) -> Acl:
    path.write_text(FILE)
    return Acl.read(path)


@pytest.mark.parametrize(
    ("title", "client", "user", "topic", "read", "write"),
    [
        ("what nobody was granted is denied", "c", "ann", "other", False, False),
        ("lines before the first user are for clients without a name", "c", None, "news/a", True, False),
        ("without an access word both are granted", "c", None, "greetings", True, True),
        ("a user does not have what clients without a name have", "c", "ann", "news/a", False, False),
        ("nor has a user whom the file does not name", "c", "zoe", "news/a", False, False),
        ("a user has her lines", "c", "ann", "home/x/y", True, True),
        ("deny wins over a wider grant", "c", "ann", "home/diary", False, False),
        ("a filter may have spaces after an access word", "c", "ann", "with a space/in it", False, True),
        ("a user has his lines only", "c", "bob", "home/diary", True, False),
        ("a user may be continued later", "c", "ann", "late/x", True, False),
        ("a user named later does not change patterns", "c", "bob", "mail/bob/in", True, False),
        ("a pattern is for the user named in the topic", "c", "bob", "mail/ann/in", False, False),
        ("a pattern may deny", "c", "eve", "mail/eve/in", False, False),
        ("%u needs a user name", "c", None, "mail//in", False, False),
        ("%c is the client id", "s1", None, "sensor/s1/data", False, True),
        ("%c is the client id of a named user too", "s1", "ann", "sensor/s1/data", False, True),
        ("%c is not another's id", "s1", None, "sensor/s2/data", False, False),
        ("an id with `+` has no pattern", "+", None, "sensor/s2/data", False, False),
        ("an id with `#` has no pattern", "a#", "bob", "mail/bob/in", False, False),
        ("but keeps its topics", "a#", "bob", "home/x", True, False),
        ("an id with `/` is not put in", "a/b", None, "sensor/a/b/data", False, False),
        ("but other patterns stay", "a/b", "bob", "mail/bob/in", True, False),
        ("an id that looks like a placeholder is plain text", "%u", "bob", "sensor/%u/data", False, True),
    ],
)
def test_rights(acl: Acl, title: str, client: str, user: str | None, topic: str, read: bool, write: bool) -> None:
    rights = acl.rights(client, user)
    assert (rights.may_read(topic), rights.may_write(topic)) == (read, write), title


def test_a_grant_by_topic_stands_against_a_denial_by_pattern(path: Path) -> None:
    path.write_text("user ann\ntopic read a/#\npattern deny a/b\n")
    acl = Acl.read(path)
    assert acl.rights("c", "ann").may_read("a/b")
    assert not acl.rights("c", "bob").may_read("a/b")


def test_a_wildcard_does_not_reach_dollar_topics(path: Path) -> None:
    path.write_text("topic read #\n")
    assert not Acl.read(path).rights("c", None).may_read("$SYS/broker/uptime")
    path.write_text("topic read $SYS/#\n")
    assert Acl.read(path).rights("c", None).may_read("$SYS/broker/uptime")


def test_an_id_with_a_slash_is_put_into_a_pattern_that_denies(path: Path) -> None:
    path.write_text("pattern read #\npattern deny private/%c\n")
    assert not Acl.read(path).rights("a/b", None).may_read("private/a/b")


def test_an_empty_file_grants_nothing(path: Path) -> None:
    path.touch()
    rights = Acl.read(path).rights("c", None)
    assert not rights.may_read("a")
    assert not rights.may_write("a")


@pytest.mark.parametrize(
    ("title", "rules", "filter", "granted"),
    [
        ("granted without any right", "", "a/b", True),
        ("granted where nothing can be read but nothing is denied", "topic write #", "a/#", True),
        ("refused if a deny covers it", "topic read #\ntopic deny a/#", "a/+/c", False),
        ("granted if a deny covers part of it", "topic deny a/b", "a/+", True),
        ("refused if a pattern denies it", "pattern deny a/%c", "a/me", False),
        ("granted if a topic stands against the pattern", "topic read a/me\npattern deny a/#", "a/+", True),
        ("refused if that topic grants writing only", "topic write a/me\npattern deny a/#", "a/+", False),
        ("a shared subscription is judged by its filter", "topic deny a/#", "$share/g/a/b", False),
        ("a shared subscription of another filter is granted", "topic deny a/#", "$share/a/b", True),
    ],
)
def test_subscriptions(path: Path, title: str, rules: str, filter: str, granted: bool) -> None:
    path.write_text(rules)
    assert Acl.read(path).rights("me", None).may_subscribe(filter) == granted, title


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("topic", "expected a topic filter after `topic`"),
        ("pattern  ", "expected a topic filter after `pattern`"),
        ("user", "expected a user name after `user`"),
        ("topic reed a", "unknown access `reed`: expected read, write, readwrite or deny"),
        ("  # indented", "unknown keyword `#`: expected user, topic or pattern"),
        ("listener 1883", "unknown keyword `listener`: expected user, topic or pattern"),
        ("topic read a#b", "wildcard `#` "),
        ("pattern a/#/b", "wildcard `#` "),
    ],
)
def test_a_bad_line_is_named(path: Path, line: str, message: str) -> None:
    path.write_text(f"topic a\n\n{line}\n")
    with pytest.raises(PolicyError) as caught:
        Acl.read(path)
    assert str(caught.value).startswith(f"{path}:3: {message}")


@pytest.mark.parametrize(
    ("title", "left", "right"),
    [
        ("users without lines", ("c1", "yul"), ("c2", "zoe")),
        ("two connections of one user", ("c1", "ann"), ("c2", "ann")),
        ("equal lines in two places and orders", ("c1", "kim"), ("c2", "lee")),
    ],
)
def test_equal_rights_are_equal(path: Path, title: str, left: tuple[str, str], right: tuple[str, str]) -> None:
    path.write_text(
        "user ann\ntopic a\nuser kim\ntopic read x\ntopic deny y\nuser lee\ntopic deny y\ntopic read x\n"
        "topic read x\npattern read all/#\n"
    )
    acl = Acl.read(path)
    assert acl.rights(*left) == acl.rights(*right), title
    assert hash(acl.rights(*left)) == hash(acl.rights(*right))


def test_different_rights_differ(acl: Acl) -> None:
    clients: list[tuple[str, str | None]] = [("c1", "ann"), ("c2", "ann"), ("c1", "bob"), ("c1", None)]
    assert len({acl.rights(*client) for client in clients}) == len(clients)


def explain(path: Path, ask: str, rights: Rights, topic: str) -> str:
    answer: str = getattr(rights, ask)(topic)
    return answer.replace(str(path), "acl")


@pytest.mark.parametrize(
    ("ask", "client", "user", "topic", "answer"),
    [
        ("why_read", "c", None, "news/a", "may read `news/a`: by acl:2 `topic read news/#`"),
        (
            "why_write",
            "c",
            "ann",
            "home/diary",
            "may not write to `home/diary`: by acl:7 `topic deny home/diary`",
        ),
        (
            "why_write",
            "s1",
            None,
            "sensor/s1/data",
            "may write to `sensor/s1/data`: by acl:10 `pattern write sensor/%c/data`",
        ),
        (
            "why_read",
            "c",
            "zoe",
            "news/a",
            "may not read `news/a`: `acl` grants it neither to user `zoe` nor to client id `c` by a pattern",
        ),
        (
            "why_write",
            "a+",
            None,
            "news/a",
            "may not write to `news/a`: `acl` grants it neither to a client without a user name "
            "nor to client id `a+` by a pattern; a name with `+` or `#` in it has no right by pattern",
        ),
        (
            "why_subscribe",
            "c",
            "ann",
            "home/diary",
            "may not subscribe to `home/diary`: nothing of it may be read, by acl:7 `topic deny home/diary`",
        ),
        (
            "why_subscribe",
            "c",
            "ann",
            "home/#",
            "may subscribe to `home/#`: what may be read is decided for each message",
        ),
    ],
)
def test_answers_are_explained(
    path: Path, acl: Acl, ask: str, client: str, user: str | None, topic: str, answer: str
) -> None:
    assert explain(path, ask, acl.rights(client, user), topic) == answer


LEVELS = st.sampled_from(["a", "b", "", "$x", "+"])


@st.composite
def filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(LEVELS, min_size=1, max_size=3)) + (["#"] if draw(st.booleans()) else [])
    return "/".join(levels) or "#"


topics = st.lists(st.sampled_from(["a", "b", "", "$x"]), min_size=1, max_size=4).map("/".join).filter(bool)


@given(st.lists(st.tuples(st.sampled_from(["read", "write", "readwrite", "deny"]), filters()), max_size=20), topics)
def test_many_rules_decide_as_few_do(several: list[tuple[str, str]], topic: str) -> None:
    rules = tuple(AclRule(access, filter, "") for access, filter in several)  # type: ignore[arg-type]
    never = tuple(AclRule("readwrite", f"never/{number}", "") for number in range(50))
    for deed in ("may_read", "may_write"):
        assert getattr(Rights(rules + never, (), ""), deed)(topic) == getattr(Rights(rules, (), ""), deed)(topic)
