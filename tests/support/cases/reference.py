"""The cases of the stages, played by the reference: `models.reference_node`."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.language.evaluators.reference import decide
from penstock.language.parser import parse
from penstock.model.content.content import Content
from penstock.model.topic import parse_filter
from penstock.policy.access.acl import Acl
from tests.support.cases.stages import Case, listed, metrics_of, payload_of
from tests.support.models.plain_broker import NEVER, Message, Outcome, PlainSession, Sub
from tests.support.models.reference_node import NotModelled, ReferenceNode

FIELDS = ("topic", "qos", "retain", "dup")
"""What the reference knows of a message, besides what it says and the identifiers of subscriptions."""


@dataclass(frozen=True)
class Where:
    """The condition of a subscription, as the reference evaluates it."""

    text: str

    def holds(self, content: Content) -> object:
        said = content.attributes
        return isinstance(said, dict) and decide(parse(self.text), said)


class ReferencePlayer:
    """Plays a case; raises `NotModelled` where it says what the reference knows nothing of."""

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._folder = folder
        self._node = ReferenceNode(case.domain)
        self._names: dict[str, str] = {}
        """Client identifiers by what the case calls the clients."""
        self._got: dict[str, list[Message]] = {}
        if case.acl is not None:
            self._reload(case.acl)
        if case.limits:
            raise NotModelled("limits")

    def play(self) -> None:
        for number, step in enumerate(self._case.steps, start=1):
            for verb, what in step.items():
                if verb not in _VERBS:
                    raise NotModelled(verb)
                try:
                    _VERBS[verb](self, what)
                except AssertionError as error:
                    raise AssertionError(f"step {number}, {verb} {what}: {error}") from error
        unread = {name: got for name, got in self._got.items() if got}
        assert not unread

    def _session(self, name: str) -> PlainSession:
        return self._node.sessions[self._names[name]]

    def _take(self, outcome: Outcome) -> None:
        if outcome.group:
            raise NotModelled("which member of a group gets a message")
        for client_id, messages in outcome.plain.items():
            self._got.setdefault(client_id, []).extend(messages)

    def _connect(self, what: dict[str, Any]) -> None:
        known = {"id", "user", "version", "clean_start", "session_expiry", "will", "present"}
        for name, given in what.items():
            fields = dict(given or {})
            if not fields.keys() <= known:
                raise NotModelled(f"a connection with {fields.keys() - known}")
            client_id = self._names[name] = fields.get("id", name)
            version = fields.get("version", self._case.version)
            before = self._node.sessions.get(client_id)
            if before is not None and before.online:
                self._take(self._node.lose(before, 0))
            before = self._node.sessions.get(client_id)
            expiry = fields.get("session_expiry", 0 if version == 5 or fields.get("clean_start", True) else NEVER)
            is_own = before is not None and before.user == fields.get("user")
            is_present = is_own and not fields.get("clean_start", True)
            assert is_present is fields.get("present", False)
            if before is None or not is_present:
                self._node.advertised.pop(client_id, None)
                before = PlainSession(client_id, fields.get("user"), version, expiry)
                self._node.sessions[client_id] = before
            else:
                self._got.setdefault(client_id, []).extend(self._node.resume(before, version))
            before.expiry, will = expiry, fields.get("will")
            if will is not None and not will.keys() <= {"topic", "payload", "qos", "retain"}:
                raise NotModelled("properties of a will")
            before.will = will and (
                will["topic"],
                str(will.get("payload", "")).encode(),
                will.get("qos", 0),
                will.get("retain", False),
            )

    def _subscribe(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            session = self._session(name)
            for one in listed(given):
                fields: dict[str, Any] = {"filter": one} if isinstance(one, str) else dict(one)
                if "properties" in fields or "scope" in fields:
                    raise NotModelled("user properties of a subscription")
                if not isinstance(fields.get("granted", 0), int):
                    continue
                where = fields.get("where")
                sub = Sub(
                    fields["filter"],
                    fields.get("granted", fields.get("qos", 0)),
                    fields.get("no_local", False),
                    fields.get("retain_as_published", False),
                    fields.get("id", 0),
                    fields.get("name", ""),
                    Where(where) if where else None,
                )
                parse_filter(sub.filter)
                got = self._node.subscribe(session, sub, fields.get("retain_handling", 0))
                self._got.setdefault(session.client_id, []).extend(got)

    def _unsubscribe(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            fields = given if isinstance(given, dict) else {"filter": given}
            if "properties" in fields:
                raise NotModelled("user properties")
            for filter in listed(fields["filter"]):
                key = f"{filter}\0{fields['name']}" if "name" in fields else filter
                self._session(name).subs.pop(key, None)

    def _publish(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            for one in listed(given):
                fields = dict(one)
                payload = payload_of(fields)
                unknown = fields.keys() - {"topic", "qos", "retain", "answer", "packet_id"}
                if unknown:
                    raise NotModelled(f"a publication with {unknown}")
                qos, retain = fields.get("qos", 0), fields.get("retain", False)
                self._take(self._node.publish(self._session(name), fields["topic"], payload, qos, retain))

    def _advertise(self, what: dict[str, Any]) -> None:
        for name, given in what.items():
            for one in listed(given):
                if one.get("answer", "SUCCESS") == "SUCCESS":
                    of_client = self._node.advertised.setdefault(self._names[name], {})
                    of_client[one["name"]] = one["filter"], one.get("where")

    def _unadvertise(self, what: dict[str, str]) -> None:
        for name, one in what.items():
            del self._node.advertised[self._names[name]][one]

    def _gets(self, what: dict[str, Any]) -> None:
        for name, expected in what.items():
            got = self._got.pop(self._names[name], [])
            assert len(got) == len(expected), got
            for message, wanted in zip(got, expected, strict=True):
                fields = wanted if isinstance(wanted, dict) else {"payload": wanted}
                self._compare(message, fields)

    @staticmethod
    def _compare(message: Message, wanted: dict[str, Any]) -> None:
        if "metrics" in wanted:
            assert metrics_of(message.payload)["metrics"] == wanted["metrics"]
        else:
            said, text = message.payload.decode(), str(wanted.get("payload", ""))
            assert said == text or _json(said) == _json(text), message
        if "topic" in wanted:
            assert sorted(message.ids) == wanted.get("subscription_ids", []), message
            for name in FIELDS:
                assert getattr(message, name) == wanted.get(name, 0), message

    def _acknowledges(self, what: dict[str, Any]) -> None:
        self._gets(what)
        for name in what:
            session = self._session(name)
            session.owed = [one for one in session.owed if not one.sent]

    def _loses(self, what: Any) -> None:
        for name in listed(what):
            self._leave(name, False)

    def _leaves(self, what: Any) -> None:
        if not isinstance(what, str):
            raise NotModelled("how a client says goodbye")
        self._leave(what, True)

    def _leave(self, name: str, says_goodbye: bool) -> None:
        self._take(self._node.lose(self._session(name), 0, says_goodbye))

    def _reload(self, text: str) -> None:
        path = self._folder / "acl"
        path.write_text(text)
        self._node.reload(Acl.read(path))

    def _rule(self, what: dict[str, Any]) -> None:
        self._node.domain = what
        self._node.reload(self._node.acl)


_VERBS: dict[str, Callable[[ReferencePlayer, Any], None]] = {
    "connect": ReferencePlayer._connect,
    "subscribe": ReferencePlayer._subscribe,
    "unsubscribe": ReferencePlayer._unsubscribe,
    "publish": ReferencePlayer._publish,
    "untouched": ReferencePlayer._publish,
    "advertise": ReferencePlayer._advertise,
    "unadvertise": ReferencePlayer._unadvertise,
    "gets": ReferencePlayer._gets,
    "acknowledges": ReferencePlayer._acknowledges,
    "loses": ReferencePlayer._loses,
    "leaves": ReferencePlayer._leaves,
    "acl": ReferencePlayer._reload,
    "domain": ReferencePlayer._rule,
}


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text
