"""The part `trust` of the page: ratings between nodes as a heat map and over time, with the evidence."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from nicegui import events, ui

from penstock.broker.http.answers.status import Rated, TokenState
from penstock.console import widgets
from penstock.console.admin_client import AskError
from penstock.console.person import Person
from penstock.console.tables import Cell, table
from penstock.console.trust.charts import heat_map, time_line
from penstock.engine.trust.trust_status import NeighbourStanding, Standing

BEAT = 3.0
MOST_PAIRS = 300
MOST_PATHS = 20
"""Of each node."""
_ABOUT = "What nodes hold of each other, by what they have seen of what each sent on."


class Pair(NamedTuple):
    """What one node holds of another."""

    by: str
    of: str
    held: NeighbourStanding


class Told(NamedTuple):
    """All that nodes tell about it."""

    standings: tuple[Standing, ...]
    tokens: tuple[TokenState, ...]
    history: tuple[Rated, ...]

    @property
    def pairs(self) -> list[Pair]:
        """The lowest ratings first."""
        found = [
            Pair(one.node, name, held)
            for one in self.standings
            if one.trust is not None
            for name, held in one.trust.neighbours.items()
        ]
        return sorted(found, key=lambda pair: (pair.held.rating, pair.by, pair.of))


async def told(person: Person, by: str = "", of: str = "") -> Told:
    """Ask all processes with nodes; raises `AskError` if the first does not answer."""
    standings, tokens, history = list[Standing](), list[TokenState](), list[Rated]()
    for one in person.asked:
        try:
            standings += await one.get("/api/trust/all", list[Standing], paths=MOST_PATHS)
            tokens += await one.get("/api/tokens", list[TokenState])
            history += await one.get("/api/trust/history", list[Rated], by=by, of=of)
        except AskError:
            if one is person.first:
                raise
    return Told(tuple(standings), tuple(tokens), tuple(history))


async def show(person: Person) -> None:
    """Show it to a person."""
    widgets.heading("Trust", _ABOUT)
    waiting = widgets.loading()
    query = ui.context.client.request.query_params
    page = Ratings(person, query.get("by", ""), query.get("of", ""))
    try:
        found = await told(person, page.by, page.of)
    except AskError as error:
        waiting.delete()
        widgets.wrong("The nodes do not tell", str(error))
        return
    waiting.delete()
    page.build(found)


class Ratings:
    """One page; `by` and `of` say which rating is looked at, if one is."""

    def __init__(self, person: Person, by: str, of: str) -> None:
        self.person, self.by, self.of = person, by, of
        self._shown = b""

    def build(self, found: Told) -> None:
        if not found.pairs:
            widgets.empty(
                "No node rates another here",
                "Give the domain `tokens` and `trust`: nodes then rate what neighbours send on (docs/trust.md).",
            )
            if found.tokens:
                with widgets.card("Tokens"):
                    _tokens(found)
            return
        with ui.element("div").classes("pk-two"):
            with widgets.card("Heat map"):
                widgets.subheading("Ratings, 0 to 1")
                ui.label("Rows rate columns; the table below has the same numbers.").classes("pk-about")
                self._heat = ui.echart(heat_map(found.pairs), on_point_click=self._clicked, renderer="svg")
                self._heat.classes("pk-chart").props('role=img aria-label="Ratings between nodes; the table has them"')
            with widgets.card("Over time"):
                widgets.subheading("Over time")
                self._which = ui.label().classes("pk-about")
                self._line = ui.echart(time_line(found.history, self.by, self.of), renderer="svg")
                self._line.classes("pk-chart").props('role=img aria-label="Ratings over time"')
        self._evidence = ui.element("div").classes("pk-answer")
        self._tables = ui.element("div").classes("pk-answer")
        self._fill(found)
        ui.timer(BEAT, self._beat)

    async def _clicked(self, event: events.EChartPointClickEventArguments) -> None:
        names = getattr(event, "data", None)
        if isinstance(names, dict) and isinstance(names.get("name"), str):
            self.by, _, self.of = names["name"].partition(" \u2192 ")
            await self._beat()
            self._evidence.run_method("scrollIntoView")

    async def _beat(self) -> None:
        try:
            found = await told(self.person, self.by, self.of)
        except AskError:  # the banner says so
            return
        if found.pairs:
            _put(self._heat, heat_map(found.pairs))
            _put(self._line, time_line(found.history, self.by, self.of))
            self._fill(found)

    def _fill(self, found: Told) -> None:
        """Tables are made again only if they say something else."""
        shown = msgspec.json.encode((self.by, self.of, found.standings, found.tokens))
        if shown == self._shown:
            return
        self._shown = shown
        chosen = next((pair for pair in found.pairs if (pair.by, pair.of) == (self.by, self.of)), None)
        which = f"{self.by} of {self.of}" if chosen is not None else "the lowest ratings"
        self._which.set_text(f"Last hours: {which}")
        self._evidence.clear()
        if chosen is not None:
            with self._evidence:
                _evidence(chosen)
        self._tables.clear()
        with self._tables:
            _rules(found)
            _pairs(found.pairs)
            _paths(found)
            _tokens(found)


def _put(chart: ui.echart, options: dict[str, Any]) -> None:
    if chart.options != options:
        chart.options.clear()
        chart.options.update(options)
        chart.update()


def _evidence(pair: Pair) -> None:
    held = pair.held
    with widgets.card("Evidence"):
        widgets.subheading(f"What {pair.by} holds of {pair.of}")
        ui.label(
            f"Rating {held.rating:.2f}: belief {held.belief:.2f}, disbelief {held.disbelief:.2f}, uncertainty"
            f" {held.uncertainty:.2f}, from {held.good:.1f} good and {held.bad:.1f} bad."
        )
        ui.label(
            f"{pair.by} {'signs' if held.signs else 'does not sign'} what comes from {pair.of}, which is"
            f" {'connected' if held.connected else 'not connected'}."
        ).classes("pk-about")
        if held.evidence:
            rows = [(source, count["good"], count["bad"]) for source, count in held.evidence.items()]
            table("Evidence since the node began", ("seen by", "good", "bad"), rows)
        else:
            said = "Nothing seen since the node began: it is what the domain begins with, or an operator has set."
            ui.label(said).classes("pk-about")


def _rules(found: Told) -> None:
    alike: dict[tuple[object, ...], list[str]] = {}
    for one in found.standings:
        if (rule := one.trust) is not None:
            key = (rule.rule, rule.sign, rule.accept, rule.signers, rule.penalty, rule.half_life)
            alike.setdefault(key, []).append(one.node)
    heads = ("nodes", "rule", "signs from", "accepts from", "signers", "a bad one counts", "half-life, s")
    table("Rules", heads, [(widgets.some(nodes, 8), *key) for key, nodes in alike.items()])


def _pairs(pairs: list[Pair]) -> None:
    def row(pair: Pair) -> tuple[object, ...]:
        held = pair.held
        to = f"/trust?{urlencode({'by': pair.by, 'of': pair.of})}"
        look = "pk-number pk-loss" if not held.signs else "pk-number"
        seen = sum(one["good"] + one["bad"] for one in held.evidence.values())
        return (
            pair.by,
            pair.of,
            Cell(f"{held.rating:.2f}", look),
            held.belief,
            held.disbelief,
            held.uncertainty,
            held.signs,
            seen,
            Cell("evidence", "", to),
        )

    heads = ("node", "rates", "rating", "belief", "disbelief", "uncertainty", "signs", "seen", "")
    table("Ratings, the lowest first", heads, map(row, pairs), MOST_PAIRS)


def _paths(found: Told) -> None:
    def rows() -> Iterator[tuple[object, ...]]:
        for one in found.standings:
            for origin, path in one.trust.paths.items() if one.trust is not None else ():
                yield one.node, origin, path.rating, path.edges, path.accepts

    every = sorted(rows(), key=lambda row: (row[2], row[0], row[1]))
    if every:
        table("Least trustworthy paths", ("node", "from", "rating", "links", "accepts"), every, MOST_PAIRS)


def _tokens(found: Told) -> None:
    rows = [
        (one.node, one.standing.tokens.required, one.standing.tokens.known, one.standing.tokens.refused, one.revoked)
        for one in found.tokens
        if one.standing.tokens is not None
    ]
    if rows:
        table("Tokens", ("node", "needed", "known", "refused", "revoked"), rows)
    keys = {(key.node, key.id, key.retired is not None, key.is_revoked) for one in found.tokens for key in one.keys}
    signing = {one.standing.tokens.key for one in found.tokens if one.standing.tokens is not None}
    if keys:
        told = [(node, id, id in signing, retired, revoked) for node, id, retired, revoked in sorted(keys)]
        table("Keys", ("of node", "key", "signs now", "retired", "revoked"), told)
