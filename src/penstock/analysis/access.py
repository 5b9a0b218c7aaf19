"""The rights of a subject on Sparkplug messages: by topic and metric, resolved against births."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import msgspec

from penstock.domain import Ensemble
from penstock.domain.checks.access import is_never_true
from penstock.engine.sparkplug.messages import make_actor
from penstock.engine.sparkplug.state import Actor
from penstock.engine.stages.prune import usurped
from penstock.model.sparkplug.topic import NAMESPACE, OF_DEVICES, OF_NODES, STATE, message_topic
from penstock.model.subject import Subject
from penstock.policy.sparkplug.edge_nodes import Plant
from penstock.policy.sparkplug.name_patterns import NamePatterns
from penstock.policy.sparkplug.policies import Access, AccessPolicy, Privilege, parse_subject

How = Literal["always", "sometimes", "never"]
PRIVILEGES: tuple[Privilege, ...] = get_args(Privilege)


class MetricRight(msgspec.Struct, frozen=True):
    """The right to one metric: always, sometimes or never."""

    how: How
    by: tuple[str, ...] = ()
    """The ids of the policies that remove it, always or sometimes."""


class TopicRight(msgspec.Struct, frozen=True):
    """The right to the messages of one topic."""

    may: Privilege
    topic: str
    how: How
    """`always` if the policies that grant apply to every message."""
    policies: tuple[str, ...]
    conditions: tuple[str, ...]
    """The conditions of the policies that grant, if none grants always."""
    metrics: dict[str, MetricRight]


@dataclass(frozen=True, slots=True)
class PlantSample:
    """The edge nodes, devices and hosts that are known of a plant."""

    plant: Plant
    hosts: tuple[str, ...] = ()
    """The hosts of which a STATE message was seen."""


def find_actor(whole: Ensemble, written: str) -> Actor:
    """Return the actor of a subject written as in a policy, with all names that policies may use for a listed client.

    Raises `PolicyError` for what is no subject.
    """
    subject = parse_subject(written)
    kind, _, name = subject.partition(":")
    listed = _listed(whole, kind, name)
    for node in whole.nodes if listed else ():
        shown = whole.shown(node, listed)
        if shown is not None:
            entry = whole.client(node, shown.client_id, shown.user, shown.listener, shown.certificate)
            return make_actor(shown, entry, listed)
    stranger = Subject(name if kind == "client" else "", name if kind == "user" else None, "", "")
    return Actor((subject,), make_actor(stranger, None, name).record, name if kind == "edge" else "")


def _listed(whole: Ensemble, kind: str, name: str) -> str:
    """Return the client of the domain that goes by this name, client id or edge node; empty if none does."""
    if kind == "edge":
        return whole.edges.get(name, "")
    if kind != "client" or name in whole.devices:
        return name if kind == "client" else ""
    entries = (whole.client(node, name) for node in whole.nodes)
    return next((entry.name for entry in entries if entry is not None and entry.listed), "")


def rights(
    access: Access, edges: Mapping[str, str], actor: Actor, sample: PlantSample, now: float | None = None
) -> Iterator[TopicRight]:
    """Yield all that a subject may do with messages of the edge nodes, devices and hosts that are known; with a time,
    at that time.
    """
    for topic, metrics in _topics(sample):
        place = message_topic(topic)
        for may in PRIVILEGES:
            policies = possible(access.candidates(actor.ids, topic, may), now)
            if now is not None:  # the time has decided
                policies = [replace(policy, valid=None) for policy in policies]
            if policies and not (may == "write" and usurped(edges, actor.edge, place)):
                yield _right(may, topic, policies, metrics)


def possible(policies: Iterable[AccessPolicy], now: float | None = None) -> list[AccessPolicy]:
    """Return the policies that can apply; with a time, those that can then."""
    return [
        policy
        for policy in policies
        if (policy.condition is None or not is_never_true(policy.condition))
        and (now is None or policy.valid is None or policy.valid.holds(now))
    ]


def _topics(sample: PlantSample) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the topics of all that is known, with the metrics that messages there may have."""
    for source in sorted(sample.plant.sources()):
        names = tuple(sample.plant.known(source).births)
        for kind in sorted(OF_DEVICES if source.device else OF_NODES):
            death = ("bdSeq",) if kind == "NDEATH" and "bdSeq" in names else ()
            topic = "/".join((NAMESPACE, source.group, kind, *(source[1:] if source.device else source[1:2])))
            yield topic, death if kind in ("NDEATH", "DDEATH") else names
    for host in sorted(sample.hosts):
        yield f"{NAMESPACE}/{STATE}/{host}", ()


def _right(may: Privilege, topic: str, policies: Sequence[AccessPolicy], metrics: Iterable[str]) -> TopicRight:
    fixed = [policy for policy in policies if policy.is_unconditional]
    conditions = () if fixed else dict.fromkeys(map(condition_text, policies))
    return TopicRight(
        may,
        topic,
        "always" if fixed else "sometimes",
        tuple(dict.fromkeys(policy.id for policy in policies)),
        tuple(conditions),
        {name: metric_right(policies, name) for name in metrics},
    )


def condition_text(policy: AccessPolicy) -> str:
    """Return when a policy applies, in words; empty: always."""
    valid = "" if policy.valid is None else f"valid {policy.valid.text}"
    when = "" if policy.condition is None else policy.condition.text
    return f"{when} ({valid})" if when and valid else when or valid


def metric_right(policies: Sequence[AccessPolicy], metric: str) -> MetricRight:
    """Return the right to a metric by one or more candidate policies, for all possible messages."""
    fixed = [policy for policy in policies if policy.is_unconditional]
    excluding = [policy for policy in policies if metric in NamePatterns(policy.exceptions)]
    by = tuple(dict.fromkeys(policy.id for policy in excluding))
    if any(policy.is_unconditional for policy in excluding) or len(excluding) == len(policies):
        return MetricRight("never", by)
    return MetricRight("always" if fixed and not excluding else "sometimes", by)
