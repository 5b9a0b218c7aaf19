"""`penstock contracts`: which contracts of producers and consumers fit, by which rule, in which situations, and why;
and contracts as policies in XACML.
"""

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.cli.parsers import command_parser
from penstock.cli.table import print_table
from penstock.domain import check, ensemble, read
from penstock.domain.problems import known_names_hint
from penstock.model.errors import PolicyError
from penstock.policy.contracts.contract_set import Contracts
from penstock.policy.contracts.fit import FitLevel, FitReport, RuleFit, match_all, way
from penstock.policy.contracts.release import PRIVACY
from penstock.policy.contracts.xacml_form import to_xacml
from penstock.policy.xacml import show_policy

_EPILOG = """\
A pair fits (all that is asked is promised), depends (each event is judged by its quality), fails, or is unrelated (no
topic in common). Without --situation it is said for all situations, and in which ones a rule counts.
Exit code: 0, 2 for bad arguments, 3 if the domain does not check.
"""
_NO_RULES = (RuleFit("", FitLevel.UNRELATED, ("they have no topic in common",)),)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("contracts", "Show which contracts of producers and consumers fit.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    match = commands.add_parser("match", help="for every pair whether and why it fits")
    match.add_argument("domain", type=Path, metavar="DOMAIN", help="the domain file")
    match.add_argument("--producer", metavar="P", help="only this producer's contract")
    match.add_argument("--consumer", metavar="C", help="only this consumer's contract")
    match.add_argument("--situation", action="append", metavar="S", help="while just these are open; `none`: none")
    match.add_argument("--json", action="store_true", help="print JSON")
    show = commands.add_parser("xacml", help="a producer's contract as policies in XACML")
    show.add_argument("domain", type=Path, metavar="DOMAIN", help="the domain file")
    show.add_argument("--producer", metavar="P", required=True, help="the producer's contract")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    source = read(options.domain)
    contracts = ensemble(check(source, nodes=()).domain, source.folder).contracts
    if contracts is None or not (contracts.producers or contracts.consumers or contracts.privacy):
        parser.error(f"`{options.domain}` has no `contracts`")
    wrong = _unknown(contracts, options)
    if wrong:
        parser.error(wrong)
    if options.command == "xacml":
        return _show_xacml(contracts, options.producer, parser)
    rows = list(_rows(contracts, options))
    if options.json:
        print(json.dumps(msgspec.to_builtins(rows), indent=2))
    else:
        heads = ("PRODUCER", "CONSUMER", "WANT", "RULE", "COMES TO", "WHEN", "WHY")
        print_table(heads, [_cells(row) for row in rows])
    return 0


def _show_xacml(contracts: Contracts, name: str, parser: argparse.ArgumentParser) -> int:
    contract = contracts.named(name)
    if contract is None or (contract.xacml and not contract.rules):
        parser.error(f"`{name}` is in XACML already")
    try:
        print(show_policy(to_xacml(contract)), end="")
    except PolicyError as error:
        parser.error(str(error))
    return 0


def _unknown(contracts: Contracts, options: argparse.Namespace) -> str:
    """Return a message for an unknown name; empty if all are known."""
    policies = [f"{PRIVACY}{policy.name}" for policy in contracts.privacy]
    about: tuple[tuple[str, list[str | None], list[str]], ...] = (
        ("producer's contract", [options.producer], [*(producer.name for producer in contracts.producers), *policies]),
    )
    if options.command == "match":
        about += (
            ("consumer's contract", [options.consumer], [consumer.name for consumer in contracts.consumers]),
            ("situation", options.situation or [], [*(situation.name for situation in contracts.situations), "none"]),
        )
    for kind, names, known in about:
        for name in names:
            if name is not None and name not in known:
                return f"there is no {kind} `{name}`: {known_names_hint(name, known)}"
    return ""


def _rows(contracts: Contracts, options: argparse.Namespace) -> Iterator[FitReport]:
    for pair in match_all(contracts):
        if options.producer in (None, pair.fit.producer) and options.consumer in (None, pair.fit.consumer):
            for want in pair.fit.wants:
                for rule in want.rules or _NO_RULES:
                    yield way(pair.client, pair.fit, want, _counting(rule, options.situation))


def _counting(rule: RuleFit, situations: list[str] | None) -> RuleFit:
    """Return the rule as it counts while just these situations are open; None: in those that are best for it."""
    if situations is None or rule.is_on([situation for situation in situations if situation != "none"]):
        return rule
    return replace(rule, standing=min(rule.standing, FitLevel.FAILS), reasons=(f"it counts {rule.when}", *rule.reasons))


def _cells(row: FitReport) -> tuple[str, ...]:
    consumer = row.consumer if row.consumer == row.client else f"{row.consumer} ({row.client})"
    return row.producer, consumer, row.want, row.rule, row.comes_to, row.when, "; ".join(row.why)
