"""`penstock xacml`: check policies, decide by them, print them as XML."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR, EXIT_TEST
from penstock.cli.parsers import command_parser
from penstock.cli.policy.xacml_conformance import CaseOutcome, run
from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import timestamp_from_string
from penstock.policy import xacml
from penstock.policy.xacml.evaluation.pdp import refused
from penstock.policy.xacml.functions.patterns import wrong_patterns
from penstock.policy.xacml.tree import Root, XacmlPolicy, XacmlPolicySet, inside

_EPILOG = """\
Policies are XACML 3.0 in XML, or in the short form in YAML (docs/xacml.md), by the name of the file.
Exit code: 0, 1 if a file cannot be read, 2 for bad arguments, 3 if a policy does not check, 4 if a conformance case
fails. A decision has exit code 0, whatever it is.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("xacml", "Check XACML policies, decide by them, print them.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    check = commands.add_parser("check", help="whether policies are right, with all that they refer to")
    check.add_argument("files", nargs="+", type=Path, metavar="FILE")
    decide = commands.add_parser("decide", help="the response to a request")
    decide.add_argument("--policy", nargs="+", type=Path, required=True, metavar="FILE", help="policies that decide")
    decide.add_argument("--reference", nargs="*", type=Path, default=[], metavar="FILE", help="more, to refer to")
    decide.add_argument("--request", type=Path, required=True, metavar="FILE", help="a request in XML or JSON")
    several = "if there are several policies"
    decide.add_argument("--combine", default="deny-overrides", metavar="ALGORITHM", help=several)
    decide.add_argument("--at", metavar="TIME", help="when, such as 2026-11-16T09:00:00Z; now if not given")
    decide.add_argument("--json", action="store_true", help="print the response as JSON")
    show = commands.add_parser("print", help="a policy as XML")
    show.add_argument("file", type=Path, metavar="FILE")
    conformance = commands.add_parser("conformance", help="run a folder of the public conformance cases")
    conformance.add_argument("folder", type=Path, metavar="FOLDER")
    conformance.add_argument("--only", default="", metavar="TEXT", help="only cases with this in their name")
    conformance.add_argument("--all", action="store_true", help="print what passes, too")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        match options.command:
            case "check":
                _check(options.files)
            case "decide":
                _decide(options, parser)
            case "print":
                print(xacml.show_policy(read_file(options.file)), end="")
            case "conformance":
                return _conformance(options, parser)
    except OSError as error:
        print(f"penstock: cannot read `{error.filename}`: {error.strerror}", file=sys.stderr)
        return EXIT_ERROR
    except xacml.XacmlError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_DOMAIN
    return 0


def read_file(file: Path) -> Root:
    """Read the policy of a file, in XML or in the short form; raise `XacmlError` with the file's name."""
    data = file.read_bytes()
    try:
        if file.suffix.lower() == ".json":
            raise xacml.XacmlError("a policy is in XML, or in the short form in YAML, not in JSON")
        return xacml.read_short(data) if file.suffix.lower() in (".yaml", ".yml") else xacml.read_policy(data)
    except xacml.XacmlError as error:
        raise error.at(str(file)) from None


def _check(files: Sequence[Path]) -> None:
    roots = [read_file(file) for file in files]
    for error in xacml.Pdp(roots).repository.unresolved:
        raise error
    for root in roots:
        for wrong in wrong_patterns(root):
            raise xacml.XacmlError(wrong)
    for file, root in zip(files, roots, strict=True):
        trees = list(inside(root))
        sets = sum(isinstance(tree, XacmlPolicySet) for tree in trees)
        rules = sum(len(tree.rules) for tree in trees if isinstance(tree, XacmlPolicy))
        counts = f"{sets} policy sets, {len(trees) - sets} policies, {rules} rules"
        print(f"{file}: `{root.id}` version {root.version}: {counts}")


def _decide(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    now = time.time_ns()
    if options.at is not None:
        try:
            now = timestamp_from_string(options.at).nanos
        except EvaluationError as error:
            parser.error(f"--at: {error}")
    policies, references = ([read_file(file) for file in files] for files in (options.policy, options.reference))
    pdp = xacml.Pdp(policies, references, options.combine)
    try:
        response = pdp.decide(_request(options.request), now)
    except xacml.XacmlError as error:
        response = (refused(error),)  # 7.17: an invalid request has a response too
    print(xacml.show_response_json(response) if options.json else xacml.show_response(response), end="")


def _request(file: Path) -> xacml.XacmlRequest:
    data = file.read_bytes()
    is_json = file.suffix.lower() == ".json" or data.lstrip()[:1] in (b"{", b"[")
    return xacml.read_request_json(data) if is_json else xacml.read_request(data)


def _conformance(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if not options.folder.is_dir():
        parser.error(f"`{options.folder}` is not a folder")
    counts: dict[CaseOutcome, int] = dict.fromkeys(CaseOutcome, 0)
    for case, outcome, why in run(options.folder, options.only):
        counts[outcome] += 1
        if outcome is not CaseOutcome.PASS or why or options.all:
            print(f"{outcome:11} {case}{f': {why}' if why else ''}")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    if not sum(counts.values()):
        parser.error(f"there are no cases in `{options.folder}`: files such as IIA001Policy.xml and IIA001Request.xml")
    return EXIT_TEST if counts[CaseOutcome.FAIL] else 0
