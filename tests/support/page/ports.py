"""Ports of pages: each stands for one that is free."""

import re

from tests.support.processes.mosquitto import free_port

DEFAULT = "1883"
_PORT = re.compile(
    r"(?:(?<=127\.0\.0\.1[:_])|(?<=localhost:)|(?<=0\.0\.0\.0:)|(?<=-p )|(?<=--port )|(?<=^listener ))\d+", re.M
)


class Ports:
    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def __getitem__(self, port: str) -> str:
        if port not in self._given:
            self._given[port] = str(free_port())
        return self._given[port]

    def usual(self) -> dict[str, str]:
        """Those that stand for ports which commands choose themselves."""
        return {str(port): self[str(port)] for port in (*range(1883, 1886), *range(8080, 8083), *range(18083, 18086))}

    def put(self, text: str) -> str:
        """A text of a page with free ports in place of its own."""
        return _PORT.sub(lambda found: self[found[0]], text)

    def back(self, text: str) -> str:
        """What was printed, with the ports of the page."""
        for port, given in self._given.items():
            text = text.replace(given, port)
        return text
