"""Interest as packets: no larger than the neighbour takes.

What does not fit into one packet is told in several, and nothing is taken back before all that is new has been told:
who is told never has less than before or after. What does not fit even alone is widened.
"""

from collections.abc import Iterator
from typing import Literal, TypeVar

import msgspec
from msgspec import structs

from penstock.engine.federation.state import Change
from penstock.engine.federation.wants import Farewell, Offer, Want
from penstock.engine.node import Node
from penstock.engine.sessions.session import Session
from penstock.engine.sessions.state import ROOM_FOR_NODES
from penstock.wire.codec import encode
from penstock.wire.packet import Publish

INTEREST = "$penstock/interest"
"""The control topic on which nodes tell each other what they want and what they can offer."""
MAX_BYTES = 65_536
"""A packet's size, if the neighbour would take more: between two of them others have their turn."""
_AROUND = 128
"""Bytes of a packet that are not wants and offers."""
_SHOWN = 80
_VERBS: dict[type, str] = {Want: "wanted", Offer: "offered"}
T = TypeVar("T", Want, Offer)


class Interest(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of what one side wants, and of the advertisements that it knows of."""

    add: tuple[Want, ...] = ()
    remove: tuple[Want, ...] = ()
    offer: tuple[Offer, ...] = ()
    withdraw: tuple[str, ...] = ()
    farewell: tuple[Farewell, ...] = ()
    begins: Literal["", "wants", "offers"] = ""
    """A list of all wants, or of all offers, begins with this packet; and in `ends` that it ends with it."""
    ends: Literal["", "wants", "offers"] = ""


def packets(session: Session, change: Change, of_all: Literal["", "wants", "offers"] = "") -> Iterator[bytes]:
    """Return the packets for a change. `of_all`: it is all that is wanted, or all that is offered."""
    entries: list[tuple[str, Want | Offer | Farewell | str]] = [("offer", entry) for entry in sorted(change.offer)]
    entries += [("add", entry) for entry in sorted(change.add)]
    entries += [("farewell", entry) for entry in sorted(change.farewell, key=msgspec.json.encode)]
    entries += [("remove", entry) for entry in sorted(change.remove)]
    entries += [("withdraw", entry) for entry in sorted(change.withdraw)]
    room = _room(session)
    parts: list[dict[str, list[Want | Offer | Farewell | str]]] = [{}]
    left = room
    for kind, entry in entries:
        size = _size(entry)
        if size > room:
            continue  # not even `#` by such a way can be told; the operator knows, and the link stays up
        if size > left and parts[-1]:
            parts.append({})
            left = room
        parts[-1].setdefault(kind, []).append(entry)
        left -= size
    for at, part in enumerate(parts):
        message: dict[str, object] = dict(part)
        if of_all and at == 0:
            message["begins"] = of_all
        if of_all and at == len(parts) - 1:
            message["ends"] = of_all
        yield encode(Publish(INTEREST, msgspec.json.encode(message)), 5)


class Room:
    """The size that one want or offer may have in a packet: a larger one is widened, and the operator notified."""

    def __init__(self, node: Node, neighbour: Session) -> None:
        self._node = node
        self._neighbour = neighbour
        self._max_size = _room(neighbour)

    def fits(self, farewell: Farewell, filter: str) -> bool:
        """Return True if a farewell can be told; otherwise the operator is notified."""
        is_short = _size(farewell) <= self._max_size
        if not is_short:
            reason = f"the policy of a withdrawal takes {_size(farewell)} bytes: nodes beyond are not told of it"
            self._node.notice("too long to tell", self._neighbour, _short(filter), reason)
        return is_short

    def fit(self, entry: T) -> T:
        """Return the want or offer, or a wider one that fits."""
        if (isinstance(entry, Want) and _longest(entry) <= self._max_size) or _size(entry) <= self._max_size:
            return entry
        if entry.policy or (isinstance(entry, Want) and entry.consumer):
            return entry  # it is not for more than was said: if it does not fit, it is not told
        for filter in _wider(entry.filter):
            wider = structs.replace(
                entry, filter=filter, where="", **({"needs": ""} if isinstance(entry, Want) else {})
            )
            if _size(wider) <= self._max_size:
                break
        what, bound = _VERBS[type(entry)], _room(self._neighbour) + _AROUND
        result = f"`{_short(wider.filter)}` is told" if _size(wider) <= self._max_size else "nothing can be told"
        sizes = f"what is {what} takes {_size(entry)} bytes, the neighbour takes packets of at most {bound} bytes"
        self._node.notice("too long to tell", self._neighbour, _short(entry.filter), f"{sizes}: {result}")
        return wider


def _wider(filter: str) -> Iterator[str]:
    """Yield the filter, and ever shorter ones that cover it."""
    yield filter
    levels = filter.removesuffix("/#").split("/")
    while len(levels) > 1:
        levels.pop()
        if levels != [""]:
            yield "/".join([*levels, "#"])
    if not filter.startswith("$"):
        yield "#"


def _room(session: Session) -> int:
    max_size = session.connection.maximum_packet_size
    return (min(max_size - ROOM_FOR_NODES, MAX_BYTES) if max_size else MAX_BYTES) - _AROUND


def _longest(want: Want) -> int:
    """Return an upper bound of its size: a character is at most six bytes of JSON."""
    texts = len(want.filter) + len(want.where) + len(want.policy) + len(want.consumer) + len(want.needs)
    return 64 + 6 * texts + sum(6 * len(node) + 3 for node in want.path)


def _size(entry: Want | Offer | Farewell | str) -> int:
    return len(msgspec.json.encode(entry)) + 1


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
