"""The cases of the stages, `tests/cases/<stage>/*.yaml`: what clients do and what they get; and the engine as a player.

Each case is played by the engine (here, on a node without a socket), by the reference (`reference.py`) and by Spark
(`spark.py`). What one of the last two cannot say, the case itself declares with the reason:

    gap: {spark: a view begins with the first event, reference: it knows no windows}

A gap that is none is a failure. Besides, a case has a title, the clauses that it shows, `limits`, `acl` and `domain` of
the node if they matter, and steps. A step is one verb with its object:

    connect: {ann: {clean_start: false, session_expiry: 60}}   `present: true` expects the session to be there,
                                                               `refused: REASON` expects a refusal
    subscribe: {ann: a/+}                          also a list, also {filter: a/+, qos: 1, id: 7, no_local: true, ...};
                                                   `granted` is the expected reason code, if it is not the QoS
                                                   and {filter: a, where: x > 1, name: big, scope: local}
                                                   and {filter: a, properties: {Where: x > 1}, granted: REASON}
    unsubscribe: {ann: a/+}                        also {ann: {filter: a/+, name: big}}
    advertise: {bob: {name: one, filter: a, where: x > 1}}     `answer: REASON` if it is refused
    unadvertise: {bob: one}
    publish: {bob: {topic: a/b, payload: hi}}      with the whole handshake; `answer: REASON` if it is not a success;
                                                   `metrics: {temperature: 20}` in place of a payload: Sparkplug B
    untouched: {bob: {topic: a/b, payload: hi}}    publishes where the plan is known: no code of the stage runs
    gets: {ann: [hi]}                              the messages, all of them, in order: a payload, or every field;
                                                   of Sparkplug messages topic, `metrics`, and `seq` if it matters
    acknowledges: {ann: [hi]}                      as `gets`, acknowledging each until nothing more comes
    sends: {ann: {kind: Puback, packet_id: 1}}     any packet
    receives: {ann: [{kind: Pubrel, packet_id: 1}]}
    loses: ann                                     the connection breaks
    leaves: {ann: {reason: 4}}                     DISCONNECT
    waits: 5                                       seconds
    deaf: ann / reads: ann                         stops and goes on reading from its connection
    acl: text                                      the access control file is changed
    domain: {content: [...], clients: {...}}       the domain is changed
    closed: {ann: REASON}                          the node has closed the connection

When the steps are over, no client may have anything unread.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
import yaml

from penstock.domain import Domain, Ensemble, LimitSettings, ensemble
from penstock.engine.federation import overlay
from penstock.engine.stages import runner
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.policy.access.acl import Acl
from penstock.wire.packet import (
    Packet,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    WillMessage,
)
from penstock.wire.properties import NO_PROPERTIES, Properties
from penstock.wire.reason import Reason
from tests.support.cases.packets import packet_of
from tests.support.memory.node import Client, MemoryNode
from tests.support.memory.sparkplug import encode
from tests.support.models.invariants import check_node

FOLDER = Path(__file__).parents[2] / "cases"


STAGES = runner.names()
"""Each has a folder of cases."""

POLICIES = frozenset({"access", "brokering", "contracts", "monitors", "statements"})
"""Keys of a domain that plans depend on."""


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens at one node, and what clients get by it."""

    title: str
    steps: tuple[dict[str, Any], ...]
    stage: str = ""
    """The folder it is in."""
    gap: dict[Literal["reference", "spark"], str] = {}
    """By executor that cannot play it, why."""
    clauses: tuple[str, ...] = ()
    limits: dict[str, Any] = {}
    acl: str | None = None
    domain: dict[str, Any] = {}
    """Keys of a domain whose one node is `test`."""
    version: int = 5
    """The version of clients that do not name theirs."""

    def __str__(self) -> str:
        return self.title


@cache
def cases(stage: str) -> tuple[Case, ...]:
    """All cases of one stage."""
    paths = sorted((FOLDER / stage).glob("*.yaml"))
    return tuple(
        msgspec.convert({**raw, "stage": stage}, Case) for path in paths for raw in yaml.safe_load(path.read_text())
    )


