"""The part `try` of the page: a draft of the domain, its mistakes, and what it would change for whom."""

import asyncio
from datetime import UTC, datetime
from typing import Literal

import msgspec
from nicegui import events, ui

from penstock.broker.http.answers.drafts import DomainDraft, DomainText, DraftCheck, DraftProblem, Reloaded
from penstock.broker.http.audit import AuditEntry
from penstock.console import widgets
from penstock.console.admin_client import ApiClientError
from penstock.console.draft import comparison
from penstock.console.person import KeptDraft, Person
from penstock.console.tables import HtmlTable, Prose, TableCell

PAUSE = 1.0
"""Seconds without a key press after which a draft is checked."""
MAX_SHOWN = 100
MAX_CHANGES = 20
_ABOUT_CHANGE = "Edit the domain or paste another. Nothing takes effect before it is put into force."

_ABOUT_READ = "The present domain file, with marks in place of its secrets. Drafts need the right `change`."


async def show(person: Person) -> None:
    """Show the part to a person."""
    widgets.heading("Try a draft", _ABOUT_CHANGE if person.about.right == "change" else _ABOUT_READ)
    waiting = widgets.loading("Fetching the domain file")
    try:
        text = await person.first.get("/api/draft", DomainText)
    except ApiClientError as error:
        widgets.problem("The domain file cannot be shown", str(error))
        return
    finally:
        waiting.delete()
    trial = DraftEditor(person, text)
    trial.build()
    await trial.comparing.resume()
    await trial.show_changes()


