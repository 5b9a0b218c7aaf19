"""The client: advertise, subscribe, publish, and resume the session after a lost connection."""

import asyncio
import json
import logging
import ssl
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from paho.mqtt.client import MQTTMessage
from paho.mqtt.packettypes import PacketTypes

from penstock.client import contracts
from penstock.client.connection import Acknowledgement, MqttSession, NodeAddress, properties
from penstock.client.contracts import ClientContract, Contract
from penstock.client.errors import Refused
from penstock.client.event import JSON, Event, encode
from penstock.client.policies import Policy, text_of
from penstock.client.subscription import Qos, Receipts, Scope, Subscription
from penstock.client.tokens import Source, TokenRenewer
from penstock.language.condition import make_condition
from penstock.model.topic import check_topic, parse_filter

ADVERTISE = "$penstock/advertise"
UNADVERTISE = "$penstock/unadvertise"
SET_POLICY = "$penstock/policy"
FEEDBACK = "$penstock/feedback"
CONTRACT = "$penstock/contract"
ATTACHED = "penstock-policy"
"""The user property of a publication that has a policy attached."""

_REFUSED = 0x80
_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Advertisement:
    """An advertisement: what a producer has announced that it will publish."""

    name: str
    filter: str
    where: str | None = None
    scope: Scope | None = None
    policy: str | None = None


