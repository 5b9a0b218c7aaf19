"""One subject, opened: its rights with their reasons, what it used of them of late, sessions, contracts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from nicegui import ui

from penstock.broker.api.decisions import DecisionRow, Decisions
from penstock.broker.api.subjects import Clause, SubjectAccount
from penstock.console import widgets
from penstock.console.asking import AskError
from penstock.console.person import Person
from penstock.console.tables import Cell, Table, table
from penstock.engine.portrait import SubscriptionPortrait
from penstock.model.errors import TopicError
from penstock.model.topic import matches

BEAT = 3.0
MOST_DECISIONS = 1_000
_LOOKS = {"grants": "pk-gain", "denies": "pk-loss", "limits": "pk-limit"}
_OF_LATE = "Of late: in decisions that nodes have kept, refusals and a sample of the rest; the job `audit` counts all."
_RIGHTS = ("", "topics", "why", "by", "node", "of late")
_USED = ("", "topic", "came to", "rule", "because", "seen", "last, UTC")
_SESSIONS = ("node", "client id", "user", "state", "published", "sent to it", "denied", "waiting")
_FITS = {"fits": "pk-gain", "fails": "pk-loss", "depends": "pk-limit"}


class Opened:
    """The panel of one subject."""

    def __init__(self, person: Person, accounts: Sequence[SubjectAccount]) -> None:
        self._person = person
        self._accounts = accounts
        self._name = accounts[0].name

    async def build(self) -> None:
        self._who()
        with widgets.card("Rights"):
            self._rights = {may: Table(f"May {may}", _RIGHTS) for may in ("write", "read")}
            left = sum(one.left_out for one in self._accounts)
            if left:
                ui.label(f"{left:,} more are not told").classes("pk-about")
            ui.label(_OF_LATE).classes("pk-about pk-small")
        with widgets.card("Use"):
            self._nothing = widgets.empty("Nothing of late", "Nodes keep a sample while somebody looks: wait a little.")
            self._used = Table("Used of late", _USED)
            self._sessions = Table("Sessions", _SESSIONS)
            self._subscriptions = Table("Subscriptions", ("node", "filter", "QoS", "where"))
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
            ui.label(f"{said}; at {', '.join(nodes)}").classes("pk-about")
            if first.groups:
                ui.label(f"groups: {', '.join(first.groups)}")
            if first.attributes:
                ui.label(", ".join(f"{key}: {value}" for key, value in first.attributes.items())).classes("pk-mono")

    async def _beat(self) -> None:
        rows, subscriptions = list[DecisionRow](), list[SubscriptionPortrait]()
        for one in self._person.asked:
            try:
                told = await one.get("/api/decisions", Decisions, subject=self._name, limit=MOST_DECISIONS)
                rows += told.rows
                subscriptions += await one.get("/api/subscriptions", list[SubscriptionPortrait], subject=self._name)
            except AskError:  # the banner says so
                return
        clauses = [clause for one in self._accounts for clause in one.clauses]
        for may, shown in self._rights.items():
            some = [one for one in clauses if may in one.may]
            some.sort(key=lambda one: ("grants", "limits", "denies").index(one.effect))
            shown.fill(_clause(one, _uses(one, may, self._name, rows)) for one in some)
        self._sessions.fill(self._sessions_now())
        self._subscriptions.fill((one.node, one.filter, one.qos, one.where) for one in subscriptions)
        used = list(_used(self._name, rows))
        self._nothing.set_visibility(not used)
        self._used.box.set_visibility(bool(used))
        self._used.fill(used)

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
                ui.label("Run `penstock pipeline audit --from JOURNAL`, and what was used is told here.").classes(
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
            fits.sort(key=lambda one: ("fails", "depends", "fits", "unrelated").index(one.comes_to))
            heads = ("met", "as", "producer", "consumer", "want", "topics", "rule", "when", "why")
            table(
                "Contracts, and whether they are met",
                heads,
                [
                    (
                        Cell(one.comes_to, _FITS.get(one.comes_to, "pk-about")),
                        one.role,
                        one.producer,
                        one.consumer if one.consumer == one.client else f"{one.consumer} ({one.client})",
                        one.want,
                        Cell(", ".join(one.topics), "pk-mono"),
                        one.rule,
                        one.when,
                        "; ".join(one.why),
                    )
                    for one in fits
                ],
            )


def _clause(one: Clause, uses: int) -> tuple[object, ...]:
    effect = Cell(one.effect, _LOOKS[one.effect])
    return effect, Cell(one.topics, "pk-mono"), one.why, one.kind, one.node or "all", uses


def _used(name: str, rows: Sequence[DecisionRow]) -> Iterator[tuple[object, ...]]:
    counts = Counter[tuple[str, str, str, str, str]]()
    last: dict[tuple[str, str, str, str, str], float] = {}
    for one in rows:
        way = "published" if one.source == name else "sent to it"
        rule = f"{one.stage} {one.rule}".strip() if one.effect != "pass" else ""
        key = (way, one.topic, one.effect, rule, one.reason if rule else "")
        counts[key] += 1
        last[key] = max(one.at, last.get(key, 0.0))
    for key, count in counts.most_common():
        way, topic, effect, rule, why = key
        yield way, Cell(topic, "pk-mono"), Cell(effect, f"pk-effect pk-{effect}"), rule, why, count, _time(last[key])


def _uses(clause: Clause, may: str, name: str, rows: Sequence[DecisionRow]) -> int:
    """Decisions of late that this was used for, or that it stood against."""
    return sum(_concerns(clause, row) for row in _of(may, name, rows))


def _of(may: str, name: str, rows: Sequence[DecisionRow]) -> Iterator[DecisionRow]:
    for row in rows:
        is_own = row.source == name
        if is_own is (may == "write") and (is_own or row.target == name):
            yield row


def _concerns(clause: Clause, row: DecisionRow) -> bool:
    if clause.node and clause.node != row.node:
        return False
    if clause.effect == "denies":
        is_named = row.reason in clause.why or clause.why in row.reason
        return row.effect == "suppress" and bool(row.reason) and is_named
    try:
        return row.effect != "suppress" and matches(clause.topics, row.topic)
    except TopicError:
        return False


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
