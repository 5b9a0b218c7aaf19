"""The part `trust` of the page: ratings between nodes as a heat map and over time, with the evidence."""

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec
from nicegui import events, ui

from penstock.broker.http.answers.status import RatingSnapshot, TokenState
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.person import Person
from penstock.console.tables import TableCell, table
from penstock.console.trust.charts import heat_map, time_line
from penstock.engine.trust.trust_status import NeighbourStanding, Standing

BEAT = 3.0
MAX_PAIRS = 300
MAX_PATHS = 20
"""Paths of each node."""
_ABOUT = "How far nodes trust each other, by the events that each has sent on."


class RatingPair(NamedTuple):
    """One node's rating of another."""

    by: str
    of: str
    held: NeighbourStanding


class TrustState(NamedTuple):
    """The trust states of all nodes."""

    standings: tuple[Standing, ...]
    tokens: tuple[TokenState, ...]
    history: tuple[RatingSnapshot, ...]

    @property
    def pairs(self) -> list[RatingPair]:
        """Return the lowest ratings first."""
        pairs = [
            RatingPair(standing.node, name, held)
            for standing in self.standings
            if standing.trust is not None
            for name, held in standing.trust.neighbours.items()
        ]
        return sorted(pairs, key=lambda pair: (pair.held.rating, pair.by, pair.of))


async def ask_trust(person: Person, by: str = "", of: str = "") -> TrustState:
    """Ask all processes with nodes; raise `ApiClientError` if the first does not answer."""
    standings, tokens, history = list[Standing](), list[TokenState](), list[RatingSnapshot]()
    for client in person.clients:
        try:
            standings += await client.get("/api/trust/all", list[Standing], paths=MAX_PATHS)
            tokens += await client.get("/api/tokens", list[TokenState])
            history += await client.get("/api/trust/history", list[RatingSnapshot], by=by, of=of)
        except ApiClientError:
            if client is person.first:
                raise
    return TrustState(tuple(standings), tuple(tokens), tuple(history))


async def show(person: Person) -> None:
    """Show the part to a person."""
    widgets.heading("Trust", _ABOUT)
    waiting = widgets.loading()
    query = ui.context.client.request.query_params
    page = TrustView(person, query.get("by", ""), query.get("of", ""))
    try:
        state = await ask_trust(person, page.by, page.of)
    except ApiClientError as error:
        widgets.problem("The nodes do not answer", str(error))
        return
    finally:
        waiting.delete()
    page.build(state)


class TrustView:
    """The page; `by` and `of` name the selected rating, if any."""

    def __init__(self, person: Person, by: str, of: str) -> None:
        self.person, self.by, self.of = person, by, of
        self._shown = b""

    def build(self, state: TrustState) -> None:
        if not state.pairs:
            widgets.empty(
                "No node rates another here",
                "Add `tokens` and `trust` to the domain: nodes then rate what neighbours send (docs/trust.md).",
            )
            if state.tokens:
                with widgets.card("Tokens"):
                    _tokens(state)
            return
        with ui.element("div").classes("pk-two"):
            with widgets.card("Heat map"):
                widgets.subheading("Ratings, 0 to 1")
                widgets.note("Rows rate columns; the table below has the same numbers.")
                self._heat = ui.echart(heat_map(state.pairs), on_point_click=self._clicked, renderer="svg")
                self._heat.classes("pk-chart").props('role=img aria-label="Ratings between nodes; the table has them"')
            with widgets.card("Over time"):
                widgets.subheading("Over time")
                self._which = widgets.note()
                self._line = ui.echart(time_line(state.history, self.by, self.of), renderer="svg")
                self._line.classes("pk-chart").props('role=img aria-label="Ratings over time"')
        self._evidence = ui.element("div").classes("pk-answer")
        self._tables = ui.element("div").classes("pk-answer")
        self._fill(state)
        ui.timer(BEAT, self._beat)

    async def _clicked(self, event: events.EChartPointClickEventArguments) -> None:
        names = getattr(event, "data", None)
        if isinstance(names, dict) and isinstance(names.get("name"), str):
            self.by, _, self.of = names["name"].partition(" \u2192 ")
            await self._beat()
            self._evidence.run_method("scrollIntoView")

    async def _beat(self) -> None:
        try:
            state = await ask_trust(self.person, self.by, self.of)
        except ApiClientError:  # the banner reports it
            return
        if state.pairs:
            _put(self._heat, heat_map(state.pairs))
            _put(self._line, time_line(state.history, self.by, self.of))
            self._fill(state)

    def _fill(self, state: TrustState) -> None:
        """Fill the charts and tables; tables are rebuilt only if they have changed."""
        shown = msgspec.json.encode((self.by, self.of, state.standings, state.tokens))
        if shown == self._shown:
            return
        self._shown = shown
        chosen = next((pair for pair in state.pairs if (pair.by, pair.of) == (self.by, self.of)), None)
        which = f"{self.by} of {self.of}" if chosen is not None else "the lowest ratings"
        self._which.set_text(f"Last hours: {which}")
        self._evidence.clear()
        if chosen is not None:
            with self._evidence:
                _evidence(chosen)
        with widgets.emptied(self._tables):
            _rules(state)
            _pairs(state.pairs)
            _paths(state)
            _tokens(state)


