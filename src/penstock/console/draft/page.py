"""The part `try` of the page: a draft of the domain, what is wrong with it, and what it would change for whom."""

import asyncio
from datetime import UTC, datetime
from typing import Literal

import msgspec
from nicegui import events, ui

from penstock.broker.http.answers.drafts import Checked, DomainText, Draft, Reloaded
from penstock.broker.http.audit import Audited
from penstock.console import widgets
from penstock.console.admin_client import AskError
from penstock.console.draft import comparison
from penstock.console.person import KeptDraft, Person
from penstock.console.tables import Cell, Prose, Table

PAUSE = 1.0
"""Seconds without a key after which a draft is checked."""
MOST_SHOWN = 100
MOST_CHANGES = 20
_MAY = "Edit the domain or paste another. Nothing counts before it is put into force."

_MAY_NOT = "The domain file as it is, with marks for its secrets. Drafts of it take the right `change`."


async def show(person: Person) -> None:
    """Show it to a person."""
    widgets.heading("Try a draft", _MAY if person.about.right == "change" else _MAY_NOT)
    waiting = widgets.loading("Fetching the domain file")
    try:
        text = await person.first.get_long("/api/draft", DomainText)
    except AskError as error:
        waiting.delete()
        widgets.wrong("The domain file cannot be shown", str(error))
        return
    waiting.delete()
    trial = Trial(person, text)
    trial.build()
    await trial.comparing.go_on()
    await trial.look_back()


