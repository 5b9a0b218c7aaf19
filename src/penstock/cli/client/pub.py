"""`penstock pub`: publish messages, with mosquitto_pub's options."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from penstock.cli.client import broker_options as broker
from penstock.cli.client.properties import Property, properties_for
from penstock.cli.client.publisher import PublishConnection
from penstock.cli.options import UsageError, flag, number, option, options
from penstock.cli.policy.policy_files import policy_option

SYNOPSIS = """\
Usage: penstock pub [-h HOST] [-p PORT] -t TOPIC {-m TEXT | -f FILE | -n | -s | -l} [OPTION ...]

Publish a message, or each line of standard input, and end when the broker has it."""

ATTACHED = "penstock-policy"
_EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class PubOptions(broker.ClientOptions):
    """The command line of `penstock pub`."""

    given_topic: str | None = option("-t, --topic TOPIC", "topic to publish to")
    message: tuple[str, ...] = options("-m, --message TEXT", "publish this text")
    file: tuple[str, ...] = options("-f, --file FILE", "publish what is in this file")
    is_null: bool = flag("-n, --null-message", "publish a message without payload")
    is_stdin: bool = flag("-s, --stdin-file", "publish all of standard input as one message")
    is_lines: bool = flag("-l, --stdin-line", "publish each line of standard input as a message")
    is_retained: bool = flag("-r, --retain", "retain the message")
    policy: str | None = option(
        "--policy TEXT|@FILE",
        "policy statement that is attached to the message; @FILE: the one in a file, as text, YAML, JSON or XML "
        "by its name; makes the connection an MQTT 5 one (not in Mosquitto's clients)",
        policy_option,
    )
    repeat: int = option("--repeat COUNT", "publish this many times", number(1, 2**31), default=1)
    repeat_delay: float = option(
        "--repeat-delay SECONDS", "wait before publishing again", number(0, 86400, float), default=0.0
    )
    max_inflight: int = option(
        "-M COUNT",
        "how many messages of QoS 1 and 2 may wait for the broker's answer; 20 if not given",
        number(1, 65535),
        default=20,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        sources = len(self.message) + len(self.file) + self.is_null + self.is_stdin + self.is_lines
        if sources > 1:
            raise UsageError("only one of -m, -f, -n, -s and -l can be used, and once")
        if not sources or self.topic is None:
            raise UsageError("both a topic (-t) and a message (-m, -f, -n, -s or -l) are needed")
        broker.check_publish_topic(self.topic)

    @property
    def version(self) -> int:
        return 5 if self.policy is not None else super().version

    @property
    def packet_properties(self) -> Properties | None:
        """Return the properties of a PUBLISH."""
        extra = [Property("publish", "user-property", (ATTACHED, self.policy))] if self.policy is not None else []
        return properties_for("publish", [*self.properties, *extra])

    @property
    def topic(self) -> str | None:
        return self.given_topic if self.given_topic is not None else self.url_topic


OPTIONS = PubOptions


def main(argv: Sequence[str]) -> int:
    """Run `penstock pub` with these arguments; return the exit code."""
    try:
        return broker.run(PubOptions, publish, SYNOPSIS, argv)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


def publish(options: PubOptions) -> int:
    """Publish the messages of the options; raise `CommandFailure`."""
    single = None if options.is_lines else _payload(options)

    def warn(number: int, reason: ReasonCode, words: str) -> None:
        if reason.is_failure and not options.is_quiet:
            print(f"Warning: message {number} was refused: {words}", file=sys.stderr)

    # A stream of lines may go on for days, so it survives a broker's restart; a single message does not.
    with PublishConnection(options, warn, reconnects=options.is_lines, max_inflight=options.max_inflight) as publisher:
        properties = options.packet_properties

        def send(payload: bytes) -> None:
            publisher.send(options.topic or "", payload, options.qos, retain=options.is_retained, properties=properties)

        if single is None:
            for line in sys.stdin.buffer:
                send(line.removesuffix(b"\n"))
        else:
            for count in range(options.repeat):
                if count:
                    publisher.wait_for_all()
                    time.sleep(options.repeat_delay)
                send(single)
        publisher.wait_for_all()
    return 0


def _payload(options: PubOptions) -> bytes:
    if options.message:
        return os.fsencode(options.message[0])
    if options.is_null:
        return b""
    try:
        payload = sys.stdin.buffer.read() if options.is_stdin else Path(options.file[0]).read_bytes()
    except OSError as error:
        raise broker.CommandFailure(f"cannot read `{error.filename}`: {error.strerror}") from error
    if not payload:
        raise broker.CommandFailure("nothing to publish: the input is empty (-n publishes an empty message)")
    return payload
