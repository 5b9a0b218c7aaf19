"""`penstock test`: run the policy tests of a domain file, without sockets."""

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from penstock.cli.domain.check import check_domain
from penstock.cli.domain.staging import StagedDomain
from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_TEST
from penstock.cli.parsers import command_parser
from penstock.domain import DomainSource, read
from penstock.domain.schema.tests import PolicyTest
from penstock.engine.rehearsal.orders import LinkOrdering, OrdersResult, try_orders
from penstock.engine.rehearsal.policy_test import Mismatch, Result, try_out
from penstock.model.errors import DomainError, PenstockError
from penstock.model.yaml.tree import locate

_EPILOG = """\
A test is a list of steps under `tests` in the domain file, or in a file that it includes: actions and the results that
are expected. All nodes run in memory: nothing is listened on, connected to or written.
With --orders a test is played in every order that differs, and the orderings under which it holds are named: `fifo`
(all links are equally fast), `in-order` (each link keeps the order of its events, as TCP does) and `unordered`.
Exit code: 0 if all tests pass, 2 for bad arguments, 3 if the domain does not check, 4 if a test fails.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("test", "Run the policy tests of a domain file.", _EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="the domain file")
    parser.add_argument("-k", dest="name", default="", metavar="NAME", help="only tests with this in their title")
    parser.add_argument(
        "--orders",
        choices=[ordering.value for ordering in LinkOrdering],
        metavar="ORDERING",
        help="play every order of events that differs: `fifo`, `in-order` or `unordered`",
    )
    parser.add_argument("--json", action="store_true", help="print the results as one JSON object")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        source = read(options.file)
        report = check_domain(source, [])  # the files of nodes need not be on this machine
        if report.domain is None or report.problems:
            raise DomainError(*report.problems)
        stage = StagedDomain.of(source, report.domain)
    except PenstockError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_DOMAIN
    tests = stage.domain.tests
    chosen = {title: test for title, test in tests.items() if options.name.lower() in title.lower()}
    if options.name and not chosen:
        titles = "".join(f"\n  {title}" for title in tests)
        parser.error(f"no test has `{options.name}` in its title; there is{titles or ' none'}")
    if options.orders is not None:
        return _try_orders(source, stage, chosen, options)
    results = [try_out(title, test, stage.start(keeps=True)) for title, test in chosen.items()]
    if options.json:
        print(json.dumps(_plain(options.file, source, results), indent=2))
    else:
        print("\n".join(_in_words(source, results, chosen)))
    return 0 if all(result.passed for result in results) else EXIT_TEST


def _try_orders(
    source: DomainSource, stage: StagedDomain, tests: dict[str, PolicyTest], options: argparse.Namespace
) -> int:
    """Play tests in every order, and print under which orderings they hold."""
    results = [
        try_orders(title, test, lambda: stage.start(keeps=True), LinkOrdering(options.orders))
        for title, test in tests.items()
    ]
    if options.json:
        print(json.dumps(_plain_orders(options.file, source, results), indent=2))
    else:
        print("\n".join(_orders_in_words(source, results, tests)))
    return 0 if all(result.holds for result in results) else EXIT_TEST


def _plain_orders(file: Path, source: DomainSource, results: list[OrdersResult]) -> dict[str, object]:
    tests = []
    for result in results:
        orders = {}
        for ordering, broken in result.breaks.items():
            failures = [] if broken is None else _plain_failures(source, result.title, broken.failures)
            moves = () if broken is None else broken.moves
            orders[ordering.value] = {"holds": broken is None, "failures": failures, "order": moves}
        tests.append({"title": result.title, "holds": result.holds, "played": result.played, "orders": orders})
    return {"file": str(file), "ordering": results[0].asked.value if results else None, "tests": tests}


def _orders_in_words(source: DomainSource, results: list[OrdersResult], tests: dict[str, PolicyTest]) -> Iterator[str]:
    for result in results:
        played = f"{result.played} interleaving{'' if result.played == 1 else 's'} played"
        yield f"{'ok  ' if result.holds else 'FAIL'}  {result.title}: {_verdict(result)} ({played})"
        broken = result.breaks.get(result.asked)
        if broken is not None:
            yield from _failures_in_words(source, result.title, broken.failures, tests)
            for at, move in enumerate(broken.moves, 1):
                yield f"        {'order' if at == 1 else '':9} {at:2} {move}"
    broke = sum(not result.holds for result in results)
    count = f"{len(results)} test{'' if len(results) == 1 else 's'}"
    yield f"{count}, {broke} failed" if broke else f"{count}, all hold" if results else "no tests"


def _verdict(result: OrdersResult) -> str:
    """Return the orderings under which a test holds, and those under which it does not."""
    holds = [ordering.value for ordering in LinkOrdering if result.breaks.get(ordering, result) is None]
    breaks = [ordering.value for ordering in LinkOrdering if result.breaks.get(ordering)]
    parts = ["holds " + ", ".join(holds)] if holds else []
    parts += ["breaks " + ", ".join(breaks)] if breaks else []
    parts += ["not decided beyond that: too many interleavings"] if result.is_cut_short else []
    return ", ".join(parts)


def _where(source: DomainSource, title: str, failure: Mismatch) -> str:
    """Return the file and line of the step that failed."""
    place = locate(source.root, ("tests", title, "steps", failure.step)).entry.place
    return f"{place.file}:{place.line}"


def _plain(file: Path, source: DomainSource, results: list[Result]) -> dict[str, object]:
    tests = []
    for result in results:
        failures = _plain_failures(source, result.title, result.failures)
        tests.append({"title": result.title, "passed": result.passed, "failures": failures})
    failed = sum(not result.passed for result in results)
    return {"file": str(file), "passed": len(results) - failed, "failed": failed, "tests": tests}


def _plain_failures(source: DomainSource, title: str, failures: Iterable[Mismatch]) -> list[dict[str, object]]:
    return [
        {"where": _where(source, title, mismatch), **msgspec.to_builtins(mismatch), "step": mismatch.step + 1}
        for mismatch in failures
    ]


def _in_words(source: DomainSource, results: list[Result], tests: dict[str, PolicyTest]) -> Iterator[str]:
    for result in results:
        yield f"{'ok  ' if result.passed else 'FAIL'}  {result.title}"
        yield from _failures_in_words(source, result.title, result.failures, tests)
    failed = sum(not result.passed for result in results)
    count = f"{len(results)} test{'' if len(results) == 1 else 's'}"
    yield f"{count}, {failed} failed" if failed else f"{count}, all passed" if results else "no tests"


def _failures_in_words(
    source: DomainSource, title: str, failures: Iterable[Mismatch], tests: dict[str, PolicyTest]
) -> Iterator[str]:
    for failure in failures:
        step = tests[title].steps[failure.step]
        deed = f", {step.actions[0]}" if step.actions else ""
        yield f"      {_where(source, title, failure)}: step {failure.step + 1}{deed}: {failure.about}"
        for label, lines in (("expected", failure.expected), ("got", failure.got), ("because", failure.why)):
            for at, line in enumerate(lines):
                yield f"        {label if at == 0 else '':9} {line}"
