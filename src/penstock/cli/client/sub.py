"""`penstock sub`: print the messages of subscriptions, with mosquitto_sub's options."""

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from penstock.cli.client import broker_options as broker
from penstock.cli.client.format import Formatter, compile_format, plain, verbose
from penstock.cli.client.properties import Property, properties_for
from penstock.cli.options import UsageError, choice, flag, number, option, options, utf8
from penstock.cli.policy.policy_files import policy_option
from penstock.model.errors import TopicError
from penstock.model.topic import matches, parse_filter

if TYPE_CHECKING:
    from penstock.cli.client.rating import Rater

SYNOPSIS = """\
Usage: penstock sub [-h HOST] [-p PORT] -t FILTER [-t FILTER ...] [OPTION ...]

Subscribe, and print each message as it comes."""

_RECONNECT_SECONDS = 1.0
_TURN_SECONDS = 1.0
_GOODBYE_SECONDS = 1.0


def _filter(text: str) -> str:
    try:
        return parse_filter(text).text
    except TopicError as error:
        raise UsageError(str(error)) from error


def _condition(text: str) -> str:
    # Imported here: most subscriptions have none.
    from penstock.language.condition import make_condition
    from penstock.language.errors import ConditionError

    try:
        make_condition(text)
    except ConditionError as error:
        raise UsageError(str(error)) from error
    return text


def _rating(text: str) -> str:
    from penstock.cli.client.rating import judge_of

    judge_of(text)
    return text


def _format(text: str) -> str:
    compile_format(text, b"", None, lambda warning: None)
    return text


@dataclass(frozen=True)
class SubOptions(broker.ClientOptions):
    """The command line of `penstock sub`."""

    given_filters: tuple[str, ...] = options(
        "-t, --topic FILTER", "topic filter to subscribe to; may be repeated", _filter
    )
    filters_out: tuple[str, ...] = options(
        "-T, --filter-out FILTER", "do not print what matches; may be repeated", _filter
    )
    unsubscribe: tuple[str, ...] = options(
        "-U, --unsubscribe FILTER", "unsubscribe from this; may be repeated", _filter
    )
    condition: str | None = option(
        "--where CONDITION",
        "only what has content that satisfies this condition, such as 'temperature > 30'; "
        "makes the connection an MQTT 5 one (not in Mosquitto's clients)",
        _condition,
    )
    name: str | None = option(
        "--name NAME",
        "name of the subscriptions: a session may have several to the same filter, each with a name of its own; "
        "also of what -U unsubscribes from (not in Mosquitto's clients)",
        utf8,
    )
    scope: str | None = option(
        "--scope SCOPE",
        "local: for what is published at this node only; global, if not given (not in Mosquitto's clients)",
        choice({"global": "global", "local": "local"}),
    )
    policy: str | None = option(
        "--policy TEXT|@FILE",
        "policy statement of the subscriptions; @FILE: the one in a file, as text, YAML, JSON or XML by its name; "
        "makes the connection an MQTT 5 one (not in Mosquitto's clients)",
        policy_option,
    )
    rating: str | None = option(
        "--rate CONDITION|good|bad",
        "tell the node of each message whether it is good, which is when its content satisfies this condition, or "
        "bad: it trusts the neighbour that sent it more, or less; if the condition cannot be evaluated, nothing is "
        "told; makes the connection an MQTT 5 one (not in Mosquitto's clients)",
        _rating,
    )
    count: int | None = option("-C COUNT", "end after this many messages", number(1, 2**31))
    timeout: float | None = option("-W SECONDS", "end after this time, with exit code 27", number(0.001, 1e9, float))
    is_verbose: bool = flag("-v, --verbose", "print the topic before the payload")
    format: str | None = option(
        "-F FORMAT",
        "how to print a message, as mosquitto_sub(1) says: %t topic, %p payload, %x %X in hexadecimal, "
        "%l length, %q QoS, %r retained, %m id, %I time, %U Unix time, %j %J JSON; MQTT 5: %A %C %D %E %F %P %R %S; "
        "@H and others as strftime(3); \\n \\t \\0 \\e and others",
        _format,
    )
    is_pretty: bool = flag("--pretty", "indent the JSON of %j and %J")
    has_no_line_end: bool = flag("-N", "print no line end after a message")
    hides_retained: bool = flag("-R", "do not print retained messages")
    is_retained_only: bool = flag("--retained-only", "print retained messages only, and end when another comes")
    removes_retained: bool = flag("--remove-retained", "clear each retained message that is received")
    is_retain_as_published: bool = flag("--retain-as-published", "see the retain flag as the publisher set it (MQTT 5)")
    ends_when_subscribed: bool = flag("-E", "end when the subscriptions are acknowledged")
    percentage: float = option(
        "--random-filter PERCENTAGE",
        "print only so many of the messages, chosen at random",
        number(0.1, 100, float),
        default=100.0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.filters or self.unsubscribe):
            raise UsageError("a topic filter (-t) is needed")
        if self.hides_retained and self.is_retained_only:
            raise UsageError("-R and --retained-only leave nothing to print")
        if self.is_retain_as_published and self.version < 5:
            raise UsageError("--retain-as-published needs MQTT 5 (-V 5)")

    @property
    def version(self) -> int:
        return 5 if self._wishes() or self.rating is not None else super().version

    def packet_properties(self, command: str) -> Properties | None:
        """Return the properties of a SUBSCRIBE or an UNSUBSCRIBE."""
        wishes = self._wishes() if command == "subscribe" else {"name": self.name} if self.name else {}
        extra = [Property(command, "user-property", pair) for pair in wishes.items()]
        return properties_for(command, [*self.properties, *extra])

    def _wishes(self) -> dict[str, str]:
        """Return what a node reads from the user properties of a SUBSCRIBE."""
        wishes = {"where": self.condition, "name": self.name, "scope": self.scope, "policy": self.policy}
        return {key: value for key, value in wishes.items() if value is not None}

    @property
    def filters(self) -> tuple[str, ...]:
        from_url = () if self.url_topic is None else (_filter(self.url_topic),)
        return (*self.given_filters, *from_url)

    @property
    def formatter(self) -> Formatter:
        eol = b"" if self.has_no_line_end else b"\n"
        if self.format is not None:
            return compile_format(self.format, eol, "\t" if self.is_pretty else None, self.warn)
        return verbose(eol) if self.is_verbose else plain(eol)

    def warn(self, text: str) -> None:
        """Print a warning."""
        if not self.is_quiet:
            print(f"Warning: {text}", file=sys.stderr)


