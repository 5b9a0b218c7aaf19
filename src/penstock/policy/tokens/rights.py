"""The rights of a client that has shown a token: its own rights, limited to what its token grants (trust §II-A)."""

from dataclasses import dataclass
from functools import cached_property

from penstock.model.topic import covers, matches, parse_filter
from penstock.model.topic_tree import place_index
from penstock.policy.access.acl import Access, AclRule, Rights

CONTROL = "$penstock/"
"""The prefix of topics on which clients talk to the node itself: other rules grant these."""
_FEW = 32


@dataclass(frozen=True)
class TokenRights:
    """Rights with a token. Clients with the same filters and the same other rights have equal ones."""

    publish: frozenset[str]
    subscribe: frozenset[str]
    base: Rights | None = None
    """The rights by the node's access list; None: everything."""

    def may_write(self, topic: str) -> bool:
        return self.publishes(topic) and (self.base is None or self.base.may_write(topic))

    def may_read(self, topic: str) -> bool:
        return self.reads(topic) and (self.base is None or self.base.may_read(topic))

    def may_subscribe(self, filter: str) -> bool:
        """Return whether one filter of the token covers it: two that cover it only together do not."""
        return self._subscribes(filter) and (self.base is None or self.base.may_subscribe(filter))

    def why_write(self, topic: str) -> str:
        if not self.publishes(topic):
            return f"may not write to `{topic}`: its token has no filter to publish that matches it"
        return f"may write to `{topic}`: by its token" if self.base is None else self.base.why_write(topic)

    def why_read(self, topic: str) -> str:
        if not self.reads(topic):
            return f"may not read `{topic}`: its token has no filter to subscribe that matches it"
        return f"may read `{topic}`: by its token" if self.base is None else self.base.why_read(topic)

    def why_subscribe(self, filter: str) -> str:
        if not self._subscribes(filter):
            return f"may not subscribe to `{filter}`: its token has no filter that covers it"
        return f"may subscribe to `{filter}`: by its token" if self.base is None else self.base.why_subscribe(filter)

    def deciding(self, topic: str, access: Access) -> AclRule | None:
        """Return the rule of the access list that decides, if the token allows the access."""
        allowed = self.publishes(topic) if access == "write" else self.reads(topic)
        return self.base.deciding(topic, access) if self.base is not None and allowed else None

    def publishes(self, topic: str) -> bool:
        """Return whether the token grants publishing to a topic."""
        return topic.startswith(CONTROL) or self._to_publish.match(topic)

    def reads(self, topic: str) -> bool:
        """Return whether the token grants reading a topic, whatever the access list says."""
        return self._to_subscribe.match(topic)

    def _subscribes(self, filter: str) -> bool:
        subscribed = parse_filter(filter).filter
        return any(covers(permitted, subscribed) for permitted in self.subscribe)

    @cached_property
    def _to_publish(self) -> "Filters":
        return Filters(self.publish)

    @cached_property
    def _to_subscribe(self) -> "Filters":
        return Filters(self.subscribe)


NO_RIGHTS = TokenRights(frozenset(), frozenset())
"""Of a client that has shown no token and needs one."""


class Filters:
    """Filters of a token, to be asked about topics."""

    __slots__ = ("_filters", "_tree")

    def __init__(self, filters: frozenset[str]) -> None:
        self._filters = tuple(filters)
        self._tree = place_index(self._filters) if len(filters) > _FEW else None

    def match(self, topic: str) -> bool:
        """Return whether one of them matches."""
        if self._tree is None:
            return any(matches(permitted, topic) for permitted in self._filters)
        return bool(self._tree.match(topic))
