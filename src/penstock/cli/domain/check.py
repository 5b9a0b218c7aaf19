"""`penstock check`: check a domain file, and show its expansion."""

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from penstock.analysis.enforceable import Enforceability, enforceable
from penstock.analysis.flows import check_assertions
from penstock.analysis.statement_conflicts import conflicts
from penstock.cli.exit_codes import EXIT_DOMAIN
from penstock.cli.parsers import command_parser
from penstock.domain import Domain, DomainSource, check, diff, ensemble, read
from penstock.domain.check import sorted_problems
from penstock.domain.compile.expand import Expansion
from penstock.domain.compile.secret_destinations import redirected_secrets
from penstock.domain.patterns.protocols import Projection, enforced, projections
from penstock.domain.problems import Remark
from penstock.domain.yaml.files import external_names
from penstock.domain.yaml.write import domain_text
from penstock.engine.rehearsal.orders import LinkOrdering
from penstock.model.errors import DomainError, Problem
from penstock.policy.monitors.monitor import MonitorError

_EPILOG = """\
Checked are the file and those it includes, names and link types, that links and files exist, what patterns ask,
that monitors can be made (Python monitors are imported), and that the assertions hold; conflicting policies
are reported as warnings. With --against, the differences from that file are printed too.
Exit code: 0 if all is well, 2 for bad arguments, 3 if the domain does not check.
"""


