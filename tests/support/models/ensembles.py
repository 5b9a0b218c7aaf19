"""The ensembles of the brokering paper's figures and usage patterns, as schemas of the semantics."""

from collections.abc import Iterable, Mapping

from penstock.semantics.ordering import Ordering, in_order_links
from penstock.semantics.schema import (
    BrokeringPolicy,
    ConnectionGraph,
    EventPolicy,
    LinkMonitor,
    MonitorState,
    Pair,
    Schema,
    event_filter,
)


def both_ways(pairs: Iterable[Pair]) -> frozenset[Pair]:
    """The links of connections: each direction is one."""
    return frozenset(link for x, y in pairs for link in ((x, y), (y, x)))


def all_but(types: Iterable[str], denied: Iterable[Pair]) -> frozenset[Pair]:
    """`allow` as all pairs of types but these."""
    names = tuple(types)
    return frozenset((t1, t2) for t1 in names for t2 in names) - frozenset(denied)


def subscribed_to_all(
    graph: ConnectionGraph, topics: frozenset[str], listeners: Iterable[str] | None = None
) -> dict[Pair, frozenset[str]]:
    """`sub` with these devices subscribed to everything everywhere; None: all of them."""
    devices = graph.devices if listeners is None else frozenset(listeners)
    return {(x, y): topics for x, y in graph.link if y in devices}


def hierarchy(
    parents: Iterable[Pair], devices: Iterable[str], topics: Iterable[str], ordering: Ordering = in_order_links
) -> Schema:
    """§6.1.2: a hierarchy, of which each pair has a child and its parent. Every device is subscribed to everything."""
    parenthood, names = frozenset(parents), frozenset(devices)
    links = both_ways(parenthood)
    graph = ConnectionGraph(names, frozenset(x for link in links for x in link) - names, links)
    types = {link: "up" if link in parenthood else "down" for link in links}
    brokering = BrokeringPolicy(frozenset({"up", "down"}), types, all_but(("up", "down"), [("down", "up")]))
    events = EventPolicy(frozenset(topics))
    return Schema(graph, brokering, events, subscribed_to_all(graph, events.topics), ordering)


FIGURE_1 = (
    ("C", "A"),
    ("D", "A"),
    ("D", "B"),
    ("E", "B"),
    ("1", "C"),
    ("2", "C"),
    ("3", "D"),
    ("4", "E"),
)
"""Fig. 1: brokers A to E, of which D has two parents, and devices 1 to 4."""


def figure_1(ordering: Ordering = in_order_links) -> Schema:
    return hierarchy(FIGURE_1, "1234", ["a"], ordering)


SMART_HOME_TOPICS = frozenset(
    ["MD_motion", "MD_no_motion", "SC_request", "SC_send", "AC_request", "AC_grant", "AC_deny", "DL_unlock"]
)

_SMART_HOME = {
    ("SP", "I"): "internet",
    ("I", "H"): "internet",
    ("H", "S"): "door",
    ("DB", "H"): "door",
    ("SC", "H"): "door",
    ("DL", "S"): "door",
    ("MD", "H"): "sensitive",
}


def _m1(state: MonitorState, topic: str) -> tuple[MonitorState, tuple[str, ...]]:
    return state, () if topic == "DL_unlock" else (topic,)


_M2: Mapping[tuple[MonitorState, str], MonitorState] = {
    ("q0", "AC_request"): "q1",
    ("q1", "AC_deny"): "q0",
    ("q1", "AC_grant"): "q2",
    ("q2", "DL_unlock"): "q0",
}


def _m2(state: MonitorState, topic: str) -> tuple[MonitorState, tuple[str, ...]]:
    if topic == "DL_unlock" and state != "q2":
        return state, ()
    return _M2.get((state, topic), state), (topic,)


M1 = LinkMonitor(_m1)
"""Fig. 3: suppresses DL_unlock, preserves all else."""
M2 = LinkMonitor(_m2)
"""Fig. 4: DL_unlock only as the last event of AC_request, AC_grant, DL_unlock."""


