"""The account that every demo gives: what is told to happen, and whether it did."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.markup import escape

PATIENCE = 15.0
"""Seconds until something that should happen is held not to have happened."""


def wait_for(happened: Callable[[], bool], patience: float = PATIENCE) -> bool:
    """Whether it happened in time."""
    end = time.monotonic() + patience
    while not happened():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


class Account:
    """What happened, printed as it happens, and whether all of it was as it should be."""

    def __init__(self, title: str) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.scenes = 0
        self.failures = 0
        self.started = time.monotonic()
        self.console.rule(f"[bold]{escape(title)}[/bold]")

    def scene(self, title: str) -> None:
        self.scenes += 1
        self.console.print(f"\n[bold]{self.scenes}. {escape(title)}[/bold]")

    def quote(self, text: str) -> None:
        self.console.print(f"   [dim]{escape(text)}[/dim]")

    def check(self, claim: str, seen: object, expected: object = True) -> None:
        """Print the claim as true or as untrue."""
        if seen == expected:
            self.console.print(f"   [green]ok[/green]  {escape(claim)}")
            return
        self.failures += 1
        detail = "" if expected is True else f" (expected {expected!r:.200}, saw {seen!r:.200})"
        self.console.print(f"   [bold red]NO[/bold red]  {escape(claim + detail)}")

    def close(self) -> int:
        """The last line, and the exit code."""
        seconds = time.monotonic() - self.started
        if self.failures:
            self.console.print(f"\n[bold red]{self.failures} things did not happen as told[/bold red]")
            return 1
        self.console.print(f"\n[bold green]Everything happened as told[/bold green], in {seconds:.0f} s.\n")
        return 0
