"""`penstock pub` and `penstock sub` do what mosquitto_pub and mosquitto_sub do, against the same broker."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes.commands import finish, penstock, run, start, until
from tests.support.processes.mosquitto import HOST, Mosquitto, mosquitto, program

Words = list[str]


@pytest.fixture(scope="module")
def broker() -> Iterator[Mosquitto]:
    with mosquitto("allow_anonymous true\nset_tcp_nodelay true") as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic of the test's own."""
    return re.sub(r"\W+", "-", request.node.name)


def fill(words: Words, topic: str) -> Words:
    return [word.replace("TOPIC", topic) for word in words]


def print_what_comes(broker: Mosquitto, commands: list[Words], publishes: list[Words]) -> list[tuple[int, str, str]]:
    """Start subscribers, publish when all have subscribed, and see what they print."""
    before = broker.subscribed
    processes = [start(command) for command in commands]
    until(lambda: broker.subscribed == before + len(commands), "subscriptions")
    for words in publishes:
        assert run([program("mosquitto_pub"), *broker.address, *words])[0] == 0
    return [finish(process) for process in processes]


# What is published, in this order, for each case below.
PUBLISHES: list[Words] = [
    ["-t", "TOPIC/text", "-m", "hello wörld", "-q", "1"],
    ["-t", "TOPIC/none", "-n"],
    ["-t", "TOPIC/json", "-m", '{"b":[1,2.5,{}],"a":{"x":null}}', "-r"],
    [
        *("-V", "5", "-t", "TOPIC/properties", "-m", "p", "-D", "publish", "content-type", "text/plain"),
        *("-D", "publish", "response-topic", "r/t", "-D", "publish", "correlation-data", "c d"),
        *("-D", "publish", "user-property", "k", "v", "-D", "publish", "user-property", "k2", "v w"),
        *("-D", "publish", "message-expiry-interval", "77", "-D", "publish", "payload-format-indicator", "1"),
    ],
    ["-t", "TOPIC/quotes", "-m", 'a "q" \\ \t b', "-q", "2"],  # last: what follows QoS 2 may overtake it
]


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        pytest.param(["-t", "TOPIC/#"], 5, id="payload"),
        pytest.param(["-t", "TOPIC/#", "-v"], 5, id="verbose"),
        pytest.param(["-t", "TOPIC/#", "-N"], 5, id="no line end"),
        pytest.param(["-t", "TOPIC/#", "-v", "-N"], 5, id="verbose without line end"),
        pytest.param(["-t", "TOPIC/text", "-t", "TOPIC/json", "-v"], 2, id="several filters"),
        pytest.param(["-t", "TOPIC/#", "-T", "TOPIC/none/#", "-v"], 4, id="filter out"),
        pytest.param(["-t", "TOPIC/#", "-q", "2", "-F", "%q %r %m %l %t"], 5, id="QoS 2"),
        pytest.param(["-t", "TOPIC/#", "-V", "5", "--retain-as-published", "-F", "%r %t"], 5, id="retain as published"),
        pytest.param(["-t", "TOPIC/#", "-F", r"%p|%x|%X|%l|%%|@@|\\|\t|\e|%3l|%03l|%-3l|%.3t"], 5, id="format"),
        pytest.param(["-t", "TOPIC/#", "-V", "5", "-F", "%C|%R|%D|%E|%F|%P|%S|%A|%12C|%-12C|%5E"], 5, id="properties"),
        pytest.param(
            ["-t", "TOPIC/#", "-D", "subscribe", "subscription-identifier", "5", "-F", "%S %t"], 5, id="identifier"
        ),
        pytest.param(["-t", "TOPIC/#", "-V", "5", "-q", "1", "-F", "%j"], 5, id="JSON"),
        pytest.param(["-t", "TOPIC/#", "-V", "5", "-q", "1", "-F", "%j", "--pretty"], 5, id="pretty JSON"),
        pytest.param(["-t", "TOPIC/json", "-F", "%J"], 1, id="JSON payload"),
        pytest.param(["-t", "TOPIC/json", "-F", "%J", "--pretty"], 1, id="pretty JSON payload"),
        pytest.param(["-L", "mqtt://HOST/TOPIC/#", "-v"], 5, id="URL"),
    ],
)
def test_sub_prints_what_mosquitto_sub_prints(broker: Mosquitto, topic: str, arguments: Words, count: int) -> None:
    words = [word.replace("HOST", f"{HOST}:{broker.port}") for word in fill(arguments, topic)]
    place = [] if "-L" in words else broker.address
    words = [*place, *words, "-C", str(count), "-W", "15"]
    publishes = [fill(publish, topic) for publish in PUBLISHES]
    theirs, ours = print_what_comes(broker, [[program("mosquitto_sub"), *words], penstock("sub", *words)], publishes)
    assert _untimed(ours[1]) == _untimed(theirs[1])
    assert (ours[0], ours[2]) == (theirs[0], theirs[2]) == (0, "")