class DraftEditor:
    """The editor of one draft."""

    def __init__(self, person: Person, text: DomainText) -> None:
        self.person = person
        saved = person.draft
        self.draft = text.text if saved is None else saved.text
        self.began = text if saved is None else msgspec.structs.replace(text, revision=saved.revision)
        """The file that the draft is made from."""
        self.may = person.about.right == "change"
        self.checked: DraftCheck | None = None
        self._number = 0
        self._is_checking = False
        """The page says that a check is running."""
        self._waiting: asyncio.TimerHandle | None = None

    def build(self) -> None:
        with ui.element("div").classes("pk-try"):
            with widgets.card("Draft"):
                self._bar()
                if self.person.draft is not None:
                    with ui.element("div").classes("pk-bar").props("role=status"):
                        ui.label("Your draft from before.")
                        ui.button("Start again with the present domain", on_click=self._again).props("flat no-caps")
                self.editor = (
                    ui.codemirror(
                        self.draft,
                        language="YAML",
                        theme="githubLight",
                        indent="  ",
                        on_change=self._edited,
                        keymap={"Mod-s": self._check_now, "Mod-Enter": self._check_now},
                    )
                    .classes("pk-editor")
                    .props(f'aria-label="Draft of {self.began.file.replace(chr(34), "")}"')
                )
                if not self.may:
                    self.editor.disable()
                ui.label("Press Escape, then Tab, to leave the editor by the keyboard.").classes("pk-about pk-small")
            with ui.element("div").classes("pk-try-results"):
                with widgets.card("Check") as self.results:
                    widgets.subheading("Check")
                    widgets.empty(*self._first_words())
                with widgets.card("Difference on the recent journal") as box:
                    self.comparing = comparison.ComparisonBox(self.person, box, self._present, self.may)
                    self.comparing.build()
                with widgets.card("Last changes"):
                    heads = ("at, UTC", "who", "what", "came to")
                    self._changed = HtmlTable("Last changes", heads, MAX_CHANGES, "No recent changes.")
        _follow_dark(self.editor)
        if self.may and self.person.draft is not None:
            ui.timer(0, self._check_now, once=True)

    async def show_changes(self) -> None:
        """Show who has recently changed what."""
        try:
            audit = await self.person.first.get("/api/audit", list[AuditEntry])
        except ApiClientError:  # the banner reports it
            return
        changes = [entry for entry in reversed(audit) if entry.what in ("draft", "reload")]
        self._changed.fill(
            (
                datetime.fromtimestamp(entry.at, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                entry.who,
                TableCell(f"{entry.what} {'' if entry.done else 'refused'}".strip(), "" if entry.done else "pk-loss"),
                Prose(entry.detail),
            )
            for entry in changes
        )

    def _first_words(self) -> tuple[str, str]:
        if not self.may:
            return "Read only", "Checking a draft runs code that it names, so it needs the right `change`."
        return "This is the present domain", "Change something: mistakes, assertions and changes appear here."

    def _bar(self) -> None:
        with ui.element("div").classes("pk-bar"):
            ui.label(self.began.file).classes("pk-mono")
            self.revision = widgets.note(f"revision {self.began.revision}")
            ui.space()
            self.check_button = ui.button("Check", on_click=self._check_now).props("outline no-caps")
            self.put_button = ui.button("Put into force…", on_click=self._ask).props("unelevated no-caps")
            self.put_button.disable()
            if not self.may:
                self.check_button.disable()

    def _present(self) -> DomainDraft:
        return DomainDraft(self.editor.value or "", self.began.revision)

    def _again(self) -> None:
        self.person.draft = None
        ui.navigate.to("/try")

    # --- checking

    def _edited(self, _: events.ValueChangeEventArguments[str]) -> None:
        """Save the draft, and check it once no key has been pressed for a while."""
        self.person.draft = KeptDraft(self.editor.value or "", self.began.revision)
        self.checked = None
        self.put_button.disable()
        self._show_checking()
        if self._waiting is not None:
            self._waiting.cancel()
        client = self.editor.client

        def later() -> None:
            async def run() -> None:
                if not client.is_deleted:
                    with client:
                        await self._check_now()

            self._task = asyncio.create_task(run())

        if self.may:
            self._waiting = asyncio.get_running_loop().call_later(PAUSE, later)

    def _show_checking(self) -> None:
        """Replace the result of an earlier text: it is not valid for this one."""
        if self.may and not self._is_checking:
            self._is_checking = True
            with widgets.emptied(self.results):
                widgets.subheading("Check")
                widgets.loading("Checking the draft")

    async def _check_now(self, *_: object) -> None:
        if not self.may:
            return
        self._number += 1
        number, first = self._number, self.person.first
        self.check_button.props(add="loading")
        self._show_checking()
        try:
            result: DraftCheck | ApiClientError = await first.post("/api/draft/check", DraftCheck, self._present())
        except ApiClientError as error:
            result = error
        if number != self._number:  # a later check is running
            return
        self.check_button.props(remove="loading")
        self._is_checking = False
        with widgets.emptied(self.results):
            widgets.subheading("Check")
            if isinstance(result, ApiClientError):
                is_late = result.status == 409
                widgets.problem("The domain has changed meanwhile" if is_late else "The check failed", str(result))
                ui.button("Start again with the present domain", on_click=self._again).props("flat no-caps")
                self._mark(DraftCheck(False, (), ()))
                return
            self.checked = result
            self._mark(result)
            self._show_check(result)
        self.put_button.set_enabled(result.good)

    def _mark(self, result: DraftCheck) -> None:
        """Mark the lines of the editor that have problems. Texts are not HTML there."""
        texts: dict[int, str] = {}
        kinds: dict[int, str] = {}
        lines = (self.editor.value or "").count("\n") + 1
        for kind, problems in (("pk-line-warning", result.warnings), ("pk-line-wrong", result.problems)):
            for problem in problems:
                if problem.file == self.began.file and 1 <= problem.line <= lines:
                    text, before = f"{problem.path}: {problem.what}", texts.get(problem.line)
                    texts[problem.line] = f"{before}\n{text}" if before else text
                    kinds[problem.line] = kind
        self.editor.decorations = [{"kind": "line", "line": line, "class": kind} for line, kind in kinds.items()]
        self.editor.line_tooltips = texts

    def _show_check(self, result: DraftCheck) -> None:
        count = len(set(result.problems))
        headline = "No mistakes" if result.good else f"{count} mistake{'s' * (count != 1)}"
        with ui.element("div").props("role=status aria-live=polite"):
            widgets.outcome(headline, result.good)
        for word, problems in (("mistake", result.problems), ("warning", result.warnings)):
            for problem in dict.fromkeys(problems[:MAX_SHOWN]):
                self._problem(word, problem)
            if len(problems) > MAX_SHOWN:
                widgets.note(f"and {len(problems) - MAX_SHOWN} more")
        if result.assertions:
            widgets.subheading("Assertions")
            with ui.element("ul").classes("pk-list"):
                for claim in sorted(result.assertions, key=lambda claim_: claim_.holds)[:MAX_SHOWN]:
                    with ui.element("li"):
                        widgets.outcome("holds" if claim.holds else "fails", claim.holds)
                        ui.label(claim.text).classes("pk-mono")
                        if claim.why:
                            widgets.hint(claim.why)
        if result.changes or result.good:
            widgets.subheading("Changes")
            widgets.bullets(result.changes[:MAX_SHOWN] or ("nothing changes",), "pk-changes")

    def _problem(self, word: str, problem: DraftProblem) -> None:
        file, line, path = problem.file, problem.line, problem.path
        is_here = file == self.began.file and line > 0
        kind = "pk-suppress" if word == "mistake" else "pk-replace"
        with ui.element("div").classes("pk-problem"):
            where = f"line {line}" if is_here else f"{file}:{line}" if line else file
            if is_here:
                place = ui.button(where, on_click=lambda: self.editor.reveal_line(line))
                place.props("flat dense no-caps").classes(kind)
            else:
                ui.label(where).classes(kind)
            ui.label(f"{word}: {path}" if path else word).classes("pk-mono")
            widgets.sentence(problem.what)

    # --- putting it into force

    def _ask(self) -> None:
        if self.checked is None or not self.checked.good:
            return
        text, changes = self.editor.value or "", self.checked.changes
        with ui.dialog().props('aria-label="Put into force"') as dialog, ui.card().classes("pk-dialog"):
            widgets.subheading("Put this draft into force?")
            ui.label(f"{self.began.file} is rewritten, and nodes apply it at once. The audit log records who did it.")
            widgets.bullets(changes[:MAX_SHOWN] or ("nothing changes",))
            with ui.element("div").classes("pk-bar"):
                ui.space()
                ui.button("Cancel", on_click=dialog.close).props("flat no-caps autofocus")
                ui.button("Put into force", on_click=lambda: self._put(dialog, text)).props("unelevated no-caps")
        dialog.on("hide", dialog.delete)
        dialog.open()

    async def _put(self, dialog: ui.dialog, text: str) -> None:
        dialog.close()
        self.put_button.disable()
        self._is_checking = False
        with widgets.emptied(self.results):
            widgets.subheading("Check")
            waiting = widgets.loading("Putting it into force")
            try:
                first, draft = self.person.first, DomainDraft(text, self.began.revision)
                done = await first.post("/api/draft", Reloaded, draft)
                fresh = await first.get("/api/draft", DomainText)
            except ApiClientError as error:
                what = "The domain has changed meanwhile" if error.status == 409 else "The draft is not in force"
                widgets.problem(what, str(error))
                ui.button("Start again with the present domain", on_click=self._again).props("flat no-caps")
                return
            finally:
                waiting.delete()
            if not done.done:
                self._mark(done.checked)
                self._show_check(done.checked)
                return
            self.began, self.person.draft = fresh, None
            self.revision.set_text(f"revision {fresh.revision}")
            with ui.element("div").props("role=status aria-live=polite"):
                widgets.outcome(f"In force, revision {fresh.revision}", True)
            widgets.bullets(done.changes[:MAX_SHOWN] or ("nothing changes",))
        await self.show_changes()


def _follow_dark(editor: ui.codemirror) -> None:
    """Switch the editor's colours with those of the page; only when they change, because an update sends the whole
    text again and loses what is being typed."""

    def follow(event: events.GenericEventArguments) -> None:
        theme: Literal["githubDark", "githubLight"] = "githubDark" if event.args else "githubLight"
        if editor.theme != theme:
            editor.set_theme(theme)

    ui.on("pk-dark", follow)
    ui.timer(
        0.1,
        lambda: ui.run_javascript(
            "let last = null; const tell = () => { const now = document.body.classList.contains('body--dark');"
            " if (now !== last) { last = now; emitEvent('pk-dark', now); } };"
            "new MutationObserver(tell).observe(document.body, {attributes: true, attributeFilter: ['class']}); tell();"
        ),
        once=True,
    )
