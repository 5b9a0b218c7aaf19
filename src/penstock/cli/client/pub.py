"""`penstock pub`: publish messages, with mosquitto_pub's options."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from penstock.cli.client.broker_options import (
    EXIT_FAILURE,
    ClientOptions,
    CommandFailure,
    check_publish_topic,
    connect,
    lost,
    make_client,
    refusal,
    run,
)
from penstock.cli.client.properties import Property, properties_for
from penstock.cli.options import UsageError, flag, number, option, options
from penstock.cli.policy.policy_files import policy_given

SYNOPSIS = """\
Usage: penstock pub [-h HOST] [-p PORT] -t TOPIC {-m TEXT | -f FILE | -n | -s | -l} [OPTION ...]

Publish a message, or each line of standard input, and end when the broker has it."""

ATTACHED = "penstock-policy"
_WINDOW = 1000  # how far reading may be ahead of the broker
_EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class PubOptions(ClientOptions):
    """The command line of `penstock pub`."""

    given_topic: str | None = option("-t", "--topic", values="TOPIC", help="topic to publish to")
    message: tuple[str, ...] = options("-m", "--message", values="TEXT", help="publish this text")
    file: tuple[str, ...] = options("-f", "--file", values="FILE", help="publish what is in this file")
    is_null: bool = flag("-n", "--null-message", help="publish a message without payload")
    is_stdin: bool = flag("-s", "--stdin-file", help="publish all of standard input as one message")
    is_lines: bool = flag("-l", "--stdin-line", help="publish each line of standard input as a message")
    is_retained: bool = flag("-r", "--retain", help="retain the message")
    policy: str | None = option(
        "--policy",
        values="TEXT|@FILE",
        convert=policy_given,
        help="policy statement that is attached to the message; @FILE: the one in a file, as text, YAML, JSON or XML "
        "by its name; makes the connection an MQTT 5 one (not in Mosquitto's clients)",
    )
    repeat: int = option(
        "--repeat", values="COUNT", convert=number(1, 2**31), default=1, help="publish this many times"
    )
    repeat_delay: float = option(
        "--repeat-delay",
        values="SECONDS",
        convert=number(0, 86400, float),
        default=0.0,
        help="wait before publishing again",
    )
    max_inflight: int = option(
        "-M",
        values="COUNT",
        convert=number(1, 65535),
        default=20,
        help="how many messages of QoS 1 and 2 may wait for the broker's answer; 20 if not given",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        sources = len(self.message) + len(self.file) + self.is_null + self.is_stdin + self.is_lines
        if sources > 1:
            raise UsageError("only one of -m, -f, -n, -s and -l can be used, and once")
        if not sources or self.topic is None:
            raise UsageError("both a topic (-t) and a message (-m, -f, -n, -s or -l) are needed")
        check_publish_topic(self.topic)

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
        return run(PubOptions, publish, SYNOPSIS, argv)
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED


def publish(options: PubOptions) -> int:
    """Publish the messages of the options; raise `CommandFailure`."""
    single = None if options.is_lines else _payload(options)
    with _Publisher(options) as publisher:
        if single is None:
            for line in _lines():
                publisher.send(line)
        else:
            for count in range(options.repeat):
                if count:
                    publisher.wait_for_all()
                    time.sleep(options.repeat_delay)
                publisher.send(single)
        publisher.wait_for_all()
    return 0


class _Publisher:
    """A connection; paho-mqtt's thread does its work while this one reads and waits."""

    def __init__(self, options: PubOptions) -> None:
        self._options = options
        self._properties = options.packet_properties
        self._client = make_client(options, reconnects=options.is_lines)
        self._client.max_inflight_messages_set(options.max_inflight)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish
        self._changed = threading.Condition()
        self._is_connected = self._was_connected = False
        self._sent = self._answered = 0
        self._failure: CommandFailure | None = None

    def __enter__(self) -> "_Publisher":
        connect(self._client, self._options)
        self._client.loop_start()
        try:
            self._wait(lambda: self._is_connected)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._client.disconnect(properties=properties_for("disconnect", self._options.properties))
        self._client.loop_stop()

    def send(self, payload: bytes) -> None:
        """Publish one message; wait if there is no connection, or if too many wait to be sent."""
        self._wait(lambda: self._is_connected and self._sent - self._answered < _WINDOW)
        self._sent += 1
        options = self._options
        topic = options.topic or ""
        info = self._client.publish(topic, payload, options.qos, options.is_retained, self._properties)
        if info.rc not in (paho.MQTT_ERR_SUCCESS, paho.MQTT_ERR_NO_CONN):
            raise CommandFailure(f"cannot publish: {paho.error_string(info.rc)}", EXIT_FAILURE)

    def wait_for_all(self) -> None:
        """Wait until every message is sent, and answered if it has an answer."""
        self._wait(lambda: self._sent <= self._answered)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failure is not None or is_so())
        if self._failure is not None:
            raise self._failure

    def _on_connect(
        self, client: paho.Client, data: object, flags: object, reason: ReasonCode, properties: object
    ) -> None:
        with self._changed:
            if reason.is_failure:
                self._failure = refusal(self._options, reason, properties)
            else:
                self._is_connected = self._was_connected = True
            self._changed.notify_all()

    def _on_disconnect(
        self, client: paho.Client, data: object, flags: object, reason: ReasonCode, properties: object
    ) -> None:
        with self._changed:
            self._is_connected = False
            # A stream of lines may go on for days, so it survives a broker's restart; a single message does not.
            if not (self._options.is_lines and self._was_connected):
                self._failure = self._failure or lost(self._options, reason)
            if self._options.qos == 0:
                self._answered = self._sent  # what was not sent will not be
            self._changed.notify_all()

    def _on_publish(
        self, client: paho.Client, data: object, number: int, reason: ReasonCode, properties: object
    ) -> None:
        if reason.is_failure and not self._options.is_quiet:
            words = [str(reason), getattr(properties, "ReasonString", "")]
            print(f"Warning: message {number} was refused: {': '.join(filter(None, words))}", file=sys.stderr)
        with self._changed:
            self._answered += 1
            self._changed.notify_all()


def _payload(options: PubOptions) -> bytes:
    if options.message:
        return os.fsencode(options.message[0])
    if options.is_null:
        return b""
    try:
        payload = sys.stdin.buffer.read() if options.is_stdin else Path(options.file[0]).read_bytes()
    except OSError as error:
        raise CommandFailure(f"cannot read `{error.filename}`: {error.strerror}", EXIT_FAILURE) from error
    if not payload:
        raise CommandFailure("nothing to publish: the input is empty (-n publishes an empty message)", EXIT_FAILURE)
    return payload


def _lines() -> Iterator[bytes]:
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")
