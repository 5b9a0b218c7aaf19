"""What nodes hold beside what their journals make of it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.trust import Fleet, NeighbourRating
from penstock.pipeline.trust.live_ratings import ask, compare
from penstock.policy.trust.rating import Evidence, Weights

AGEING = Weights(3, 0.5, 10.0)


def fleet(*rated: NeighbourRating, weights: Weights = AGEING) -> Fleet:
    return Fleet(rated, 100.0, weights, None)


def rated(good: float, bad: float, at: float | None, neighbour: str = "b1") -> NeighbourRating:
    return NeighbourRating("b2", neighbour, good, bad, at, 0.5, ())


CASES: list[tuple[str, Fleet, dict[str, Evidence], list[bool]]] = [
    ("the same", fleet(rated(4, 2, 100)), {"b1": Evidence(4, 2, 100)}, [False]),
    ("the same, aged", fleet(rated(4, 2, 90)), {"b1": Evidence(2, 1, 100)}, [False]),
    ("the same, recorded later", fleet(rated(2, 1, 100)), {"b1": Evidence(4, 2, 90)}, [False]),
    ("what the domain gives does not age", fleet(rated(6, 0, None)), {"b1": Evidence(6, 0, 500)}, [False]),
    ("less than a thousandth", fleet(rated(4, 2, 100)), {"b1": Evidence(4.0005, 2, 100)}, [False]),
    ("one event more", fleet(rated(4, 2, 100)), {"b1": Evidence(5, 2, 100)}, [True]),
    ("as much, and not aged", fleet(rated(4, 2, 90)), {"b1": Evidence(4, 2, 100)}, [True]),
    ("a neighbour that the node does not have", fleet(rated(4, 2, 100)), {}, [True]),
    ("a neighbour that the domain does not have", fleet(), {"b9": Evidence()}, [True]),
    ("one of two", fleet(rated(1, 0, 100), rated(1, 0, 100, "b3")), {"b1": Evidence(1, 0, 100)}, [False, True]),
]


@pytest.mark.parametrize(("title", "found", "held", "differs"), CASES, ids=[case[0] for case in CASES])
def test_compared(title: str, found: Fleet, held: dict[str, Evidence], differs: list[bool]) -> None:
    assert [one.exceeds(0.001) for one in compare(found, "b2", held)] == differs


@contextmanager
def saying(body: bytes, code: int = 200) -> Iterator[str]:
    """A server that says the same to everybody; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code if self.path == "/api/trust" else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


ANSWERS: list[tuple[str, bytes, int, str]] = [
    ("not JSON", b"<html>", 200, "did not answer with the ratings of a node"),
    ("another object", b"{}", 200, "did not answer with the ratings of a node"),
    ("a list", b"[]", 200, "did not answer with the ratings of a node"),
    ("no trust", b'{"node": "b2", "trust": null}', 200, "node `b2` has no trust"),
    (
        "less than nothing",
        b'{"node": "b2", "trust": {"neighbours": {"b1": {"good": -1, "bad": 0, "at": 0}}}}',
        200,
        "evidence is of numbers from 0 on",
    ),
    ("an error", b"", 500, "cannot be asked for the ratings of its node"),
]


@pytest.mark.parametrize(("title", "body", "code", "words"), ANSWERS, ids=[case[0] for case in ANSWERS])
def test_what_is_not_an_answer(title: str, body: bytes, code: int, words: str) -> None:
    with saying(body, code) as url, pytest.raises(PipelineError, match=words):
        ask(url)


def test_an_answer_may_say_more() -> None:
    body = b'{"node": "b2", "new": 1, "trust": {"neighbours": {"b1": {"good": 1, "bad": 2.5, "at": 7, "new": 1}}}}'
    with saying(body) as url:
        assert ask(f"{url}/") == ask(url) == ("b2", {"b1": Evidence(1, 2.5, 7)})


@pytest.mark.parametrize("url", ["file:///etc/passwd", "b2:8080"])
def test_only_http_is_asked(url: str) -> None:
    with pytest.raises(PipelineError, match="expected http://HOST:PORT"):
        ask(url)
