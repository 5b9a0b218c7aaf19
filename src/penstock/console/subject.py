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
from penstock.console.tables import Cell, table
from penstock.engine.portrait import SubscriptionPortrait
from penstock.model.errors import TopicError
from penstock.model.topic import matches

BEAT = 3.0
MOST_DECISIONS = 1_000
_LOOKS = {"grants": "pk-gain", "denies": "pk-loss", "limits": "pk-limit"}
_FITS = {"fits": "pk-gain", "fails": "pk-loss", "depends": "pk-limit"}


class Opened:
    """The panel of one subject."""

    def __init__(self, person: Person, accounts: Sequence[SubjectAccount]) -> None:
        self._person = person
        self._accounts = accounts
        self._name = accounts[0].name
        self._shown = b""

    async def build(self) -> None:
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
        with widgets.card("Rights and use"):
            self._live = ui.element("div").classes("pk-answer")
        self._contracts()
        await self._beat()
        ui.timer(BEAT, self._beat)

    async def _beat(self) -> None:
        rows, subscriptions = list[DecisionRow](), list[SubscriptionPortrait]()
        for one in self._person.asked:
            try:
                told = await one.get("/api/decisions", Decisions, subject=self._name, limit=MOST_DECISIONS)
                rows += told.rows
                subscriptions += await one.get("/api/subscriptions", list[SubscriptionPortrait], subject=self._name)
            except AskError:  # the banner says so
                return
        sessions = [
            (node, one)
            for node, state in self._person.states.items()
            for one in state.portrait.clients
            if one.entity == self._name
        ]
        shown = msgspec.json.encode((rows[-1:], len(rows), subscriptions, sessions))
        if shown == self._shown:
            return
        self._shown = shown
        self._live.clear()
        with self._live:
            self._rights(rows)
            heads = ("node", "client id", "user", "state", "published", "sent to it", "denied", "waiting")
            table(
                "Sessions",
                heads,
                [
                    (
                        node,
                        one.client_id,
                        one.user,
                        "connected" if one.up else "away",
                        one.took,
                        one.gave,
                        one.denied,
                        one.waiting,
                    )
                    for node, one in sessions
                ],
            )
            titles = ("node", "filter", "QoS", "where")
            table("Subscriptions", titles, [(one.node, one.filter, one.qos, one.where) for one in subscriptions])
            self._used(rows)

    def _rights(self, rows: Sequence[DecisionRow]) -> None:
        clauses = [clause for one in self._accounts for clause in one.clauses]
        for may in ("write", "read"):
            some = [one for one in clauses if may in one.may]
            some.sort(key=lambda one: ("grants", "limits", "denies").index(one.effect))
            heads = ("", "topics", "why", "by", "node", "of late")
            table(
                f"May {may}",
                heads,
                [
                    (
                        Cell(one.effect, _LOOKS[one.effect]),
                        Cell(one.topics, "pk-mono"),
                        one.why,
                        one.kind,
                        one.node or "all",
                        _uses(one, may, self._name, rows),
                    )
                    for one in some
                ],
            )
        left = sum(one.left_out for one in self._accounts)
        if left:
            ui.label(f"{left:,} more are not told").classes("pk-about")
        ui.label(
            "Of late: decisions that nodes have kept, refusals and a sample of the rest; the job `audit` counts all of"
            " them."
        ).classes("pk-about pk-small")

    def _used(self, rows: Sequence[DecisionRow]) -> None:
        counts = Counter[tuple[str, str, str, str, str]]()
        last: dict[tuple[str, str, str, str, str], float] = {}
        for one in rows:
            way = "published" if one.source == self._name else "sent to it"
            rule = f"{one.stage} {one.rule}".strip() if one.effect != "pass" else ""
            key = (way, one.topic, one.effect, rule, one.reason if rule else "")
            counts[key] += 1
            last[key] = max(one.at, last.get(key, 0.0))
        if not counts:
            widgets.empty("Nothing of late", "Nodes keep a sample of decisions while somebody looks: wait a little.")
            return
        heads = ("", "topic", "came to", "rule", "because", "seen", "last, UTC")
        table(
            "Used of late",
            heads,
            [
                (
                    way,
                    Cell(topic, "pk-mono"),
                    Cell(effect, f"pk-effect pk-{effect}"),
                    rule,
                    why,
                    count,
                    _time(last[way, topic, effect, rule, why]),
                )
                for (way, topic, effect, rule, why), count in counts.most_common()
            ],
        )

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