OPTIONS = SubOptions


def main(argv: Sequence[str]) -> int:
    """Run `penstock sub` with these arguments; return the exit code."""
    try:
        return broker.run(SubOptions, lambda options: _Subscriber(options).run(), SYNOPSIS, argv)
    except KeyboardInterrupt:
        return 0


def _rater(options: SubOptions) -> "Rater | None":
    if options.rating is None:
        return None
    from penstock.cli.client.rating import Rater

    return Rater(options.rating, options.warn)


class _Subscriber:
    """One run of the command."""

    def __init__(self, options: SubOptions) -> None:
        self._options = options
        self._format = options.formatter
        self._deadline = None if options.timeout is None else time.monotonic() + options.timeout
        self._client = broker.make_client(options, reconnects=False)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.on_publish = self._on_publish
        self._rater = _rater(options)
        self._was_connected = False
        self._is_done = False
        self._failure: broker.CommandFailure | None = None
        self._printed = 0
        self._clearing: set[int] = set()
        self._aliases: dict[int, str] = {}

    def run(self) -> int:
        """Print messages until it is enough; raise `CommandFailure`."""
        broker.connect(self._client, self._options, self._turn())
        try:
            while not self._is_done or self._clearing or (self._rater is not None and self._rater.is_waiting):
                self._take_turn()
        finally:
            self._say_goodbye()
        return 0

    def _take_turn(self) -> None:
        outcome = self._client.loop(self._turn())
        if self._failure is not None:
            raise self._failure
        if outcome == paho.MQTT_ERR_SUCCESS:
            return
        if self._is_done:
            self._clearing.clear()
            if self._rater is not None:
                self._rater.give_up()
            return
        if not self._was_connected:
            raise broker.lost(self._options, paho.error_string(outcome))
        time.sleep(min(_RECONNECT_SECONDS, self._turn()))
        try:
            self._client.reconnect()
        except OSError as error:
            if self._options.is_debug:
                self._options.warn(f"cannot connect to `{self._options.where}`: {error}")

    def _turn(self) -> float:
        """Return how long to wait now; raise `CommandFailure` when the time is over."""
        if self._deadline is None:
            return _TURN_SECONDS
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise broker.CommandFailure("timed out", broker.EXIT_TIMED_OUT)
        return min(_TURN_SECONDS, seconds)

    def _say_goodbye(self) -> None:
        """Send what waits to be sent, and DISCONNECT."""
        self._client.disconnect(properties=properties_for("disconnect", self._options.properties))
        end = time.monotonic() + _GOODBYE_SECONDS
        while self._client.want_write() and time.monotonic() < end:
            if self._client.loop(0.1) != paho.MQTT_ERR_SUCCESS:
                break

    def _on_connect(self, client: paho.Client, data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        if reason.is_failure:
            self._failure = broker.refusal(self._options, reason, properties)
            return
        self._was_connected = True
        self._aliases.clear()
        options = self._options
        if options.filters:
            client.subscribe(
                [(filter, self._subscription()) for filter in options.filters],  # type: ignore[arg-type]
                properties=options.packet_properties("subscribe"),
            )
        if options.unsubscribe:
            client.unsubscribe(list(options.unsubscribe), options.packet_properties("unsubscribe"))
            self._is_done = not options.filters

    def _subscription(self) -> SubscribeOptions | int:
        options = self._options
        if options.version < 5:
            return options.qos
        return SubscribeOptions(options.qos, retainAsPublished=options.is_retain_as_published)

    def _on_subscribe(self, client: Any, data: Any, number: int, reasons: list[ReasonCode], properties: Any) -> None:
        for filter, reason in zip(self._options.filters, reasons, strict=False):
            if reason.is_failure:
                self._options.warn(f"subscription to `{filter}` was refused: {reason}")
        if words := getattr(properties, "ReasonString", ""):
            self._options.warn(f"the broker says: {words}")
        if all(reason.is_failure for reason in reasons):
            self._failure = broker.CommandFailure("every subscription was refused", reasons[0].value)
        self._is_done = self._is_done or self._options.ends_when_subscribed

    def _on_message(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        options = self._options
        if self._is_done:
            return
        self._resolve_alias(message)
        if options.is_retained_only and not message.retain:
            self._is_done = True
            return
        if any(matches(parse_filter(filter).filter, message.topic) for filter in options.filters_out):
            return
        if options.removes_retained and message.retain:
            self._clearing.add(client.publish(message.topic, b"", qos=1, retain=True).mid)
        if options.hides_retained and message.retain:
            return
        if self._rater is not None:
            self._rater.rate(client, message)
        if options.percentage >= 100 or random.uniform(0, 100) < options.percentage:
            self._print(message)
        self._printed += 1
        self._is_done = self._is_done or self._printed == options.count

    def _on_publish(self, client: Any, data: Any, number: int, reason: ReasonCode, properties: Any) -> None:
        self._clearing.discard(number)
        if self._rater is not None:
            self._rater.answered(number, reason, properties)

    def _resolve_alias(self, message: paho.MQTTMessage) -> None:
        """Resolve a topic alias, which paho-mqtt leaves; `-D connect topic-alias-maximum` asks brokers for them."""
        alias = getattr(message.properties, "TopicAlias", None)
        if alias is None:
            return
        if message.topic:
            self._aliases[alias] = message.topic
        else:
            message.topic = self._aliases.get(alias, "").encode()

    def _print(self, message: paho.MQTTMessage) -> None:
        try:
            sys.stdout.buffer.write(self._format(message, time.time_ns()))
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the reader has closed the pipe
            self._is_done = True
            broker.abandon_stdout()
