import pytest

from penstock.cli.client.properties import Property
from penstock.cli.client.pub import SYNOPSIS, PubOptions
from penstock.cli.client.pub import main as pub
from penstock.cli.client.sub import SubOptions
from penstock.cli.client.sub import main as sub
from penstock.cli.client.url import Url
from penstock.cli.options import HelpWanted, UsageError, parse, usage

PUB = ["-t", "a", "-m", "x"]


def test_what_follows_an_option_is_its_value() -> None:
    parsed = parse(PubOptions, ["-t", "-t", "-m", "--help"])
    assert (parsed.topic, parsed.message) == ("-t", ("--help",))


def test_properties_take_as_many_words_as_they_need() -> None:
    parsed = parse(
        PubOptions, [*PUB, "-D", "PUBLISH", "user-property", "k", "-v", "-D", "connect", "receive-maximum", "9"]
    )
    assert parsed.properties == (
        Property("publish", "user-property", ("k", "-v")),
        Property("connect", "receive-maximum", 9),
    )
    assert parsed.version == 5


@pytest.mark.parametrize(
    ("text", "version"), [("5", 5), ("mqttv5", 5), ("311", 4), ("mqttv311", 4), ("31", 3), ("mqttv31", 3)]
)
def test_versions(text: str, version: int) -> None:
    assert parse(PubOptions, [*PUB, "-V", text]).version == version


@pytest.mark.parametrize(
    ("title", "arguments", "port"),
    [
        ("plain", [], 1883),
        ("TLS", ["--cafile", "ca"], 8883),
        ("WebSocket", ["--ws"], 80),
        ("WebSocket by TLS", ["--ws", "--cafile", "ca"], 443),
        ("given", ["-p", "7", "--cafile", "ca"], 7),
        ("URL", ["-L", "mqtts://host/a"], 8883),
        ("URL with port", ["-L", "mqtt://host:99/a"], 99),
        ("URL of a WebSocket", ["-L", "wss://host/mqtt"], 443),
    ],
)
def test_ports(title: str, arguments: list[str], port: int) -> None:
    assert parse(PubOptions, [*PUB, *arguments]).port == port, title


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("mqtt://h/a/#", Url(False, False, None, None, "h", None, "a/#")),
        ("mqtts://u:p%40@h:1/t", Url(True, False, "u", "p@", "h", 1, "t")),
        ("mqtt://u@h", Url(False, False, "u", None, "h", None, "")),
        ("ws://[::1]:80/path", Url(False, True, None, None, "::1", 80, "path")),
        ("wss://h", Url(True, True, None, None, "h", None, "")),
    ],
)
def test_urls(text: str, url: Url) -> None:
    assert Url.parse(text) == url


def test_a_url_gives_what_other_options_do_not() -> None:
    parsed = parse(SubOptions, ["-L", "mqtt://u:p@host/a/#", "-u", "v", "-t", "b"])
    assert (parsed.username, parsed.password, parsed.host, parsed.filters) == ("v", "p", "host", ("b", "a/#"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "a"], "both a topic (-t) and a message (-m, -f, -n, -s or -l) are needed"),
        (["-m", "x"], "both a topic (-t) and a message (-m, -f, -n, -s or -l) are needed"),
        ([*PUB, "-n"], "only one of -m, -f, -n, -s and -l can be used, and once"),
        ([*PUB, "-m", "y"], "only one of -m, -f, -n, -s and -l can be used, and once"),
        (["-t", "a/#", "-n"], "wildcard `#` "),
        ([*PUB, "-q", "3"], "-q: `3` is not between 0 and 2"),
        ([*PUB, "-q", "x"], "-q: `x` is not a number"),
        ([*PUB, "-q"], "-q: expected QOS"),
        ([*PUB, "--bogus"], "unknown option `--bogus`"),
        ([*PUB, "-V", "4"], "-V: `4` is not one of 5, mqttv5, 311, mqttv311, 31, mqttv31"),
        ([*PUB, "-i", ""], "the client id is empty"),
        ([*PUB, "-i", "a", "-I", "b"], "-i and -I cannot be used together"),
        ([*PUB, "-c"], "a session that outlives the connection needs a client id"),
        ([*PUB, "-x", "-1"], "a session that outlives the connection needs a client id"),
        ([*PUB, "-P", "x"], "a password needs a user name before MQTT 5"),
        ([*PUB, "--cert", "x"], "--cert and --key must be used together"),
        ([*PUB, "--will-payload", "x"], "a will needs --will-topic"),
        ([*PUB, "--will-topic", "+"], "wildcard `+` "),
        ([*PUB, "-k", "1"], "-k: `1` is not between 5 and 65535"),
        ([*PUB, "-L", "http://h/t"], "-L: `http://h/t` does not begin with mqtt://, mqtts://, ws:// or wss://"),
        ([*PUB, "-L", "mqtt:///t"], "-L: no host in `mqtt:///t`"),
        ([*PUB, "-D", "publish", "bogus", "1"], "-D: unknown property `bogus`"),
        (
            [*PUB, "-D", "pubrel"],
            "-D: `pubrel` is not one of connect, publish, subscribe, unsubscribe, disconnect, will",
        ),
        (
            [*PUB, "-D", "disconnect", "topic-alias", "1"],
            "-D: property `topic-alias` is not for disconnect: it takes session-expiry-interval, user-property",
        ),
        ([*PUB, "-D", "connect", "receive-maximum", "0"], "-D: `0` is not between 1 and 65535"),
        ([*PUB, "-D", "publish", "user-property", "k"], "-D: expected COMMAND NAME VALUE"),
    ],
)
def test_bad_command_lines_of_pub(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(PubOptions, arguments)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a topic filter (-t) is needed"),
        (["-t", "a#"], "-t: wildcard `#` "),
        (["-t", "a", "-T", "b+"], "-T: wildcard `+` "),
        (["-t", "a", "-R", "--retained-only"], "-R and --retained-only leave nothing to print"),
        (["-t", "a", "--retain-as-published"], "--retain-as-published needs MQTT 5 (-V 5)"),
        (["-t", "a", "-C", "0"], "-C: `0` is not between 1 and 2147483648"),
        (["-t", "a", "-W", "0"], "-W: `0` is not between 0.001 and 1000000000.0"),
        (["-t", "a", "-F", "%z"], "-F: unknown field `%z` in a format"),
        (["-t", "a", "-F", "a\\q"], "-F: unknown escape `\\q` in a format"),
        (["-t", "a", "-F", "a%5"], "-F: `%5` ends a format too early"),
        (["-t", "a", "-F", "@"], "-F: `@` ends a format too early"),
    ],
)
def test_bad_command_lines_of_sub(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(SubOptions, arguments)
    assert str(caught.value).startswith(message)


def test_a_bad_command_line_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert pub(["-t"]) == 2
    assert capsys.readouterr().err == f"Error: -t: expected TOPIC\n{SYNOPSIS.splitlines()[0]}\n"


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(HelpWanted):
        parse(SubOptions, ["--help"])
    assert sub(["--help"]) == 0
    assert capsys.readouterr().out.rstrip().endswith(usage(SubOptions, "").rstrip())
    for name in ("-h", "-p", "-t", "-u", "-P", "-i", "-V", "-C", "-W", "-F", "-D", "-L", "--cafile", "--ws"):
        assert f"\n  {name}" in usage(SubOptions, "")
