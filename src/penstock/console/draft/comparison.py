"""The comparison of a draft with the policies in force, on recent traffic."""

from collections.abc import Callable

from nicegui import ui

from penstock.broker.http.answers import comparison as answers
from penstock.broker.http.answers.drafts import DomainDraft
from penstock.broker.http.endpoint import Done
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.person import Person
from penstock.console.tables import Below, TableCell, table

BEAT = 1.0
SIZES = {500: "last 500 events", 2_000: "last 2,000 events", 10_000: "last 10,000 events"}
MAX_SHOWN = 200
_ABOUT = (
    "The job `replay` replays the newest events of the journal, under the policies of that time and under the draft, as"
    " if every client had subscribed to everything: what each may receive, whether it was connected or not."
)


class ComparisonBox:
    """The box on the page."""

    def __init__(self, person: Person, box: ui.element, draft: Callable[[], DomainDraft], may: bool) -> None:
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
                    "The domain has no journal",
                    "Add `journal: {folder: journal}`: nodes then record events, to try drafts on.",
                )
                return
            widgets.hint(_ABOUT)
            with ui.element("div").classes("pk-bar"):
                self._size = ui.select(SIZES, value=2_000, label="On").props("outlined dense")
                self._button = ui.button("Compare", on_click=self._begin).props("outline no-caps")
                if not self._may:
                    self._button.disable()
                    widgets.hint("needs the right `change`")
            self._answer = ui.element("div").classes("pk-answer")

    async def resume(self) -> None:
        """Show the comparison that is running, whoever started it: there is one at a time. Otherwise show the last
        one that was started on this page before it was reloaded."""
        if not self._has_journal or not self._may:
            return
        for id in dict.fromkeys((0, self._person.comparison)):
            comparison = await self._find(id)
            if comparison is not None:
                self._follow(comparison)
                return

    async def _find(self, id: int) -> answers.DraftComparison | None:
        try:
            return await self._person.first.get("/api/draft/compare", answers.DraftComparison, id=id)
        except ApiClientError:  # it is forgotten, or there is none
            return None

    def _follow(self, comparison: answers.DraftComparison) -> None:
        self._id = self._person.comparison = comparison.id
        self._show(comparison)
        if comparison.state == "running":
            self._button.disable()
            with self._box:
                self._timer = ui.timer(BEAT, self._look)

    async def _begin(self) -> None:
        self._button.disable()
        with widgets.emptied(self._answer):
            widgets.loading("Starting")
        draft = self._draft()
        try:
            request = answers.CompareDraft(draft.text, draft.revision, int(self._size.value or 2_000))
            begun = await self._person.first.post("/api/draft/compare", answers.DraftComparison, request)
        except ApiClientError as error:
            running = await self._find(0) if error.status == 409 else None
            if running is None:
                self._wrong(str(error))
                return
            ui.notify(str(error))
            begun = running
        self._follow(begun)

    async def _look(self) -> None:
        try:
            comparison = await self._person.first.get("/api/draft/compare", answers.DraftComparison, id=self._id)
        except ApiClientError as error:
            self._stop()
            self._wrong(str(error))
            return
        if comparison.state == "running":
            self._seconds.set_text(_progress(comparison))
        else:
            self._stop()
            self._show(comparison)

    async def _give_up(self) -> None:
        try:
            await self._person.first.post("/api/draft/compare/stop", Done, id=self._id)
        except ApiClientError as error:
            ui.notify(str(error))

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wrong(self, why: str) -> None:
        self._button.enable()
        with widgets.emptied(self._answer):
            widgets.problem("The comparison failed", why)

    def _show(self, comparison: answers.DraftComparison) -> None:
        with widgets.emptied(self._answer):
            if comparison.state == "running":
                with ui.element("div").classes("pk-state").props("role=status"):
                    ui.spinner(size="2em").props("aria-hidden=true")
                    self._seconds = widgets.note(_progress(comparison))
                    ui.button("Stop", on_click=self._give_up).props("flat no-caps")
                return
            self._button.enable()
            if comparison.result is None:
                widgets.problem("The comparison failed", comparison.why)
            else:
                _show_result(comparison.result)
            widgets.note("For the whole journal, save the draft as DRAFT.yaml and run")
            ui.label(comparison.command).classes("pk-command pk-mono")


def _progress(comparison: answers.DraftComparison) -> str:
    return f"Replaying the newest events, {comparison.seconds:.0f} s"


def _show_result(result: answers.ComparisonResult) -> None:
    events = f"{result.events:,} event{'s' * (result.events != 1)} of clients"
    period = f", {_moment(result.first)} to {_moment(result.last)} UTC" if result.first and result.last else ""
    widgets.note(f"{events}{period}").props("role=status")
    if not result.events:
        widgets.empty("Nothing has been recorded yet", "Once clients publish, there are events to compare on.")
        return
    failing = [claim for claim in result.claims if not claim.holds]
    for claim in failing[:MAX_SHOWN]:
        ui.label(f"{claim.text}: contradicted by {claim.events:,} events").classes("pk-effect pk-suppress")
    touched = [total for total in result.totals if total.gained or total.lost or total.changed]
    if not touched:
        widgets.empty("No client would receive more or less than before", "On the newest events of the journal.")
        return
    heads = tuple(head for head, (field, *_) in _COUNTS.items() if any(getattr(total, field) for total in touched))

    def counts(change: object) -> tuple[TableCell, ...]:
        return tuple(_count(change, head) for head in heads)

    totals = [(_name(total.subject), *counts(total)) for total in touched]
    table("What subjects may gain and lose", ("subject", *heads), totals)
    changes = [
        (_name(change.subject), _name(change.topic), _name(change.publisher), *counts(change), _because(change))
        for change in result.changes
    ]
    table("By topic", ("subject", "topic", "from", *heads), changes)
    if result.metrics:
        rows = []
        for metric in result.metrics:
            names = (_name(metric.subject), _name(metric.topic), _name(metric.metric))
            rows.append((*names, _count(metric, "gains"), _count(metric, "loses")))
        table("By metric", ("subject", "topic", "metric", "gains", "loses"), rows)
    table("By rule", ("rule", *heads), [(_name(rule.rule), *counts(rule), _because(rule)) for rule in result.rules])


def _name(text: str) -> TableCell:
    return TableCell(text, "pk-breaks")


def _because(change: answers.TopicChange | answers.RuleChange) -> Below:
    """Return the rule that held the event back then, or would under the draft."""
    rule = f"{change.rule}: " if isinstance(change, answers.TopicChange) and change.rule else ""
    return Below(f"{rule}{change.reason}" if change.reason else rule.removesuffix(": "), "because")


_COUNTS = {"gains": ("gained", "+", " pk-gain"), "loses": ("lost", "-", " pk-loss"), "changed": ("changed", "", "")}
"""By column, the field, the sign before its number, and its look. Empty columns are left out: there is little room."""


def _count(change: object, head: str) -> TableCell:
    field, sign, look = _COUNTS[head]
    count = getattr(change, field)
    return TableCell(f"{sign}{count:,}" if count else "", f"pk-number{look}")


def _moment(text: str) -> str:
    return text[:19].replace("T", " ")
