"""What a draft would change for whom, on what nodes have recorded of late."""

from collections.abc import Callable

from nicegui import ui

from penstock.broker.http.answers.comparison import (
    Compared,
    CompareDraft,
    Comparison,
    RuleChange,
    SubjectChange,
    TopicChange,
)
from penstock.broker.http.answers.drafts import Draft
from penstock.broker.http.endpoint import Done
from penstock.console import widgets
from penstock.console.admin_client import AskError
from penstock.console.person import Person
from penstock.console.tables import Below, Cell, table

BEAT = 1.0
SIZES = {500: "last 500 events", 2_000: "last 2,000 events", 10_000: "last 10,000 events"}
MOST_SHOWN = 200
_HOW = (
    "The job `replay` plays the end of the journal again, by the policies of then and by the draft, as if everybody had"
    " subscribed to everything: what each may get, whether it was connected or not."
)


class Comparing:
    """The box on a page."""

    def __init__(self, person: Person, box: ui.element, draft: Callable[[], Draft], may: bool) -> None:
        self._person = person
        self._box = box
        self._draft = draft
        self._may = may
        self._id = 0
        self._timer: ui.timer | None = None
        self._has_journal = person.domain is not None and person.domain.journal is not None

    def build(self) -> None:
        with self._box:
            widgets.subheading("Difference on the recent journal")
            if not self._has_journal:
                widgets.empty(
                    "The domain keeps no journal",
                    "Give it `journal: {folder: journal}`: nodes then record what comes, to try drafts on.",
                )
                return
            widgets.said(_HOW).classes("pk-about")
            with ui.element("div").classes("pk-bar"):
                self._size = ui.select(SIZES, value=2_000, label="On").props("outlined dense")
                self._button = ui.button("Compare", on_click=self._begin).props("outline no-caps")
                if not self._may:
                    self._button.disable()
                    widgets.said("takes the right `change`").classes("pk-about")
            self._answer = ui.element("div").classes("pk-answer")

    async def go_on(self) -> None:
        """Show the comparison that is under way, whoever began it: there is one at a time. Or else the last one that
        was begun on this page before it was loaded again.
        """
        if not self._has_journal or not self._may:
            return
        for id in dict.fromkeys((0, self._person.comparison)):
            found = await self._find(id)
            if found is not None:
                self._follow(found)
                return

    async def _find(self, id: int) -> Comparison | None:
        try:
            return await self._person.first.get("/api/draft/compare", Comparison, id=id)
        except AskError:  # it is forgotten, or there is none
            return None

    def _follow(self, found: Comparison) -> None:
        self._id = self._person.comparison = found.id
        self._show(found)
        if found.state == "running":
            self._button.disable()
            with self._box:
                self._timer = ui.timer(BEAT, self._look)

    async def _begin(self) -> None:
        self._button.disable()
        self._answer.clear()
        with self._answer:
            widgets.loading("Asking for it")
        draft = self._draft()
        try:
            asked = CompareDraft(draft.text, int(self._size.value or 2_000), draft.revision)
            begun = await self._person.first.post("/api/draft/compare", Comparison, asked)
        except AskError as error:
            running = await self._find(0) if error.status == 409 else None
            if running is None:
                self._wrong(str(error))
                return
            ui.notify(str(error))
            begun = running
        self._follow(begun)

    async def _look(self) -> None:
        try:
            found = await self._person.first.get("/api/draft/compare", Comparison, id=self._id)
        except AskError as error:
            self._stop()
            self._wrong(str(error))
            return
        if found.state == "running":
            self._seconds.set_text(_under_way(found))
        else:
            self._stop()
            self._show(found)

    async def _give_up(self) -> None:
        try:
            await self._person.first.post("/api/draft/compare/stop", Done, id=self._id)
        except AskError as error:
            ui.notify(str(error))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wrong(self, why: str) -> None:
        self._button.enable()
        self._answer.clear()
        with self._answer:
            widgets.wrong("It cannot be compared", why)

    def _show(self, found: Comparison) -> None:
        self._answer.clear()
        with self._answer:
            if found.state == "running":
                with ui.element("div").classes("pk-state").props("role=status"):
                    ui.spinner(size="2em").props("aria-hidden=true")
                    self._seconds = ui.label(_under_way(found)).classes("pk-about")
                    ui.button("Stop", on_click=self._give_up).props("flat no-caps")
                return
            self._button.enable()
            if found.result is None:
                widgets.wrong("It cannot be compared", found.why)
            else:
                _tell(found.result)
            ui.label("For all that was recorded, save the draft as DRAFT.yaml and run").classes("pk-about")
            ui.label(found.command).classes("pk-command pk-mono")