def _untimed(printed: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "TIME", printed)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["-t", "TOPIC/#", "-C", "2", "-v"], 0, id="count"),
        pytest.param(["-t", "TOPIC/#", "-R", "-W", "1"], 27, id="no retained messages, until the time is over"),
        pytest.param(["-t", "TOPIC/#", "-v", "-W", "1"], 27, id="all, until the time is over"),
        pytest.param(["-t", "TOPIC/#", "-E"], 0, id="end when subscribed"),
        pytest.param(["-t", "TOPIC/#", "-T", "TOPIC/b", "-C", "1", "-v"], 0, id="filter out a retained message"),
    ],
)
def test_sub_ends_as_mosquitto_sub_does(broker: Mosquitto, topic: str, arguments: Words, code: int) -> None:
    for level in "ab":
        run([program("mosquitto_pub"), *broker.address, "-t", f"{topic}/{level}", "-m", level, "-r"])
    words = [*broker.address, *fill(arguments, topic)]
    theirs, ours = start([program("mosquitto_sub"), *words]), start(penstock("sub", *words))
    (their_code, their_text, _), (our_code, our_text, _) = finish(theirs), finish(ours)
    assert our_text == their_text
    assert our_code == their_code == code


def test_retained_only_ends_at_the_first_fresh_message(broker: Mosquitto, topic: str) -> None:
    run([program("mosquitto_pub"), *broker.address, "-t", f"{topic}/old", "-m", "old", "-r"])
    words = [*broker.address, "-t", f"{topic}/#", "--retained-only", "-v", "-W", "15"]
    theirs, ours = print_what_comes(
        broker,
        [[program("mosquitto_sub"), *words], penstock("sub", *words)],
        [["-t", f"{topic}/new", "-m", "new"]],
    )
    assert ours == theirs == (0, f"{topic}/old old\n", "")


def test_retained_messages_are_removed_but_for_those_filtered_out(broker: Mosquitto, topic: str) -> None:
    for level in ("a", "b", "keep"):
        run([program("mosquitto_pub"), *broker.address, "-t", f"{topic}/{level}", "-m", level, "-r"])
    words = ["-t", f"{topic}/#", "-T", f"{topic}/keep", "--remove-retained", "-C", "2"]
    assert run(penstock("sub", *broker.address, *words)) == (0, "a\nb\n", "")
    left = run([program("mosquitto_sub"), *broker.address, "-t", f"{topic}/#", "-W", "1"])
    assert left[1] == "keep\n"


SEEN = "%t|%q|%r|%p|%C|%R|%D|%E|%F|%P|%A"


