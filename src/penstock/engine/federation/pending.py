"""Changes since a node last computed its interest."""

from penstock.engine.sessions.session import Session

Source = tuple[Session, str]
"""A subscription: whose, and its key."""


class News:
    """Subscriptions that have come, gone or changed, ids of offers, or everything."""

    __slots__ = ("is_all", "offers", "subscriptions")

    def __init__(self, is_all: bool) -> None:
        """While everything is news, nothing is noted by itself: a node without neighbours gathers nothing."""
        self.is_all = is_all
        self.subscriptions: dict[Source, None] = {}
        self.offers: dict[str, None] = {}

    def __bool__(self) -> bool:
        return self.is_all or bool(self.subscriptions or self.offers)

    def subscription(self, session: Session, key: str) -> None:
        if not self.is_all:
            self.subscriptions[session, key] = None

    def offer(self, *ids: str) -> None:
        if not self.is_all:
            self.offers.update(dict.fromkeys(ids))

    def everything(self) -> None:
        self.is_all = True
        self.subscriptions, self.offers = {}, {}