def _under_way(found: Comparison) -> str:
    return f"Playing the journal's end again, {found.seconds:.0f} s"


def _tell(found: Compared) -> None:
    events = f"{found.events:,} event{'s' * (found.events != 1)} of clients"
    period = f", {_moment(found.first)} to {_moment(found.last)} UTC" if found.first and found.last else ""
    ui.label(f"{events}{period}").classes("pk-about").props("role=status")
    if not found.events:
        widgets.empty("Nothing has been recorded yet", "Once clients publish, there is something to compare on.")
        return
    failing = [claim for claim in found.claims if not claim.holds]
    for claim in failing[:MOST_SHOWN]:
        ui.label(f"{claim.text}: {claim.events:,} events speak against it").classes("pk-effect pk-suppress")
    touched = [one for one in found.totals if one.gained or one.lost or one.changed]
    if not touched:
        widgets.empty("Nobody may get more or less than before", "Of what was recorded of late.")
        return
    heads = tuple(head for head, count in _COUNTS.items() if any(map(count, touched)))

    def counts(one: Changed) -> tuple[Cell, ...]:
        return tuple(_SHOWN[head](_COUNTS[head](one)) for head in heads)

    table(
        "What subjects may gain and lose",
        ("subject", *heads),
        [(_name(one.subject), *counts(one)) for one in touched],
    )
    table(
        "By topic",
        ("subject", "topic", "from", *heads),
        [
            (_name(one.subject), _name(one.topic), _name(one.publisher), *counts(one), _because(one))
            for one in found.changes
        ],
    )
    if found.metrics:
        table(
            "By metric",
            ("subject", "topic", "metric", "gains", "loses"),
            [
                (_name(one.subject), _name(one.topic), _name(one.metric), _gain(one.gained), _loss(one.lost))
                for one in found.metrics
            ],
        )
    table("By rule", ("rule", *heads), [(_name(one.rule), *counts(one), _because(one)) for one in found.rules])


def _name(text: str) -> Cell:
    return Cell(text, "pk-breaks")


def _because(one: TopicChange | RuleChange) -> Below:
    """What held it back then, or would by the draft."""
    rule = f"{one.rule}: " if isinstance(one, TopicChange) and one.rule else ""
    return Below(f"{rule}{one.reason}" if one.reason else rule.removesuffix(": "), "because")


def _gain(count: int) -> Cell:
    return Cell(f"+{count:,}" if count else "", "pk-number pk-gain")


def _loss(count: int) -> Cell:
    return Cell(f"-{count:,}" if count else "", "pk-number pk-loss")


def _number(count: int) -> Cell:
    return Cell(f"{count:,}" if count else "", "pk-number")


Changed = SubjectChange | TopicChange | RuleChange
_COUNTS: dict[str, Callable[[Changed], int]] = {
    "gains": lambda one: one.gained,
    "loses": lambda one: one.lost,
    "changed": lambda one: one.changed,
}
"""A column that says nothing is left out: there is little room."""
_SHOWN = {"gains": _gain, "loses": _loss, "changed": _number}


def _moment(text: str) -> str:
    return text[:19].replace("T", " ")
