"""An opened subject: its rights with their reasons, its recent use of them, sessions, contracts."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import msgspec
from nicegui import ui

from penstock.broker.http.answers.decisions import DecisionRow, Decisions
from penstock.broker.http.answers.subjects import AccessClause, AuditedWithholding, SubjectAccount
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.person import Person
from penstock.console.subjects import contracts
from penstock.console.subjects.use import refused_elsewhere, used, uses
from penstock.console.tables import HtmlTable, Prose, TableCell, table
from penstock.engine.status import SubscriptionPortrait

BEAT = 3.0
MAX_DECISIONS = 1_000
_LOOKS = {"open": "pk-about", "grants": "pk-gain", "denies": "pk-loss", "limits": "pk-limit"}
_RECENT = "Recent: the decisions that nodes have kept, refusals and a sample of the rest; the job `audit` counts all."
_FURTHER = (
    "Each event counts once, at the node of the subject. Events that pass here may be refused at other nodes: such"
    " refusals of the same topics are listed, whoever published the events."
)
_RIGHTS = ("effect", "topics", "why", "by", "node", "recent")
_USED = ("way", "topic", "came to", "rule", "because", "seen", "last, UTC")
_WITHHELD = ("topic", "from", "withheld", "at node", "stage", "rule", "because", "events", "first", "last")
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


class SubjectPanel:
    """The panel of one subject."""

    def __init__(self, person: Person, accounts: Sequence[SubjectAccount]) -> None:
        self._person = person
        self._accounts = accounts
        self._name = accounts[0].name

    async def build(self) -> None:
        self._who()
        self._bound()
        with widgets.card("Rights"):
            self._rights = {may: HtmlTable(f"May {may}", _RIGHTS) for may in ("write", "read")}
            left_out = sum(account.left_out for account in self._accounts)
            if left_out:
                widgets.note(f"{left_out:,} more are not shown")
            widgets.sentence(_RECENT).classes("pk-about pk-small")
        with widgets.card("Use"):
            hint = "Nodes keep a sample while this page is open: wait a little."
            self._nothing = widgets.empty("No recent use", hint)
            self._used = HtmlTable("Recently used", _USED)
            self._further = ui.label(_FURTHER).classes("pk-about pk-small")
            self._sessions = HtmlTable("Sessions", _SESSIONS, nothing="It has no session at any node.")
            heads = ("node", "filter", "QoS", "where")
            self._subscriptions = HtmlTable("Subscriptions", heads, nothing="It has no subscriptions now.")
        self._audits()
        self._contracts()
        await self._beat()
        ui.timer(BEAT, self._beat)

    def _who(self) -> None:
        first = self._accounts[0]
        with widgets.card("Who"):
            widgets.subheading(self._name)
            nodes = [node for account in self._accounts for node in account.nodes]
            unlisted = "not listed in the domain: the rules for any client apply"
            listing = "listed in the domain" if first.listed else unlisted
            widgets.note(f"{listing}; at {widgets.first_names(nodes, 12)}")
            if first.groups:
                ui.label(f"groups: {widgets.first_names(first.groups, 12)}")
            if first.attributes:
                ui.label(", ".join(f"{key}: {value}" for key, value in first.attributes.items())).classes("pk-mono")

    def _bound(self) -> None:
        """Show what limits it in all, before the single clauses."""
        clauses = [clause for account in self._accounts for clause in account.clauses if clause.effect != "open"]
        with widgets.card("What limits it"):
            widgets.subheading("What limits it")
            if not clauses:
                ui.label("Nothing here: it may write and read everything.").classes("pk-limit")
            with ui.element("ul").classes("pk-list"):
                for kind, name in _BINDING.items():
                    some = [clause for clause in clauses if clause.kind == kind]
                    if some:
                        ways = [(way, sum(way in clause.may for clause in some)) for way in ("write", "read")]
                        summary = ", ".join(f"{count:,} on what it may {way}" for way, count in ways if count)
                        with ui.element("li"):
                            ui.label(f"{name}: {summary}")

    async def _beat(self) -> None:
        rows, refusals, subscriptions = list[DecisionRow](), list[DecisionRow](), list[SubscriptionPortrait]()
        for client in self._person.clients:
            try:
                answer = await client.get("/api/decisions", Decisions, subject=self._name, limit=MAX_DECISIONS)
                rows += answer.rows
                answer = await client.get("/api/decisions", Decisions, effect="suppress", limit=MAX_DECISIONS)
                refusals += answer.rows
                subscriptions += await client.get("/api/subscriptions", list[SubscriptionPortrait], subject=self._name)
            except ApiClientError:  # the banner reports it
                return
        clauses = [clause for account in self._accounts for clause in account.clauses]
        for may, shown in self._rights.items():
            some = [clause for clause in clauses if may in clause.may]
            some.sort(key=lambda clause: _EFFECTS.index(clause.effect))
            binds = any(clause.effect != "open" for clause in some)
            shown.fill(_clause(clause, uses(clause, may, self._name, rows), binds) for clause in some)
        self._sessions.fill(self._sessions_now())
        self._subscriptions.fill(
            (subscription.node, subscription.filter, subscription.qos, subscription.where)
            for subscription in subscriptions
        )
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
            for client in state.portrait.clients:
                if client.entity == self._name:
                    up = TableCell("connected", "pk-gain") if client.up else TableCell("away", "pk-about")
                    counts = (client.took, client.gave, client.denied, client.waiting)
                    yield node, client.client_id, client.user, up, *counts

    def _audits(self) -> None:
        audits = (account.audit for account in self._accounts if account.audit)
        last = max(audits, key=lambda audit: audit.at, default=None)
        with widgets.card("Last audit"):
            if last is None:
                widgets.subheading("Use in the whole journal")
                widgets.hint("Run `penstock pipeline audit --from JOURNAL` to see here what was used.")
                return
            at = datetime.fromtimestamp(last.at, UTC)
            ui.link(f"Audit of {at:%Y-%m-%d %H:%M}", f"/pipeline?report={last.id}")
            seen = [(TableCell(topic.topic, "pk-mono"), *msgspec.structs.astuple(topic)[1:]) for topic in last.seen]
            table("Events sent to it, in the whole journal", ("topic", "from", "events", "first", "last"), seen)
            withheld = [_withheld(kept) for kept in last.withheld]
            table("Withheld from it, in the whole journal", _WITHHELD, withheld)
            heads = ("node", "rule", "access", "filter", "reads", "writes", "could be")
            rights = [msgspec.structs.astuple(right) for right in last.rights]
            table("Rights that it has not used, or not all of them", heads, rights)

    def _contracts(self) -> None:
        fits = list(dict.fromkeys(fit for account in self._accounts for fit in account.contracts))
        if not fits:
            return
        with widgets.card("Contracts"):
            contracts.show(fits)


def _withheld(kept: AuditedWithholding) -> tuple[object, ...]:
    what = TableCell("all of it", "pk-loss") if kept.effect == "suppress" else TableCell("got other", "pk-limit")
    where = (kept.publisher, what, kept.node, kept.stage, kept.rule)
    return TableCell(kept.topic, "pk-mono"), *where, Prose(kept.reason), kept.events, kept.first, kept.last


def _clause(clause: AccessClause, uses: int, has_others: bool) -> tuple[object, ...]:
    why = f"{clause.why}; other policies are listed below" if clause.effect == "open" and has_others else clause.why
    effect = TableCell(clause.effect, _LOOKS[clause.effect])
    return effect, TableCell(clause.topics, "pk-mono"), Prose(why), clause.kind, clause.node or "all", uses
