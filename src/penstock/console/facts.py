"""A list of names and values that change while the page is open."""

from nicegui import ui


class FactList:
    """Names and values that change."""

    def __init__(self) -> None:
        self._box = ui.element("div").classes("pm-facts")
        self._values: dict[str, ui.label] = {}

    def set(self, name: str, value: str) -> None:
        if name not in self._values:
            with self._box:
                ui.label(name)
                self._values[name] = ui.label().classes("pm-fact")
        if self._values[name].text != value:
            self._values[name].set_text(value)