class Trial:
    """One page with a draft."""

    def __init__(self, person: Person, text: DomainText) -> None:
        self.person = person
        kept = person.draft
        self.draft = text.text if kept is None else kept.text
        self.began = text if kept is None else msgspec.structs.replace(text, revision=kept.revision)
        """What the draft is made of."""
        self.may = person.about.right == "change"
        self.checked: Checked | None = None
        self._number = 0
        self._is_soon = False
        """It is said that a check is on its way."""
        self._waiting: asyncio.TimerHandle | None = None

    def build(self) -> None:
        with ui.element("div").classes("pk-try"):
            with widgets.card("Draft"):
                self._bar()
                if self.person.draft is not None:
                    with ui.element("div").classes("pk-bar").props("role=status"):
                        ui.label("Your draft from before.")
                        ui.button("Begin again with the domain as it is", on_click=self._again).props("flat no-caps")
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
                    self.comparing = comparison.Comparing(
                        self.person, box, lambda: Draft(self.editor.value or "", self.began.revision), self.may
                    )
                    self.comparing.build()
                with widgets.card("Last changes"):
                    self._changed = Table(
                        "Last changes",
                        ("at, UTC", "who", "what", "came to"),
                        MOST_CHANGES,
                        "Nothing was changed of late.",
                    )
        _follow_dark(self.editor)
        if self.may and self.person.draft is not None:
            ui.timer(0, self._check_now, once=True)

    async def look_back(self) -> None:
        """Who has changed what of late."""
        try:
            audit = await self.person.first.get("/api/audit", list[Audited])
        except AskError:  # the banner says so
            return
        changes = [one for one in reversed(audit) if one.what in ("draft", "reload")]
        self._changed.fill(
            (
                datetime.fromtimestamp(one.at, UTC).strftime("%Y-%m-%d %H:%M:%S"),
                one.who,
                Cell(f"{one.what} {'' if one.done else 'refused'}".strip(), "" if one.done else "pk-loss"),
                Prose(one.detail),
            )
            for one in changes
        )

    def _first_words(self) -> tuple[str, str]:
        if not self.may:
            return "You may look", "Checking a draft runs code that it names, so it takes the right `change`."
        return "This is the domain as it is", "Change something: mistakes, assertions and changes appear here."

    def _bar(self) -> None:
        with ui.element("div").classes("pk-bar"):
            ui.label(self.began.file).classes("pk-mono")
            self.revision = ui.label(f"revision {self.began.revision}").classes("pk-about")
            ui.space()
            self.check_button = ui.button("Check", on_click=self._check_now).props("outline no-caps")
            self.put_button = ui.button("Put into force…", on_click=self._ask).props("unelevated no-caps")
            self.put_button.disable()
            if not self.may:
                self.check_button.disable()

    def _again(self) -> None:
        self.person.draft = None
        ui.navigate.to("/try")

    # --- checking

    def _edited(self, _: events.ValueChangeEventArguments[str]) -> None:
        """Keep it, and check it once no key has been pressed for a while."""
        self.person.draft = KeptDraft(self.editor.value or "", self.began.revision)
        self.checked = None
        self.put_button.disable()
        self._say_soon()
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

    def _say_soon(self) -> None:
        """What was said of an earlier text is not true of this one."""
        if self.may and not self._is_soon:
            self._is_soon = True
            self.results.clear()
            with self.results:
                widgets.subheading("Check")
                widgets.loading("Checking what you have written")

    async def _check_now(self, *_: object) -> None:
        if not self.may:
            return
        self._number += 1
        number, text = self._number, self.editor.value or ""
        self.check_button.props(add="loading")
        self._say_soon()
        try:
            first, draft = self.person.first, Draft(text, self.began.revision)
            found: Checked | AskError = await first.post_long("/api/draft/check", Checked, draft)
        except AskError as error:
            found = error
        if number != self._number:  # a later one is on its way
            return
        self.check_button.props(remove="loading")
        self._is_soon = False
        self.results.clear()
        with self.results:
            widgets.subheading("Check")
            if isinstance(found, AskError):
                is_late = found.status == 409
                widgets.wrong("Another revision has come meanwhile" if is_late else "It cannot be checked", str(found))
                ui.button("Begin again with the domain as it is now", on_click=self._again).props("flat no-caps")
                self._mark(Checked(False, (), ()))
                return
            self.checked = found
            self._mark(found)
            self._tell(found)
        self.put_button.set_enabled(found.good)

    def _mark(self, found: Checked) -> None:
        """Lines of the editor, with what is wrong there. Texts are no HTML there."""
        said: dict[int, str] = {}
        kinds: dict[int, str] = {}
        lines = (self.editor.value or "").count("\n") + 1
        for kind, problems in (("pk-line-warning", found.warnings), ("pk-line-wrong", found.problems)):
            for one in problems:
                if one.file == self.began.file and 1 <= one.line <= lines:
                    said[one.line] = "\n".join(filter(None, (said.get(one.line), f"{one.path}: {one.what}")))
                    kinds[one.line] = kind
        self.editor.decorations = [{"kind": "line", "line": line, "class": kind} for line, kind in kinds.items()]
        self.editor.line_tooltips = said

    def _tell(self, found: Checked) -> None:
        count = len({(one.file, one.line, one.path, one.what) for one in found.problems})
        said = "It checks" if found.good else f"{count} mistake{'s' * (count != 1)}"
        with ui.element("div").props("role=status aria-live=polite"):
            ui.label(said).classes(f"pk-effect {'pk-pass' if found.good else 'pk-suppress'}")
        for word, problems in (("mistake", found.problems), ("warning", found.warnings)):
            for one in dict.fromkeys((one.file, one.line, one.path, one.what) for one in problems[:MOST_SHOWN]):
                self._problem(word, *one)
            if len(problems) > MOST_SHOWN:
                ui.label(f"and {len(problems) - MOST_SHOWN} more").classes("pk-about")
        if found.assertions:
            widgets.subheading("Assertions")
            with ui.element("ul").classes("pk-list"):
                for claim in sorted(found.assertions, key=lambda one: one.holds)[:MOST_SHOWN]:
                    with ui.element("li"):
                        ui.label("holds" if claim.holds else "fails").classes(
                            f"pk-effect {'pk-pass' if claim.holds else 'pk-suppress'}"
                        )
                        ui.label(claim.text).classes("pk-mono")
                        if claim.why:
                            widgets.said(claim.why).classes("pk-about")
        if found.changes or found.good:
            widgets.subheading("Other than now")
            with ui.element("ul").classes("pk-list").props("id=pk-changes"):
                for change in found.changes[:MOST_SHOWN] or ("nothing changes",):
                    with ui.element("li"):
                        widgets.said(change)

    def _problem(self, word: str, file: str, line: int, path: str, what: str) -> None:
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
            widgets.said(what)

    # --- putting it into force

    def _ask(self) -> None:
        if self.checked is None or not self.checked.good:
            return
        text, changes = self.editor.value or "", self.checked.changes
        with ui.dialog().props('aria-label="Put into force"') as dialog, ui.card().classes("pk-dialog"):
            widgets.subheading("Put this draft into force?")
            ui.label(f"{self.began.file} is rewritten, and nodes decide by it at once. It is noted who did it.")
            with ui.element("ul").classes("pk-list"):
                for change in changes[:MOST_SHOWN] or ("nothing changes",):
                    with ui.element("li"):
                        widgets.said(change)
            with ui.element("div").classes("pk-bar"):
                ui.space()
                ui.button("Cancel", on_click=dialog.close).props("flat no-caps autofocus")
                ui.button("Put into force", on_click=lambda: self._put(dialog, text)).props("unelevated no-caps")
        dialog.on("hide", dialog.delete)
        dialog.open()

    async def _put(self, dialog: ui.dialog, text: str) -> None:
        dialog.close()
        self.put_button.disable()
        self._is_soon = False
        self.results.clear()
        with self.results:
            widgets.subheading("Check")
            waiting = widgets.loading("Putting it into force")
            try:
                first, draft = self.person.first, Draft(text, self.began.revision)
                done = await first.post_long("/api/draft", Reloaded, draft)
                fresh = await first.get_long("/api/draft", DomainText)
            except AskError as error:
                waiting.delete()
                what = "Another revision has come meanwhile" if error.status == 409 else "It is not in force"
                widgets.wrong(what, str(error))
                ui.button("Begin again with the domain as it is now", on_click=self._again).props("flat no-caps")
                return
            waiting.delete()
            if not done.done:
                self._mark(done.checked)
                self._tell(done.checked)
                return
            self.began, self.person.draft = fresh, None
            self.revision.set_text(f"revision {fresh.revision}")
            with ui.element("div").props("role=status aria-live=polite"):
                ui.label(f"In force, revision {fresh.revision}").classes("pk-effect pk-pass")
            with ui.element("ul").classes("pk-list"):
                for change in done.changes[:MOST_SHOWN] or ("nothing changes",):
                    with ui.element("li"):
                        widgets.said(change)
        await self.look_back()


def _follow_dark(editor: ui.codemirror) -> None:
    """Have the editor's colours go with those of the page; only when they change, for an update sends all of it again,
    and what is being typed is lost.
    """

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
