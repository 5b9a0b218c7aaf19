"""One node with policies, by the slowest reading of them: the keys of the domain file as they stand, stage by stage.

`PlainBroker` is its admit, match and emit. The other stages are the definitions of the papers, each a few lines.
Nothing is compiled, indexed or remembered that could be worked out again. It knows JSON and Sparkplug B content.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.language.statements.parser import parse_statement
from penstock.model.content.content import Content
from penstock.model.errors import ContentError
from penstock.model.event import Event
from penstock.model.sparkplug.payload import read_sparkplug
from penstock.model.topic import matches
from tests.support.memory.sparkplug import encode
from tests.support.models import automata, statements
from tests.support.models.plain_broker import Message, Outcome, PlainBroker, PlainSession, Sub
from tests.support.models.sparkplug_views import State, granted, views

RESERVED = ("$SYS/", "$CONTROL/", "$share/", "$queue/", "$penstock/", "$sparkplug/")
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class NotModelled(Exception):
    """The reference does not know what is asked of it."""


def holds(where: str | None, payload: bytes) -> bool:
    """Whether a condition holds of content; one that fails does not."""
    if where is None:
        return True
    content = Content(payload).attributes
    return isinstance(content, dict) and decide(parse(where), content) is True


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@dataclass(frozen=True)
class MetricPolicy:
    """An access policy, about the metrics of one message."""

    exceptions: frozenset[str]
    when: str | None

    def outcome(self, metrics: State, /) -> bool | None:
        if self.when is None:
            return True
        known = {name: {"value": value} for name, value in metrics.items()}
        outcome = decide(parse(self.when), {**known, "metrics": known})
        return outcome if isinstance(outcome, bool) else None


class ReferenceNode(PlainBroker):
    """A node named `test`. A domain is what a case says of it."""

    def __init__(self, domain: dict[str, Any]) -> None:
        super().__init__()
        self.domain = domain
        self._states: dict[str, str] = {}
        """Of monitors by name."""
        self._open: set[str] = set()
        """Situations."""
        self._histories: dict[str, tuple[State, list[State]]] = {}
        """By edge node, its birth and its reports since."""
        self._asked: set[str] = set()
        """Clients whose monitors have seen the event."""
        self._made: set[tuple[str, str]] = set()
        """By client, topics of what monitors have made of its events."""
        self.advertised: dict[str, dict[str, tuple[str, str | None]]] = {}
        """By client, what it has advertised itself."""

    def part(self, key: str) -> dict[str, Any]:
        found = self.domain.get(key) or {}
        return found if isinstance(found, dict) else {}

    def entity(self, client_id: str, user: str | None) -> str:
        """Who a client is by the domain."""
        clients = self.part("clients")
        of_user = [name for name, one in clients.items() if "user" in one and one["user"] == user]
        return next(iter(of_user), client_id)

    def client(self, client_id: str, user: str | None) -> dict[str, Any]:
        return dict(self.part("clients").get(self.entity(client_id, user), {}))

    # --- the event

    def publish(self, sender: PlainSession, topic: str, payload: bytes, qos: int, retain: bool) -> Outcome:
        name = self.entity(sender.client_id, sender.user)
        if f"{topic}/".startswith(RESERVED) or not self.may_write(sender.client_id, sender.user, topic):
            return Outcome()
        if topic.startswith("spBv1.0/") and "access" in self.domain:
            pruned = self._prune(name, topic, payload)
            if pruned is None:
                return Outcome()
            payload, retain = pruned, False
        takes_back = retain and not payload
        if not self._conforms(self._claims(sender.client_id, name), topic, payload, takes_back):
            return Outcome()
        self._note(name, topic, payload)
        outcome = Outcome()
        for event in self._run_monitors(f"{name} -> test", Event(topic, payload, qos, retain)):
            self._asked = set()
            if event.topic != topic:
                self._made.add((sender.client_id, event.topic))
            made = self.spread(sender, event.topic, event.payload, event.qos, event.retain)
            for client, got in made.plain.items():
                outcome.plain.setdefault(client, []).extend(got)
            outcome.group.update(made.group)
            for session in list(self.sessions.values()):  # monitors look on where nobody has subscribed
                if session.client_id not in self._asked and self._is_open((sender.client_id, sender.user), session):
                    self._shape(session, event)
        return outcome

    def _claims(self, client_id: str, name: str) -> Iterator[list[tuple[str, str | None]]]:
        """What binds a producer, each list by itself: what the domain says for it, its contracts, what it says."""
        yield [(one["filter"], one.get("where")) for one in self.part("clients").get(name, {}).get("advertises", ())]
        yield [(one["filter"], one.get("where")) for one in self._contracts("producers", name)]
        yield list(self.advertised.get(client_id, {}).values())

    @staticmethod
    def _conforms(
        claims: Iterator[list[tuple[str, str | None]]], topic: str, payload: bytes, takes_back: bool = False
    ) -> bool:
        return all(
            not claim
            or any(matches(filter, topic) and (takes_back or holds(where, payload)) for filter, where in claim)
            for claim in claims
        )

    def _run_monitors(self, link: str, event: Event) -> list[Event]:
        events = [event]
        for name, monitor in self.part("monitors").items():
            if monitor["link"] != link:
                continue
            made: list[Event] = []
            for one in events:
                state = self._states.get(name, next(iter(monitor["states"])))
                step = automata.reference(monitor["states"], state, one)
                if step is None:
                    raise NotModelled("a topic that cannot be made")
                self._states[name] = step[0]
                made += step[1]
            events = made
        return events

    # --- towards a session

    def _matching(self, session: PlainSession, topic: str, payload: bytes, shared: bool) -> Iterator[Sub]:
        where = self.client(session.client_id, session.user).get("where", {})
        narrows = [condition for filter, condition in where.items() if matches(filter, topic)]
        if all(holds(condition, payload) for condition in narrows):
            yield from super()._matching(session, topic, payload, shared)

    def may_keep(self, client_id: str, user: str | None, topic: str) -> bool:
        return (client_id, topic) in self._made or super().may_keep(client_id, user, topic)

    def is_withheld(self, session: PlainSession, message: Message) -> bool:
        """By its publisher's advertisements in the domain, and whether it has a place there; by the brokering table."""
        assert message.by is not None
        clients, name = self.part("clients"), self.entity(*message.by)
        if clients and name not in clients:
            return True
        claims = [next(self._claims(message.by[0], name))]
        where = self.client(session.client_id, session.user).get("where", {})
        is_made = (message.by[0], message.topic) in self._made
        return (
            not (is_made or self._conforms(iter(claims), message.topic, message.payload))
            or not self._is_open(message.by, session)
            or any(matches(one, message.topic) and not holds(text, message.payload) for one, text in where.items())
        )

    def shown(self, session: PlainSession, subs: list[Sub], message: Message) -> list[Message]:
        """Route, judge, shape, release, project."""
        assert message.by is not None
        name, publisher = self.entity(session.client_id, session.user), self.entity(*message.by)
        if not self._is_open(message.by, session):
            return []
        judged = self._judge(publisher, name, subs, message)
        if judged is None:
            return []
        made = self._shape(session, Event(judged.topic, judged.payload, judged.qos, judged.retain))
        found = []
        for event in made:
            if self.may_read(session, event.topic):
                left: Message | None = replace(judged, topic=event.topic, payload=event.payload)
                if (event.topic, event.payload) != (judged.topic, judged.payload):
                    left = self._judge(publisher, name, subs, replace(judged, topic=event.topic, payload=event.payload))
                if left is None:
                    continue
                payload = self._release(publisher, name, event.topic, left.payload)
                if payload is not None and event.topic.startswith("spBv1.0/") and "access" in self.domain:
                    payload = self._project(name, event.topic, payload)
                if payload is not None:
                    found.append(replace(judged, topic=event.topic, payload=payload))
        return found

    def _is_open(self, publisher: tuple[str, str | None], session: PlainSession) -> bool:
        table = self.part("brokering")
        came, goes = self._type(*publisher, "publish"), self._type(session.client_id, session.user, "notify")
        if "allow" in table:
            return any(one["from"] == came and one["to"] == goes for one in table["allow"])
        return not any(one["from"] == came and one["to"] == goes for one in table.get("deny", ()))

    def _type(self, client_id: str, user: str | None, direction: str) -> str:
        said = self.client(client_id, user).get("type", "default")
        return str(said[direction] if isinstance(said, dict) else said)

    def _shape(self, session: PlainSession, event: Event) -> list[Event]:
        self._asked.add(session.client_id)
        return self._run_monitors(f"test -> {self.entity(session.client_id, session.user)}", event)

    def _judge(self, publisher: str, name: str, subs: list[Sub], message: Message) -> Message | None:
        """By `models.statements`, as one node; what the domain gives to the receiver is asked of what came, as the
        policies of advertisements are.
        """
        given: dict[str, list[statements.Filter]] = {"publication": [], "advertisement": [], "subscription": []}
        settings = self.part("statements")
        for one in settings.get("apply", ()):
            whose = name if one["to"] == "subscription" else publisher
            if matches(one.get("filter", "#"), message.topic) and {whose, "*"} & set(listed(one["of"])):
                where = parse(one["where"]) if "where" in one else None
                policy = parse_statement(settings["policies"][one["policy"]])
                given[one["to"]].append(statements.Filter(where, policy))
        if not any(given.values()):
            return message
        event = automata.attributes(message.payload)
        left = statements.deliveries(
            event,
            tuple(one.policy for one in given["publication"] if one.policy is not None),
            publisher,
            0,
            (*given["advertisement"], *given["subscription"]),
            [statements.Reader(name, 0, (statements.Filter(None, None),))],
            {},
        ).get(name)
        if left is None or left == event:
            return None if left is None else message
        return replace(message, payload=json.dumps(left).encode())

    # --- contracts

    def _contracts(self, side: str, name: str) -> Iterator[dict[str, Any]]:
        whose = "producer" if side == "producers" else "consumer"
        for one in self.part("contracts").get(side, {}).values():
            if name in listed(one[whose]):
                yield one

    def _note(self, name: str, topic: str, payload: bytes) -> None:
        """What opens and closes situations, and what edge nodes report."""
        for situation, one in self.part("contracts").get("situations", {}).items():
            if name in one["sources"]:
                for key, change in (("closes", self._open.discard), ("opens", self._open.add)):
                    said = one.get(key)
                    said = {"filter": said} if isinstance(said, str) else said
                    if said and matches(said["filter"], topic) and holds(said.get("where"), payload):
                        change(situation)
        levels = topic.split("/")
        if levels[0] == "spBv1.0" and levels[2] == "NBIRTH":
            self._histories[f"{levels[1]}/{levels[3]}"] = _metrics(payload), []
        elif levels[0] == "spBv1.0" and levels[2] == "NDATA":
            self._histories.setdefault(f"{levels[1]}/{levels[3]}", ({}, []))[1].append(_metrics(payload))

    def _release(self, publisher: str, name: str, topic: str, payload: bytes) -> bytes | None:
        """By the first rule that the consumer satisfies; what has no rules is for everybody."""
        for producer in self._contracts("producers", publisher):
            if not producer.get("rules") or not matches(producer["filter"], topic):
                continue
            consumers = [one for one in self._contracts("consumers", name) if self._wants(one, topic)]
            fitting = (
                self._degraded(rule, payload)
                for consumer in consumers
                for rule in producer["rules"].values()
                if self._fits(rule or {}, consumer, name)
            )
            released = next(fitting, None)
            if released is None:
                return None
            payload = released
        return payload

    @staticmethod
    def _wants(consumer: dict[str, Any], topic: str) -> bool:
        wants = consumer["wants"]
        return not wants or any(matches(one["filter"], topic) for one in wants.values())

    def _fits(self, rule: dict[str, Any], consumer: dict[str, Any], name: str) -> bool:
        purposes, known = set(listed(consumer.get("purpose", []))), dict(consumer.get("attributes", {}))
        groups = [*listed(known.get("group", [])), *self.part("clients").get(name, {}).get("groups", ())]
        known = {**known, "group": groups}
        acts_in = listed(consumer.get("situation", []))
        for one in listed(rule.get("situation", [])):
            wanted = one["not"] if isinstance(one, dict) else one
            if isinstance(one, dict) and (wanted in self._open or wanted in acts_in):
                return False
            if not isinstance(one, dict) and not (wanted in self._open and wanted in acts_in):
                return False
        return (
            ("purpose" not in rule or (bool(purposes) and purposes <= set(listed(rule["purpose"]))))
            and all(set(listed(known.get(key, []))) & set(values) for key, values in rule.get("visible_to", {}).items())
            and ("retention" not in rule or _seconds(consumer.get("retention")) <= _seconds(rule["retention"]))
        )

    @staticmethod
    def _degraded(rule: dict[str, Any] | None, payload: bytes) -> bytes | None:
        content = automata.attributes(payload)
        for one in (rule or {}).get("degrade", ()):
            match one:
                case {"keep": names}:
                    content = {key: value for key, value in content.items() if key in names}
                case {"step": {"attribute": key, "size": size}}:
                    if key not in content:
                        return None
                    content = {**content, key: (content[key] // size + 0.5) * size}
                case _:
                    raise NotModelled(f"the degradation {one}")
        return json.dumps(content).encode() if "degrade" in (rule or {}) else payload

    # --- Sparkplug

    def _policies(self, name: str, topic: str, privilege: str, metrics: State) -> list[MetricPolicy]:
        client = self.part("clients").get(name, {})
        ids = {name, "*", client.get("edge"), *(f"group:{one}" for one in client.get("groups", ()))}
        access = self.domain["access"]
        return [
            MetricPolicy(
                frozenset(
                    metric
                    for metric in metrics
                    if any(fnmatchcase(metric, pattern) for pattern in listed(one.get("except", [])))
                ),
                one.get("when"),
            )
            for one in (access["policies"] if isinstance(access, dict) else access)
            if ids & set(listed(one["subject"]))
            and privilege in listed(one["may"])
            and any(matches(filter, topic) for filter in listed(one["topics"]))
        ]

    def _prune(self, name: str, topic: str, payload: bytes) -> bytes | None:
        """Definition 3; and an edge node that is a client of the domain is nobody else's to speak for."""
        _, group, kind, edge, *_ = topic.split("/")
        owners = {one["edge"]: client for client, one in self.part("clients").items() if "edge" in one}
        own = self.part("clients").get(name, {}).get("edge")
        if not kind.endswith("CMD") and (
            owners.get(f"{group}/{edge}", name) != name or own not in (None, f"{group}/{edge}")
        ):
            return None
        try:
            metrics = _metrics(payload)
        except ContentError:
            return None
        left = granted(self._policies(name, topic, "write", metrics), metrics)
        return None if left is None else payload if left == metrics else _encoded(left)

    def _project(self, name: str, topic: str, payload: bytes) -> bytes | None:
        """Definitions 4 and 5, over all that the edge node has reported since its birth."""
        _, group, kind, edge, *_ = topic.split("/")
        metrics = _metrics(payload)
        if kind == "NDATA":
            birth, reports = self._histories[f"{group}/{edge}"]
            known = {key: value for one in (birth, *reports) for key, value in one.items()}
            left = views(self._policies(name, topic, "read", known), birth, reports)[-1]
        else:
            left = granted(self._policies(name, topic, "read", metrics), metrics)
        return None if left is None else payload if left == metrics else _encoded(left)


def _metrics(payload: bytes) -> State:
    return dict(read_sparkplug(payload)["metrics"])


def _encoded(metrics: State) -> bytes:
    kinds = {int: "int", bool: "boolean", float: "double", str: "string"}
    return encode({"metrics": [{"name": name, f"{kinds[type(one)]}_value": one} for name, one in metrics.items()]})


def _seconds(text: str | None) -> float:
    if text is None:
        return float("inf")
    found = re.fullmatch(r"(\d+)([smhd])", text)
    assert found is not None, text
    return int(found[1]) * SECONDS[found[2]]