def _put(chart: ui.echart, options: dict[str, Any]) -> None:
    if chart.options != options:
        chart.options.clear()
        chart.options.update(options)
        chart.update()


def _evidence(pair: RatingPair) -> None:
    held = pair.held
    with widgets.card("Evidence"):
        widgets.subheading(f"{pair.by}'s rating of {pair.of}")
        ui.label(
            f"Rating {held.rating:.2f}: belief {held.belief:.2f}, disbelief {held.disbelief:.2f}, uncertainty"
            f" {held.uncertainty:.2f}, from {held.good:.1f} good and {held.bad:.1f} bad."
        )
        widgets.note(
            f"{pair.by} {'signs' if held.signs else 'does not sign'} what comes from {pair.of}, which is"
            f" {'connected' if held.connected else 'not connected'}."
        )
        if held.evidence:
            rows = [(source, count["good"], count["bad"]) for source, count in held.evidence.items()]
            table("Evidence since the node started", ("seen by", "good", "bad"), rows)
        else:
            note = "No evidence since the node started: the rating is the domain's initial one, or an operator set it."
            widgets.note(note)


def _rules(state: TrustState) -> None:
    alike: dict[tuple[object, ...], list[str]] = {}
    for standing in state.standings:
        if (rule := standing.trust) is not None:
            key = (rule.rule, rule.sign, rule.accept, rule.signers, rule.penalty, rule.half_life)
            alike.setdefault(key, []).append(standing.node)
    heads = ("nodes", "rule", "signs from", "accepts from", "signers", "a bad one counts", "half-life, s")
    table("Rules", heads, [(widgets.first_names(nodes, 8), *key) for key, nodes in alike.items()])


def _pairs(pairs: list[RatingPair]) -> None:
    def row(pair: RatingPair) -> tuple[object, ...]:
        held = pair.held
        to = f"/trust?{urlencode({'by': pair.by, 'of': pair.of})}"
        look = "pk-number pk-loss" if not held.signs else "pk-number"
        seen = sum(counts["good"] + counts["bad"] for counts in held.evidence.values())
        opinion = (TableCell(f"{held.rating:.2f}", look), held.belief, held.disbelief, held.uncertainty)
        return pair.by, pair.of, *opinion, held.signs, seen, TableCell("evidence", "", to)

    heads = ("node", "rates", "rating", "belief", "disbelief", "uncertainty", "signs", "seen", "")
    table("Ratings, the lowest first", heads, map(row, pairs), MAX_PAIRS)


def _paths(state: TrustState) -> None:
    def rows() -> Iterator[tuple[object, ...]]:
        for standing in state.standings:
            for origin, path in standing.trust.paths.items() if standing.trust is not None else ():
                yield standing.node, origin, path.rating, path.edges, path.accepts

    paths = sorted(rows(), key=lambda row: (row[2], row[0], row[1]))
    if paths:
        table("Least trustworthy paths", ("node", "from", "rating", "links", "accepts"), paths, MAX_PAIRS)


def _tokens(state: TrustState) -> None:
    counted = [(of_node, of_node.standing.tokens) for of_node in state.tokens]
    rows = [
        (of_node.node, tokens.required, tokens.known, tokens.refused, of_node.revoked)
        for of_node, tokens in counted
        if tokens is not None
    ]
    if rows:
        table("Tokens", ("node", "needed", "known", "refused", "revoked"), rows)
    keys = {
        (key.node, key.id, key.retired is not None, key.is_revoked)
        for token_state in state.tokens
        for key in token_state.keys
    }
    signing = {tokens.key for _, tokens in counted if tokens is not None}
    if keys:
        key_rows = [(node, id, id in signing, retired, revoked) for node, id, retired, revoked in sorted(keys)]
        table("Keys", ("of node", "key", "signs now", "retired", "revoked"), key_rows)