class Client:
    """A client of a node, from `async with` to its end.

    The session lives as long: it outlasts lost connections, for `session_expiry` seconds each. If the node no longer
    has it, the client advertises and subscribes again. Until there is a connection, calls wait.
    """

    def __init__(
        self,
        host: str = "localhost",
        port: int | None = None,
        *,
        client_id: str | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | bool = False,
        session_expiry: int = 300,
        keep_alive: int = 60,
        buffer: int = 1000,
        timeout: float = 10.0,
        groups: Mapping[str, bytes] | None = None,
        token: Source | None = None,
    ) -> None:
        """`port` is 1883, or 8883 with TLS; `client_id` one that nobody else has; `tls` the system's trust if True.

        `buffer` is how many events of QoS 1 may wait to be taken, before the node waits with the rest; and how many
        of QoS 0 in each subscription, before they are dropped. `timeout`: seconds that connecting may take.
        `groups`: the trust groups to prove membership of to the node, by name, with their secrets.
        `token`: an authorisation token, or a function or coroutine function that gets one, now and before it ends.
        """
        if token is not None and password is not None:
            raise ValueError("a client shows a token, or has a password")
        if not 1 <= buffer <= 65535:
            raise ValueError(f"a buffer holds 1 to 65535 events, not {buffer}")
        context = ssl.create_default_context() if tls is True else tls or None
        port = port or (1883 if context is None else 8883)
        client_id = client_id or f"penstock-{uuid.uuid4().hex[:16]}"
        self._address = NodeAddress(host, port, client_id, username, password, context)
        self._buffer = buffer
        self._new_session = partial(
            MqttSession, self._address, self, session_expiry, keep_alive, buffer, timeout, dict(groups or {})
        )
        self._token = token
        self._connection: MqttSession | None = None
        self._receipts = Receipts(lambda mid: self._node.acknowledge(mid))
        self._subscriptions: dict[int, Subscription] = {}
        self._advertisements: dict[str, Advertisement] = {}
        self._brought: dict[str, ClientContract] = {}
        self._is_ready = asyncio.Event()
        self._restoring: asyncio.Task[None] | None = None
        self._count = 0

    @property
    def client_id(self) -> str:
        return self._address.client_id

    @property
    def groups(self) -> frozenset[str]:
        """Return the trust groups that count as proven now, both by the node to this client and the other way round."""
        return self._connection.groups if self._connection is not None else frozenset()

    async def __aenter__(self) -> Self:
        """Connect; raises `Refused` or `Disconnected`, or what the function for tokens raises."""
        if self._connection is not None:
            raise RuntimeError("a client is entered once")
        self._connection = self._new_session(TokenRenewer(self._token) if self._token is not None else None)
        await self._connection.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for subscription in list(self._subscriptions.values()):
            self._drop(subscription)
        await self._node.close()

    # --- requests of the program

    async def advertise(
        self,
        filter: str,
        where: str | None = None,
        *,
        name: str | None = None,
        scope: Scope | None = None,
        policy: Policy | None = None,
    ) -> Advertisement:
        """Announce what this client will publish, and may publish from now on; one of the same name is replaced.

        Raises `TopicError`, `ConditionError` or `StatementError` for an invalid filter, condition or policy, and
        `Refused` if the node refuses.
        """
        _check(filter, where)
        policy_text = _policy_text(policy)
        advertisement = Advertisement(name or _generated_name(self._new_number()), filter, where, scope, policy_text)
        await self._ready()
        await self._send_advertisement(advertisement)
        self._advertisements[advertisement.name] = advertisement
        return advertisement

    async def unadvertise(self, advertisement: Advertisement | str, *, policy: Policy | None = None) -> None:
        """Take back an advertisement, or the one of a name; raise `Refused` if the node does not have it."""
        name = advertisement if isinstance(advertisement, str) else advertisement.name
        request = dict(_pairs(name=name, policy=_policy_text(policy)))
        await self._ready()
        await self._command(UNADVERTISE, request, f"taking back the advertisement `{name}`")
        self._advertisements.pop(name, None)

    async def subscribe(
        self,
        filter: str,
        where: str | None = None,
        *,
        qos: Qos = 1,
        name: str | None = None,
        scope: Scope | None = None,
        policy: Policy | None = None,
        contract: Contract | None = None,
    ) -> Subscription:
        """Subscribe to events that match the filter and whose content satisfies the condition.

        A client may have several subscriptions to the same filter; one of the same filter and name is replaced, and
        ends. `contract` is what the program guarantees and needs for this subscription: `purpose`, `situation`,
        `retention`, `needs`. Raises `TopicError`, `ConditionError` or `StatementError` for an invalid filter, condition
        or policy, `ValueError` for an invalid contract, and `Refused` if the node refuses.
        """
        _check(filter, where)
        policy_text = _policy_text(policy)
        guaranteed = contracts.text_of(contract)
        await self._ready()
        number = self._new_number()
        request = (filter, name or _generated_name(number), where, scope, qos)
        subscription = Subscription(*request, number, self._buffer, self._receipts, policy_text, guaranteed)
        self._subscriptions[subscription.identifier] = subscription
        try:
            await self._send_subscription(subscription)
        except BaseException:
            self._drop(subscription)
            raise
        for other in list(self._subscriptions.values()):
            if (other.filter, other.name) == (filter, subscription.name) and other is not subscription:
                self._drop(other)
        return subscription

    async def unsubscribe(self, subscription: Subscription, *, policy: Policy | None = None) -> None:
        """Give up a subscription: it ends at once and its waiting events are dropped. With a policy, it ends when the
        node has granted the policy."""
        pairs = _pairs(name=subscription.name, policy=_policy_text(policy))
        if policy is None:
            self._drop(subscription)
        await self._ready()
        request = properties(PacketTypes.UNSUBSCRIBE, UserProperty=pairs)
        answer = await self._node.unsubscribe(subscription.filter, request)
        _granted(f"giving up the subscription to `{subscription.filter}`", answer)
        self._drop(subscription)

    async def bring(self, name: str, *, produces: Contract | None = None, consumes: Contract | None = None) -> None:
        """Bring a contract for what this client publishes or for what it receives; one of the same name is replaced.

        Raises `ValueError` for an invalid contract, and `Refused` if the node refuses.
        """
        if (produces is None) is (consumes is None):
            raise ValueError("expected one of `produces` and `consumes`")
        brought = ClientContract(name, contracts.text_of(produces), contracts.text_of(consumes))
        await self._ready()
        await self._send_contract(brought)
        self._brought[name] = brought

    async def take_back(self, name: str) -> None:
        """Take back the contract of a name; raise `Refused` if the node does not have it."""
        await self._ready()
        await self._send_contract(ClientContract(name))
        self._brought.pop(name, None)

    async def set_policy(self, of: Subscription | Advertisement, policy: Policy | None) -> None:
        """Replace the policy of a subscription or advertisement; None removes it.

        Raises `StatementError` for an invalid policy. Raises `Refused` if the node refuses; then the old policy stays.
        """
        text = _policy_text(policy)
        kind, about = "advertisement", of.name  # type: str, object
        if isinstance(of, Subscription):
            kind, about = "subscription", {"filter": of.filter, "name": of.name}
        await self._ready()
        await self._command(SET_POLICY, {kind: about, "policy": text}, f"policy of the {kind} `{of.filter}`")
        of.policy = text

    async def publish(
        self,
        topic: str,
        content: Any,
        *,
        qos: Qos = 1,
        retain: bool = False,
        content_type: str | None = None,
        expiry: int | None = None,
        properties: Iterable[tuple[str, str]] = (),
        policy: Policy | None = None,
    ) -> None:
        """Publish bytes or text as they are, everything else as JSON.

        `expiry`: seconds after which the event is no longer delivered. `policy` goes with the event from node to node.
        Raises `TopicError` for an invalid topic, `StatementError` for an invalid policy, and `Refused` if the node
        refuses; with QoS 0 a node does not answer.
        """
        check_topic(topic)
        payload, usual = encode(content)
        pairs = [*properties, *([(ATTACHED, text_of(policy))] if policy is not None else [])]
        await self._ready()
        await self._send(f"publication to `{topic}`", topic, payload, qos, retain, content_type or usual, expiry, pairs)

    async def rate(self, event: Event, good: bool) -> None:
        """Tell the node that an event it sent here is good or bad: evidence about the neighbour it came from.

        Raises `Refused` if the rating does not count: this client may not rate, has rated it already or rates too
        often, or the event did not come from a neighbour.
        """
        request = {"topic": event.topic, "good": good, "payload": event.digest}
        await self._ready()
        await self._command(FEEDBACK, request, f"rating of an event on `{event.topic}`")

    # --- requests to the node

    @property
    def _node(self) -> MqttSession:
        if self._connection is None:
            raise RuntimeError("the client is not connected: use `async with`")
        return self._connection

    async def _ready(self) -> None:
        """Wait until the node knows what this client advertises and subscribes to."""
        _ = self._node
        await self._is_ready.wait()

    async def _send_advertisement(self, advertisement: Advertisement) -> None:
        request = dict(_pairs(**asdict(advertisement)))
        await self._command(ADVERTISE, request, f"advertisement `{advertisement.name}` of `{advertisement.filter}`")

    async def _command(self, topic: str, request: Mapping[str, object], about: str) -> None:
        await self._send(about, topic, json.dumps(request).encode(), content_type=JSON)

    async def _send(
        self,
        about: str,
        topic: str,
        payload: bytes,
        qos: Qos = 1,
        retain: bool = False,
        content_type: str = "",
        expiry: int | None = None,
        pairs: Iterable[tuple[str, str]] = (),
    ) -> None:
        publish_properties = properties(
            PacketTypes.PUBLISH,
            ContentType=content_type or None,
            MessageExpiryInterval=expiry,
            UserProperty=list(pairs) or None,
        )
        _granted(about, await self._node.publish(topic, payload, qos, retain, publish_properties))

    async def _send_contract(self, brought: ClientContract) -> None:
        await self._command(CONTRACT, brought.request, f"contract `{brought.name}`")

    async def _send_subscription(self, subscription: Subscription) -> None:
        names = ("name", "scope", "where", "policy", "contract")
        pairs = _pairs(**{name: getattr(subscription, name) for name in names})
        request_properties = properties(
            PacketTypes.SUBSCRIBE, SubscriptionIdentifier=subscription.identifier, UserProperty=pairs
        )
        answer = await self._node.subscribe(subscription.filter, subscription.qos, request_properties)
        _granted(f"subscription to `{subscription.filter}`", answer)

    def _drop(self, subscription: Subscription) -> None:
        self._subscriptions.pop(subscription.identifier, None)
        subscription.close()

    def _new_number(self) -> int:
        self._count += 1
        return self._count

    # --- events of the connection

    def connected(self, is_resumed: bool) -> None:
        if is_resumed:
            for subscription in self._subscriptions.values():
                subscription.resume()
        elif self._subscriptions or self._advertisements or self._brought:
            for subscription in self._subscriptions.values():
                subscription.begin_again()
            self._stop_restoring()
            self._restoring = asyncio.create_task(self._restore())
            return
        if self._restoring is None:
            self._is_ready.set()

    def cut(self) -> None:
        self._is_ready.clear()
        self._receipts.forget()

    def ended(self, error: Exception) -> None:
        self._stop_restoring()
        for subscription in self._subscriptions.values():
            subscription.fail(error)
        self._is_ready.set()  # so that waiting calls raise the error

    def received(self, message: MQTTMessage) -> None:
        packet_properties = message.properties
        subscriptions = [
            self._subscriptions.get(identifier)
            for identifier in getattr(packet_properties, "SubscriptionIdentifier", ())
        ]
        holders = [subscription for subscription in subscriptions if subscription is not None]
        receipt = self._receipts.add(message.mid, len(holders)) if message.qos else None
        event = Event(
            message.topic,
            bytes(message.payload),
            message.qos,
            message.retain,
            getattr(packet_properties, "ContentType", ""),
            tuple(getattr(packet_properties, "UserProperty", ())),
        )
        for subscription in holders:
            subscription.put(event, receipt)

    async def _restore(self) -> None:
        """Advertise and subscribe again in a new session; a subscription that is refused now ends."""
        for brought in list(self._brought.values()):
            try:
                await self._send_contract(brought)
            except Refused as error:
                _log.warning("%s", error)
                self._brought.pop(brought.name, None)
        for advertisement in list(self._advertisements.values()):
            try:
                await self._send_advertisement(advertisement)
            except Refused as error:
                _log.warning("%s", error)
                self._advertisements.pop(advertisement.name, None)
        for subscription in list(self._subscriptions.values()):
            try:
                await self._send_subscription(subscription)
            except Refused as error:
                self._subscriptions.pop(subscription.identifier, None)
                subscription.fail(error)
        self._restoring = None
        self._is_ready.set()

    def _stop_restoring(self) -> None:
        if self._restoring is not None:
            self._restoring.cancel()
            self._restoring = None


def _generated_name(number: int) -> str:
    """Return a name that no program would choose."""
    return f"#{number}"


def _check(filter: str, where: str | None) -> None:
    parse_filter(filter)
    if where is not None:
        make_condition(where)


def _policy_text(policy: Policy | None) -> str | None:
    return None if policy is None else text_of(policy)


def _pairs(**values: str | None) -> list[tuple[str, str]]:
    """Return the values that are not None as pairs."""
    return [(name, value) for name, value in values.items() if value is not None]


def _granted(what: str, answer: Acknowledgement) -> None:
    if answer.code >= _REFUSED:
        raise Refused(what, *answer)