@dataclass(frozen=True, slots=True)
class CheckedAssertion:
    """An assertion, whether it holds, and if not, why."""

    text: str
    holds: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check."""

    domain: Domain | None
    """The domain without patterns and protocols; None if there are problems in the file."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    assertions: tuple[CheckedAssertion, ...] = ()
    protocols: tuple[str, ...] = ()
    """For each step of each protocol, the links that enforce it."""
    projections: tuple[Projection, ...] = ()
    """Each protocol as each of its participants sees it."""

    def is_good(self, strict: bool) -> bool:
        return not self.problems and not (strict and self.warnings)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("check", "Check a domain file: every mistake with its file, line and key.", _EPILOG)
    parser.add_argument("file", type=Path, metavar="FILE", help="the domain file")
    parser.add_argument(
        "--expand",
        action="store_true",
        help="print the domain with patterns and protocols expanded, and what each of its participants sees",
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.add_argument("--against", type=Path, metavar="OLD", help="print the differences from this domain file")
    parser.add_argument(
        "--names",
        action="store_true",
        help="print only the files and Python code that it names and OLD does not, the links over which it would send a"
        " secret of OLD elsewhere, and the audit file that it would end",
    )
    parser.add_argument(
        "--orders",
        choices=[ordering.value for ordering in LinkOrdering],
        metavar="ORDERING",
        help="say of each monitor whether it can be enforced on its links if events arrive `fifo`, `in-order` or"
        " `unordered`; fail if one cannot, or if that is not decided",
    )
    parser.add_argument("--strict", action="store_true", help="fail for warnings too")
    parser.add_argument(
        "--node", action="append", metavar="NAME", help="look only for the files of this node (may be repeated)"
    )
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.json and options.expand:
        parser.error("--json cannot be used with --expand: the expansion is YAML")
    if options.names:
        return _names(parser, options)
    try:
        source = read(options.file)
    except DomainError as error:
        report = CheckReport(None, error.problems)
    else:
        report = check_domain(source, options.node)
    if report.domain is not None and (unknown := set(options.node or ()) - report.domain.nodes.keys()):
        parser.error(f"no node `{min(unknown)}` in `{options.file}`, it has {', '.join(report.domain.nodes)}")
    changes = None
    if options.against is not None and report.domain is not None:
        try:
            changes = tuple(map(str, diff(read(options.against).domain, report.domain).changes))
        except DomainError as error:
            parser.error(f"--against: {error}")
    answers = list[Enforceability]()
    if options.orders is not None and report.domain is not None:
        answers += enforceable(ensemble(report.domain, source.folder), LinkOrdering(options.orders))
    _show(report, options, changes, answers)
    is_good = report.is_good(options.strict) and all(answer.holds for answer in answers)
    return 0 if is_good else EXIT_DOMAIN


def _names(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """Print external names. Nothing is imported, and no file is read but the domain's own."""
    if options.against is None:
        parser.error("--names needs --against")
    try:
        before = read(options.against).domain
    except DomainError:  # its message may quote secrets of a file that is not the caller's
        parser.error("--against: it cannot be read as a domain")
    try:
        after = read(options.file).domain
    except DomainError as error:
        _show(CheckReport(None, error.problems), options, None)
        return EXIT_DOMAIN
    names = [name for _, name in sorted(external_names(after) - external_names(before))]
    sent = redirected_secrets(before, after)
    record = None if before.admin is None else before.admin.audit
    ends = [str(record)] if record is not None and (after.admin is None or after.admin.audit != record) else []
    if options.json:
        print(json.dumps({"names": names, "sent": sent, "ends": ends}))
    else:
        print("".join(f"{line}\n" for line in (*names, *sent, *ends)), end="")
    return 0


def check_domain(source: DomainSource, nodes: list[str] | None = None) -> CheckReport:
    """Check everything about a domain that can be checked before it runs."""
    try:
        checked = check(source, nodes)
    except DomainError as error:
        return CheckReport(None, error.problems)
    try:
        entities = ensemble(checked.domain, source.folder)
        failures = check_assertions(entities)
    except MonitorError as error:  # an error that a Python monitor reports about its outputs
        return CheckReport(None, (Problem(str(source.folder), 0, "monitors", str(error)),))
    wrong = {failure.index: failure.reason for failure in failures}
    asserted = (
        CheckedAssertion(str(assertion), at not in wrong, wrong.get(at, ""))
        for at, assertion in enumerate(entities.assertions)
    )
    remarks = [Remark(("assertions", failure.index), str(failure)) for failure in failures]
    clashes = conflicts(entities.statements)
    odd = [Remark(("statements", "apply", clash.place), clash.what) for clash in clashes]
    expansion = Expansion(checked.domain)
    problems = (source.problem(remark, expansion) for remark in remarks)
    warnings = sorted_problems([*checked.warnings, *(source.problem(remark, expansion) for remark in odd)])
    steps = tuple(enforced(source.domain, checked.domain))
    views = tuple(projections(source.domain, checked.domain))
    return CheckReport(checked.domain, tuple(problems), tuple(warnings), tuple(asserted), steps, views)


def _show(
    report: CheckReport,
    options: argparse.Namespace,
    changes: tuple[str, ...] | None,
    answers: list[Enforceability] | None = None,
) -> None:
    if options.json:
        plain = {
            "file": str(options.file),
            "good": report.is_good(options.strict),
            "problems": [asdict(problem) for problem in report.problems],
            "warnings": [asdict(warning) for warning in report.warnings],
            "assertions": [asdict(result) for result in report.assertions],
            "protocols": report.protocols,
            "projections": [asdict(view) for view in report.projections],
        }
        if changes is not None:
            plain["changes"] = changes
        if options.orders is not None:
            plain["orders"] = [answer._asdict() for answer in answers or ()]
        print(json.dumps(plain, indent=2))
        return
    for problem in report.problems:
        print(problem, file=sys.stderr)
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if options.expand and report.domain is not None:
        for view in report.projections:
            print(f"# {view}")
        print(domain_text(report.domain, options.file.parent), end="")
    elif report.domain is not None and report.is_good(options.strict):
        print("\n".join([f"{options.file}: good: {_summary(report.domain)}", *report.protocols]))
    for answer in answers or ():
        print(answer)
    for change in changes or ():
        print(change)
    if changes == ():
        print("nothing changes")


def _summary(domain: Domain) -> str:
    parts = [_count(getattr(domain, f"{name}s"), name) for name in ("node", "link", "client", "monitor")]
    parts += [f"{_count(domain.assertions, 'assertion')} proved"] if domain.assertions else []
    return ", ".join(filter(None, parts))


def _count(things: object, name: str) -> str:
    assert isinstance(things, tuple | dict)
    return f"{len(things)} {name}{'' if len(things) == 1 else 's'}" if things else ""
