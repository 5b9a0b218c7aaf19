"""`penstock test`: run the policy tests of a domain file, without sockets."""

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.cli.domain.check import check_domain
from penstock.cli.domain.staging import StagedDomain
from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_TEST
from penstock.cli.parsers import command_parser
from penstock.domain import DomainSource, read
from penstock.domain.schema.tests import PolicyTest
from penstock.engine.rehearsal.policy_test import Mismatch, Result, try_out
from penstock.model.errors import DomainError, PenstockError
from penstock.model.yaml.tree import locate

_EPILOG = """\
A test is a list of steps under `tests` in the domain file, or in a file that it includes: actions and the results that
are expected. All nodes run in memory: nothing is listened on, connected to or written.
Exit code: 0 if all tests pass, 2 for bad arguments, 3 if the domain does not check, 4 if a test fails.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("test", "Run the policy tests of a domain file.", _EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="the domain file")
    parser.add_argument("-k", dest="name", default="", metavar="NAME", help="only tests with this in their title")
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
    results = [try_out(title, test, stage.start(keeps=True)) for title, test in chosen.items()]
    if options.json:
        print(json.dumps(_plain(options.file, source, results), indent=2))
    else:
        print("\n".join(_in_words(source, results, chosen)))
    return 0 if all(result.passed for result in results) else EXIT_TEST


def _where(source: DomainSource, title: str, failure: Mismatch) -> str:
    """Return the file and line of the step that failed."""
    place = locate(source.root, ("tests", title, "steps", failure.step)).entry.place
    return f"{place.file}:{place.line}"


def _plain(file: Path, source: DomainSource, results: list[Result]) -> dict[str, object]:
    tests = []
    for result in results:
        failures = [
            {
                "where": _where(source, result.title, mismatch),
                **msgspec.to_builtins(mismatch),
                "step": mismatch.step + 1,
            }
            for mismatch in result.failures
        ]
        tests.append({"title": result.title, "passed": result.passed, "failures": failures})
    failed = sum(not result.passed for result in results)
    return {"file": str(file), "passed": len(results) - failed, "failed": failed, "tests": tests}


def _in_words(source: DomainSource, results: list[Result], tests: dict[str, PolicyTest]) -> Iterator[str]:
    for result in results:
        yield f"{'ok  ' if result.passed else 'FAIL'}  {result.title}"
        for failure in result.failures:
            step = tests[result.title].steps[failure.step]
            deed = f", {step.actions[0]}" if step.actions else ""
            yield f"      {_where(source, result.title, failure)}: step {failure.step + 1}{deed}: {failure.about}"
            for label, lines in (("expected", failure.expected), ("got", failure.got), ("because", failure.why)):
                for at, line in enumerate(lines):
                    yield f"        {label if at == 0 else '':9} {line}"
    failed = sum(not result.passed for result in results)
    count = f"{len(results)} test{'' if len(results) == 1 else 's'}"
    yield f"{count}, {failed} failed" if failed else f"{count}, all passed" if results else "no tests"