@pytest.mark.parametrize(
    ("arguments", "stdin", "count"),
    [
        pytest.param(["-m", "hello"], b"", 1, id="message"),
        pytest.param(["-m", "-5"], b"", 1, id="message like an option"),
        pytest.param(["-m", ""], b"", 1, id="empty message"),
        pytest.param(["-n", "-q", "1"], b"", 1, id="null message"),
        pytest.param(["-s", "-q", "2"], b"a\nb\n", 1, id="standard input"),
        pytest.param(["-l"], b"a\n\nb", 3, id="lines"),
        pytest.param(["-l", "-q", "2"], b"".join(b"%d\n" % n for n in range(50)), 50, id="many lines"),
        pytest.param(["-f", "FILE"], b"", 1, id="file"),
        pytest.param(["-m", "x", "--repeat", "3", "--repeat-delay", "0.01", "-q", "1"], b"", 3, id="repeat"),
        pytest.param(["-m", "x", "-V", "5", "-M", "1"], b"", 1, id="version 5"),
        pytest.param(["-m", "x", "-V", "mqttv31"], b"", 1, id="version 3.1"),
        pytest.param(
            [
                *("-m", "x", "-D", "publish", "content-type", "t", "-D", "publish", "response-topic", "r"),
                *("-D", "publish", "correlation-data", "ä", "-D", "publish", "message-expiry-interval", "9"),
                *("-D", "publish", "payload-format-indicator", "1", "-D", "publish", "user-property", "k", "v"),
                *("-D", "publish", "user-property", "k", "w", "-D", "connect", "user-property", "a", "b"),
                *("-D", "connect", "session-expiry-interval", "5", "-D", "disconnect", "user-property", "a", "b"),
            ],
            b"",
            1,
            id="properties",
        ),
    ],
)
def test_pub_publishes_what_mosquitto_pub_publishes(
    broker: Mosquitto, topic: str, tmp_path: Path, arguments: Words, stdin: bytes, count: int
) -> None:
    (tmp_path / "file").write_bytes(b"from a file\n")
    words = [*broker.address, "-t", topic, *(word.replace("FILE", str(tmp_path / "file")) for word in arguments)]
    before = broker.subscribed
    # With its own receive maximum of 20, mosquitto_sub 2.0.11 now and then takes the broker to have passed it.
    room = ["-D", "connect", "receive-maximum", "65535"]
    watch = ["-t", topic, *room, "-q", "2", "-F", SEEN, "-C", str(2 * count), "-W", "15"]
    watcher = start([program("mosquitto_sub"), *broker.address, *watch])
    until(lambda: broker.subscribed == before + 1, "subscription")
    assert run([program("mosquitto_pub"), *words], stdin) == run(penstock("pub", *words), stdin) == (0, "", "")
    seen = re.split(rf"^(?={re.escape(topic)}\|)", finish(watcher)[1], flags=re.MULTILINE)[1:]
    assert len(seen) == 2 * count
    assert seen[count:] == seen[:count]


def test_pub_retains(broker: Mosquitto, topic: str) -> None:
    assert run(penstock("pub", *broker.address, "-t", topic, "-m", "kept", "-r"))[0] == 0
    retained = run([program("mosquitto_sub"), *broker.address, "-t", topic, "-C", "1", "-W", "15", "-F", "%r %p"])
    assert retained[1] == "1 kept\n"


def test_a_session_is_kept(broker: Mosquitto, topic: str) -> None:
    words = [*broker.address, "-t", topic, "-q", "1", "-c", "-i", topic, "-W", "15"]
    assert run(penstock("sub", *words, "-E"))[0] == 0
    assert run(penstock("pub", *broker.address, "-t", topic, "-m", "queued", "-q", "1"))[0] == 0
    assert run(penstock("sub", *words, "-C", "1")) == (0, "queued\n", "")


@pytest.mark.parametrize("version", ["311", "5"])
def test_a_refused_connection_ends_with_the_brokers_code(version: str) -> None:
    with mosquitto("allow_anonymous false") as broker:
        words = [*broker.address, "-t", "a", "-V", version]
        theirs = run([program("mosquitto_pub"), *words, "-m", "x"])[0]
        pub, sub = run(penstock("pub", *words, "-m", "x")), run(penstock("sub", *words))
    assert theirs == {"311": 5, "5": 135}[version]
    assert pub == sub == (theirs, "", f"Error: connection to `{HOST}:{broker.port}` refused: Not authorized\n")


@pytest.mark.parametrize("command", ["pub", "sub"])
def test_a_broker_that_is_not_there_is_exit_code_1(command: str) -> None:
    words = ["-h", HOST, "-p", "1", "-t", "a", *(["-n"] if command == "pub" else [])]
    theirs = run([program(f"mosquitto_{command}"), *words])[0]
    assert run(penstock(command, *words)) == (
        theirs,
        "",
        f"Error: cannot connect to `{HOST}:1`: Connection refused\n",
    )
    assert theirs == 1
    assert run(penstock(command, *words, "--quiet")) == (1, "", "")


def test_a_refused_message_is_told(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("topic read #\n")
    with mosquitto(f"allow_anonymous true\nacl_file {tmp_path / 'acl'}") as broker:
        words = [*broker.address, "-t", "a", "-m", "x", "-q", "1", "-V", "5"]
        theirs = run([program("mosquitto_pub"), *words])[0]
        assert run(penstock("pub", *words)) == (theirs, "", "Warning: message 1 was refused: Not authorized\n")
