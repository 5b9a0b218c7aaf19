"""Topics of Sparkplug 3.0 (norm, section 4): what kind of message, of which edge node or device."""

from typing import NamedTuple

from penstock.model.errors import ContentError

NAMESPACE = "spBv1.0"
STATE = "STATE"
OF_NODES = frozenset({"NBIRTH", "NDEATH", "NDATA", "NCMD"})
OF_DEVICES = frozenset({"DBIRTH", "DDEATH", "DDATA", "DCMD"})
BIRTHS = frozenset({"NBIRTH", "DBIRTH"})
REPORTS = frozenset({"NDATA", "DDATA"})
"""Messages that report by exception: only what has changed."""
DEATHS = frozenset({"NDEATH", "DDEATH"})
COMMANDS = frozenset({"NCMD", "DCMD"})
LIVES = frozenset({*BIRTHS, *DEATHS, STATE})
"""Messages that say whether an edge node, a device or a host is there."""
NUMBERED = frozenset({"NBIRTH", "DBIRTH", "NDATA", "DDATA", "DDEATH"})
"""Messages with a `seq`, counted for each edge node; its will, NDEATH, has none."""


class SparkplugSource(NamedTuple):
    """An edge node, or a device behind one."""

    group: str
    edge: str
    device: str = ""

    @property
    def node(self) -> "SparkplugSource":
        """The edge node itself."""
        return SparkplugSource(self.group, self.edge)

    def __str__(self) -> str:
        return "/".join(self if self.device else self[:2])


class MessageTopic(NamedTuple):
    """The parts of a topic: a message of (or a command to) a source; or the state of a host."""

    type: str
    source: SparkplugSource | None
    host: str = ""

    @property
    def speaker(self) -> str:
        """Its subject: an edge node, a device or a host."""
        return f"{STATE}/{self.host}" if self.source is None else str(self.source)


def in_namespace(topic: str) -> bool:
    """Return whether a topic belongs to Sparkplug, validly or not."""
    return topic == NAMESPACE or topic.startswith(NAMESPACE + "/")


def is_birth(topic: str) -> bool:
    """Return whether a topic is that of birth certificates."""
    if not in_namespace(topic):
        return False
    levels = topic.split("/")
    kind = {4: "NBIRTH", 5: "DBIRTH"}.get(len(levels))
    return kind is not None and levels[2] == kind and all(levels)


def birth_topic(source: SparkplugSource) -> str:
    """Return the topic of the birth of an edge node or a device."""
    return "/".join((NAMESPACE, source.group, "DBIRTH" if source.device else "NBIRTH", *source[1:])).rstrip("/")


def report_topic(source: SparkplugSource) -> str:
    """Return the topic of the reports of an edge node or a device."""
    return "/".join((NAMESPACE, source.group, "DDATA" if source.device else "NDATA", *source[1:])).rstrip("/")


def topics_of(source: SparkplugSource) -> tuple[str, ...]:
    """Return the topics of all messages of, and commands to, an edge node or a device."""
    kinds = OF_DEVICES if source.device else OF_NODES
    return tuple("/".join((NAMESPACE, source.group, kind, *source[1:])).rstrip("/") for kind in sorted(kinds))


def message_topic(topic: str) -> MessageTopic:
    """Return the parts of a topic of the namespace; raises `ContentError` for one that the norm does not know."""
    match topic.split("/"):
        case [_, "STATE", host] if host:
            return MessageTopic(STATE, None, host)
        case [_, group, kind, edge] if kind in OF_NODES and group and edge:
            return MessageTopic(kind, SparkplugSource(group, edge))
        case [_, group, kind, edge, device] if kind in OF_DEVICES and group and edge and device:
            return MessageTopic(kind, SparkplugSource(group, edge, device))
    raise ContentError(
        f"`{topic}` is not a Sparkplug topic: expected `{NAMESPACE}/<group>/<N… type>/<edge node>`, "
        f"`{NAMESPACE}/<group>/<D… type>/<edge node>/<device>` or `{NAMESPACE}/STATE/<host>`"
    )
