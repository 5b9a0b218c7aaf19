"""One subject, opened: its rights with their reasons, what it used of them of late, sessions, contracts."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from nicegui import ui

from penstock.broker.http.answers.decisions import DecisionRow, Decisions
from penstock.broker.http.answers.subjects import Clause, SubjectAccount
from penstock.console import widgets
from penstock.console.admin_client import AskError
from penstock.console.person import Person
from penstock.console.subjects import contracts
from penstock.console.subjects.use import refused_elsewhere, used, uses
from penstock.console.tables import Cell, Prose, Table, table
from penstock.engine.status import SubscriptionPortrait

BEAT = 3.0
MOST_DECISIONS = 1_000
_LOOKS = {"open": "pk-about", "grants": "pk-gain", "denies": "pk-loss", "limits": "pk-limit"}
_OF_LATE = "Of late: in decisions that nodes have kept, refusals and a sample of the rest; the job `audit` counts all."
_FURTHER = (
    "Each event counts once, at the node that the subject is at. What is passed on here may be refused further on: such"
    " refusals of the same topics are listed, whoever published the events."
)
_RIGHTS = ("effect", "topics", "why", "by", "node", "of late")
_USED = ("way", "topic", "came to", "rule", "because", "seen", "last, UTC")
_SESSIONS = ("node", "client id", "user", "state", "packets from it", "packets to it", "denied", "waiting")
_EFFECTS = ("open", "grants", "limits", "denies")
_BINDING = {
    "acl": "access control files",
    "token": "tokens",
    "access": "Sparkplug access policies",
    "advertisement": "advertisements",
    "where": "conditions on its subscriptions",
    "brokering": "the brokering table",
    "statement": "policy statements",
    "monitor": "monitors",
    "contract": "contracts",
    "privacy": "privacy policies",
}


class Opened:
    """The panel of one subject."""

    def __init__(self, person: Person, accounts: Sequence[SubjectAccount]) -> None:
        self._person = person
        self._accounts = accounts
        self._name = accounts[0].name

    async def build(self) -> None:
        self._who()
        self._bound()
        with widgets.card("Rights"):
            self._rights = {may: Table(f"May {may}", _RIGHTS) for may in ("write", "read")}
            left = sum(one.left_out for one in self._accounts)
            if left:
                ui.label(f"{left:,} more are not told").classes("pk-about")
            widgets.said(_OF_LATE).classes("pk-about pk-small")
        with widgets.card("Use"):
            self._nothing = widgets.empty("Nothing of late", "Nodes keep a sample while somebody looks: wait a little.")
            self._used = Table("Used of late", _USED)
            self._further = ui.label(_FURTHER).classes("pk-about pk-small")
            self._sessions = Table("Sessions", _SESSIONS, nothing="It has no session at any node.")
            heads = ("node", "filter", "QoS", "where")
            self._subscriptions = Table("Subscriptions", heads, nothing="It subscribes to nothing now.")
        self._audits()
        self._contracts()
        await self._beat()
        ui.timer(BEAT, self._beat)

    def _who(self) -> None:
        first = self._accounts[0]
        with widgets.card("Who"):
            widgets.subheading(self._name)
            nodes = [node for one in self._accounts for node in one.nodes]
            said = "listed in the domain" if first.listed else "not listed in the domain: what holds for any client"
            ui.label(f"{said}; at {widgets.some(nodes, 12)}").classes("pk-about")
            if first.groups:
                ui.label(f"groups: {widgets.some(first.groups, 12)}")
            if first.attributes:
                ui.label(", ".join(f"{key}: {value}" for key, value in first.attributes.items())).classes("pk-mono")

    def _bound(self) -> None:
        """What limits it in all, before the single clauses."""
        clauses = [clause for one in self._accounts for clause in one.clauses if clause.effect != "open"]
        with widgets.card("What limits it"):
            widgets.subheading("What limits it")
            if not clauses:
                ui.label("Nothing here: it may write and read everything.").classes("pk-limit")
            with ui.element("ul").classes("pk-list"):
                for kind, name in _BINDING.items():
                    some = [one for one in clauses if one.kind == kind]
                    if some:
                        ways = [(way, sum(way in one.may for one in some)) for way in ("write", "read")]
                        told = ", ".join(f"{count:,} on what it may {way}" for way, count in ways if count)
                        with ui.element("li"):
                            ui.label(f"{name}: {told}")

    async def _beat(self) -> None:
        rows, refusals, subscriptions = list[DecisionRow](), list[DecisionRow](), list[SubscriptionPortrait]()
        for one in self._person.asked:
            try:
                told = await one.get("/api/decisions", Decisions, subject=self._name, limit=MOST_DECISIONS)
                rows += told.rows
                told = await one.get("/api/decisions", Decisions, effect="suppress", limit=MOST_DECISIONS)
                refusals += told.rows
                subscriptions += await one.get("/api/subscriptions", list[SubscriptionPortrait], subject=self._name)
            except AskError:  # the banner says so
                return
        clauses = [clause for one in self._accounts for clause in one.clauses]
        for may, shown in self._rights.items():
            some = [one for one in clauses if may in one.may]
            some.sort(key=lambda one: _EFFECTS.index(one.effect))
            binds = any(one.effect != "open" for one in some)
            shown.fill(_clause(one, uses(one, may, self._name, rows), binds) for one in some)
        self._sessions.fill(self._sessions_now())
        self._subscriptions.fill((one.node, one.filter, one.qos, one.where) for one in subscriptions)
        elsewhere = refused_elsewhere(self._name, rows, refusals, self._nodes())
        shown_now = used(self._name, rows, elsewhere)
        self._nothing.set_visibility(not shown_now)
        self._used.box.set_visibility(bool(shown_now))
        self._further.set_visibility(bool(shown_now))
        self._used.fill(shown_now)

    def _nodes(self) -> set[str]:
        domain = self._person.domain
        return {*self._person.states, *(domain.nodes if domain is not None else ())}

    def _sessions_now(self) -> Iterator[tuple[object, ...]]:
        for node, state in self._person.states.items():
            for one in state.portrait.clients:
                if one.entity == self._name:
                    up = Cell("connected", "pk-gain") if one.up else Cell("away", "pk-about")
                    yield node, one.client_id, one.user, up, one.took, one.gave, one.denied, one.waiting

    def _audits(self) -> None:
        last = max((one.audit for one in self._accounts if one.audit), key=lambda one: one.at, default=None)
        with widgets.card("Last audit"):
            if last is None:
                widgets.subheading("Used of all that was recorded")
                widgets.said("Run `penstock pipeline audit --from JOURNAL`, and what was used is told here.").classes(
                    "pk-about"
                )
                return
            at = datetime.fromtimestamp(last.at, UTC)
            ui.link(f"Audit of {at:%Y-%m-%d %H:%M}", f"/pipeline?report={last.id}")
            seen = [(Cell(one.topic, "pk-mono"), *msgspec.structs.astuple(one)[1:]) for one in last.seen]
            table("Was sent, of all that was recorded", ("topic", "from", "events", "first", "last"), seen)
            heads = ("node", "rule", "access", "filter", "reads", "writes", "could be")
            rights = [msgspec.structs.astuple(one) for one in last.rights]
            table("Rights that it has not used, or not all of them", heads, rights)

    def _contracts(self) -> None:
        fits = list(dict.fromkeys(fit for one in self._accounts for fit in one.contracts))
        if not fits:
            return
        with widgets.card("Contracts"):
            contracts.show(fits)


def _clause(one: Clause, uses: int, has_others: bool) -> tuple[object, ...]:
    why = f"{one.why}; see below what else binds" if one.effect == "open" and has_others else one.why
    effect = Cell(one.effect, _LOOKS[one.effect])
    return effect, Cell(one.topics, "pk-mono"), Prose(why), one.kind, one.node or "all", uses