class Player:
    """Plays one case on a node."""

    def __init__(self, case: Case, durable: bool, folder: Path) -> None:
        self._case = case
        self._folder = folder
        self._clients: dict[str, Client] = {}
        rights = self._acl(case.acl) if case.acl else None
        self.joined = MemoryNode(LimitSettings(**case.limits), rights, durable, whole=_ensemble(case.domain))
        overlay.prepare(self.joined.node)

    def play(self) -> None:
        for number, step in enumerate(self._case.steps, start=1):
            for verb, what in step.items():
                try:
                    _VERBS[verb](self, what)
                except AssertionError as error:
                    raise AssertionError(f"step {number}, {verb} {what}: {error}") from error
                check_node(self.joined.node, not self._case.domain.keys() & POLICIES)
        unread = {name: client.inbox for name, client in self._clients.items() if client.inbox}
        assert not unread

    def _acl(self, text: str) -> Acl:
        path = self._folder / "acl"
        path.write_text(text)
        return Acl.read(path)

    def _connect(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            fields = dict(given or {})
            present, refused = fields.pop("present", False), fields.pop("refused", None)
            if "will" in fields:
                fields["will"] = _struct(WillMessage, fields["will"])
            version = fields.pop("version", self._case.version)
            client = self._clients[name] = self.joined.connect(fields.pop("id", name), version, **fields)
            if refused is not None:
                assert client.refused is not None
                assert client.refused.reason is Reason[refused], client.refused
            else:
                assert client.refused is None, client.refused
                assert self.joined.session_present(client) is present

    def _subscribe(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            client = self._clients[name]
            wanted, granted, identifier, wishes = [], [], 0, dict[str, str]()
            for one in listed(given):
                fields: dict[str, Any] = {"filter": one} if isinstance(one, str) else dict(one)
                identifier = fields.pop("id", identifier)
                wishes |= {key: fields.pop(key) for key in ("where", "name", "scope") if key in fields}
                wishes |= fields.pop("properties", {})
                granted.append(fields.pop("granted", fields.get("qos", 0)))
                wanted.append(SubscriptionRequest(**fields))
            ids = (identifier,) if identifier else ()
            properties = Properties(subscription_ids=ids, user_properties=tuple(wishes.items()))
            packet_id = client.next_id()
            client.sends(Subscribe(packet_id, tuple(wanted), properties))
            codes = tuple(Reason[code] if isinstance(code, str) else code for code in granted)
            _find(client, Suback(packet_id, codes))

    def _unsubscribe(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            client, named = self._clients[name], given if isinstance(given, dict) else {"filter": given}
            filters = listed(named["filter"])
            told = {"name": named["name"]} if "name" in named else named.get("properties", {})
            client.unsubscribe(*filters, user_properties=tuple(told.items()))
            answer = Reason[named.get("answer", "SUCCESS")]
            _find(client, Unsuback(client.last_id, (answer,) * len(filters) if client.version == 5 else ()))

    def _publish(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            for one in listed(given):
                fields = dict(one)
                answer = Reason[fields.pop("answer", "SUCCESS")]
                client, message = self._clients[name], _struct(Publish, fields)
                if message.qos:
                    message = msgspec.structs.replace(message, packet_id=message.packet_id or client.next_id())
                client.sends(message)
                if message.qos == 1:
                    _find(client, Puback(message.packet_id, answer))
                elif message.qos == 2:
                    _find(client, Pubrec(message.packet_id, answer))
                    if answer < 0x80:
                        client.sends(Pubrel(message.packet_id))
                        _find(client, Pubcomp(message.packet_id))

    def _untouched(self, what: dict[str, Any]) -> None:
        """The case has published on the topic before, so that its plan is made."""
        file = code_of(self._case.stage)
        assert file.is_file(), file
        with called() as files:
            self._publish(what)
        assert file not in files, f"the stage `{self._case.stage}` is asked about it"

    def _advertise(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            for one in listed(given):
                fields = dict(one)
                answer = fields.pop("answer", "SUCCESS")
                payload = msgspec.json.encode(fields).decode()
                self._publish({name: {"topic": "$penstock/advertise", "payload": payload, "qos": 1, "answer": answer}})

    def _unadvertise(self, what: dict[str, str]) -> None:
        for name, one in what.items():
            payload = msgspec.json.encode({"name": one}).decode()
            self._publish({name: {"topic": "$penstock/unadvertise", "payload": payload, "qos": 1}})

    def _gets(self, what: dict[str, Any]) -> None:
        for name, expected in what.items():
            client = self._clients[name]
            got = [packet for packet in client.inbox if isinstance(packet, Publish)]
            client.inbox = [packet for packet in client.inbox if not isinstance(packet, Publish)]
            _compare(got, expected)

    def _acknowledges(self, what: dict[str, Any]) -> None:
        for name, expected in what.items():
            _compare(self._clients[name].acknowledge(), expected)

    def _sends(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            self._clients[name].sends(*(packet_of(one) for one in listed(given)))

    def _receives(self, what: dict[str, Any]) -> None:
        for name, expected in what.items():
            assert self._clients[name].take() == [packet_of(one) for one in expected]

    def _loses(self, what: Any) -> None:
        for name in listed(what):
            self._clients[name].lose()

    def _leaves(self, what: Any) -> None:
        for name, fields in ({what: {}} if isinstance(what, str) else what).items():
            self._clients[name].leave(**fields)

    def _waits(self, seconds: float) -> None:
        self.joined.wait(seconds)

    def _deaf(self, name: str) -> None:
        self._clients[name].goes_deaf()

    def _reads(self, name: str) -> None:
        self._clients[name].reads_on()

    def _reload(self, text: str) -> None:
        self.joined.govern(self._acl(text))

    def _rule(self, what: dict[str, Any]) -> None:
        self.joined.govern(self.joined.node.admission.acl, _ensemble(what))

    def _closed(self, what: dict[str, str]) -> None:
        for name, reason in what.items():
            assert self._clients[name].closed is Reason[reason], self._clients[name].closed


_VERBS: dict[str, Callable[[Player, Any], None]] = {
    "connect": Player._connect,
    "subscribe": Player._subscribe,
    "unsubscribe": Player._unsubscribe,
    "publish": Player._publish,
    "untouched": Player._untouched,
    "advertise": Player._advertise,
    "unadvertise": Player._unadvertise,
    "gets": Player._gets,
    "acknowledges": Player._acknowledges,
    "sends": Player._sends,
    "receives": Player._receives,
    "loses": Player._loses,
    "leaves": Player._leaves,
    "waits": Player._waits,
    "deaf": Player._deaf,
    "reads": Player._reads,
    "acl": Player._reload,
    "domain": Player._rule,
    "closed": Player._closed,
}


def code_of(stage: str) -> Path:
    """The module of a stage."""
    return Path(runner.__file__).with_name(f"{stage}.py")


@contextmanager
def called() -> Iterator[set[Path]]:
    """The files of all functions that are called in here."""
    names: set[str] = set()
    files: set[Path] = set()
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, _: names.add(frame.f_code.co_filename) if event == "call" else None)
    try:
        yield files
    finally:
        sys.setprofile(before)
        files.update(map(Path, names))


def _ensemble(keys: dict[str, Any]) -> Ensemble:
    node = {"listen": "127.0.0.1:0", "store": "memory"}
    return ensemble(Domain.model_validate({"nodes": {"test": node}, **keys}))


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _struct(cls: type[Any], given: dict[str, Any]) -> Any:
    """A packet or will from its fields and, among them, its properties; a payload may be any text or number."""
    fields = dict(given)
    properties = {name: fields.pop(name) for name in list(fields) if name in Properties.__struct_fields__}
    if properties:
        fields["properties"] = msgspec.convert(properties, Properties)
    fields["payload"] = payload_of(fields)
    return cls(**fields)


def payload_of(fields: dict[str, Any]) -> bytes:
    """Take what an event says out of its fields, as bytes."""
    payload, metrics, seq = fields.pop("payload", ""), fields.pop("metrics", None), fields.pop("seq", None)
    if metrics is None:
        return str(payload).encode()
    said: dict[str, Any] = {"timestamp": 1, "metrics": [_metric(*one) for one in metrics.items()]}
    return encode(said if seq is None else {**said, "seq": seq})


def _metric(name: str, value: Any) -> dict[str, Any]:
    kind, number = _KINDS[type(value)]
    return {"name": name, "datatype": number, f"{kind}_value": value}


_KINDS = {int: ("int", 3), bool: ("boolean", 11), float: ("double", 10), str: ("string", 12)}


def _find(client: Client, packet: Packet) -> None:
    assert packet in client.inbox, f"{packet} is not in {client.inbox}"
    client.inbox.remove(packet)


def _compare(got: list[Publish], expected: list[Any]) -> None:
    shown = [dict(_shown(message)) for message in got]
    assert len(got) == len(expected), shown
    for message, wanted in zip(shown, expected, strict=True):
        if not isinstance(wanted, dict):
            assert message.get("payload", b"") == str(wanted).encode(), shown
            continue
        if "packet_id" not in wanted:
            message.pop("packet_id", None)
        if "metrics" in wanted:
            message = message | metrics_of(message.pop("payload"), "seq" in wanted)
        wanted = {name: str(value).encode() if name == "payload" else value for name, value in wanted.items()}
        assert message == wanted


def metrics_of(payload: bytes, has_seq: bool = False) -> dict[str, Any]:
    """What a Sparkplug payload says, as a case writes it."""
    read = read_sparkplug(payload)
    return {"metrics": dict(read["metrics"]), **({"seq": read.get("seq")} if has_seq else {})}


def _shown(message: Publish) -> Iterator[tuple[str, Any]]:
    """The fields that have not their default, as a case writes them."""
    for holder, default in ((message, Publish("")), (message.properties, NO_PROPERTIES)):
        for name in holder.__struct_fields__:
            value = getattr(holder, name)
            if name != "properties" and value != getattr(default, name):
                value = value.decode() if isinstance(value, bytes) and name != "payload" else value
                if isinstance(value, tuple):  # the order of subscription identifiers means nothing
                    value = sorted(value) if name == "subscription_ids" else [list(pair) for pair in value]
                yield name, value