def smart_home(
    ordering: Ordering = in_order_links, listeners: Iterable[str] | None = None, cut: Iterable[Pair] = ()
) -> Schema:
    """Fig. 2, with the listeners (None: all) subscribed to everything; `cut` are connections that are severed."""
    types = {link: name for pair, name in _SMART_HOME.items() if pair not in set(cut) for link in (pair, pair[::-1])}
    graph = ConnectionGraph(frozenset({"SP", "MD", "DB", "SC", "DL"}), frozenset("IHS"), frozenset(types))
    names = ("internet", "door", "sensitive")
    brokering = BrokeringPolicy(frozenset(names), types, all_but(names, [("sensitive", "internet")]))
    monitors = {link: monitor for link, monitor in ((("I", "H"), M1), (("H", "S"), M2)) if link in types}
    events = EventPolicy(SMART_HOME_TOPICS, monitors)
    return Schema(graph, brokering, events, subscribed_to_all(graph, SMART_HOME_TOPICS, listeners), ordering)


ROLE_TYPES = frozenset({"SubUp", "SubDown", "PubUp", "PubDown", "DevUp", "DevDown"})
ROLE_ALLOW = frozenset({("PubUp", "SubDown"), ("DevUp", "PubUp"), ("SubDown", "DevDown")})


def roles(
    members: Mapping[str, Iterable[str]],
    pub: Mapping[str, frozenset[str]],
    sub: Mapping[str, frozenset[str]],
    ordering: Ordering = in_order_links,
) -> Schema:
    """§6.2.3: `members` has each role's devices, `pub` and `sub` what they can publish and subscribe to."""
    devices = frozenset(device for some in members.values() for device in some)
    topics = frozenset(topic for some in (*pub.values(), *sub.values()) for topic in some)
    types: dict[Pair, str] = {}
    for role, some in members.items():
        types[f"{role}_pub", "Bus"], types["Bus", f"{role}_pub"] = "PubUp", "PubDown"
        types[f"{role}_sub", "Bus"], types["Bus", f"{role}_sub"] = "SubUp", "SubDown"
        for device in some:
            for broker in (f"{role}_pub", f"{role}_sub"):
                types[device, broker], types[broker, device] = "DevUp", "DevDown"
    monitors = {(f"{role}_pub", "Bus"): event_filter(pub[role]) for role in members}
    monitors |= {("Bus", f"{role}_sub"): event_filter(sub[role]) for role in members}
    brokers = frozenset(x for link in types for x in link) - devices
    graph = ConnectionGraph(devices, brokers, frozenset(types))
    events = EventPolicy(topics, monitors)
    brokering = BrokeringPolicy(ROLE_TYPES, types, ROLE_ALLOW)
    return Schema(graph, brokering, events, subscribed_to_all(graph, topics), ordering)


SMART_HOME_FILE = """
domain: smart-home
nodes: {cloud: {listen: 127.0.0.1:1883}, gateway: {listen: 127.0.0.1:1884}, locks: {listen: 127.0.0.1:1885}}
links:
  - {between: [gateway, cloud], type: internet}
  - {between: [locks, gateway], type: door}
clients:
  phone: {node: cloud, type: internet}
  motion: {node: gateway, type: sensitive}
  bell: {node: gateway, type: door}
  lock: {node: locks, type: door}
brokering: {types: [internet, door, sensitive], deny: [{from: sensitive, to: internet}]}
monitors:
  no-remote-unlock: {link: cloud -> gateway, states: {q0: {DL_unlock: suppress, "*": pass}}}
  unlock-after-grant:
    link: gateway -> locks
    states:
      q0: {AC_request: {pass: true, next: asked}, DL_unlock: suppress, "*": pass}
      asked: {AC_grant: {pass: true, next: granted}, AC_deny: {pass: true, next: q0}, DL_unlock: suppress, "*": pass}
      granted: {DL_unlock: {pass: true, next: q0}, "*": pass}
"""
"""The smart home as a domain file, without the camera."""
