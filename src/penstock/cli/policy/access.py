"""`penstock access`: which subjects may read and write which Sparkplug metrics, why, and which policies conflict."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from penstock.analysis.access import (
    PRIVILEGES,
    PlantSample,
    TopicRight,
    condition_text,
    find_actor,
    metric_right,
    possible,
    rights,
)
from penstock.analysis.access_conflicts import KINDS, conflicts
from penstock.cli.domain.explain import metrics_in
from penstock.cli.options import UsageError
from penstock.cli.parsers import command_parser, time_argument
from penstock.cli.policy import access_changes
from penstock.cli.policy.births import add_options, sample_of
from penstock.cli.table import print_table
from penstock.domain import Domain, Ensemble, check, ensemble, read
from penstock.engine.sparkplug.messages import moment
from penstock.engine.sparkplug.state import Actor
from penstock.engine.stages.prune import usurped
from penstock.model.errors import ContentError, PolicyError, TopicError
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.plain import write_plain
from penstock.model.sparkplug.topic import MessageTopic, message_topic
from penstock.model.topic import check_topic
from penstock.policy.sparkplug.bulk_files import uncollected
from penstock.policy.sparkplug.name_patterns import NamePatterns
from penstock.policy.sparkplug.policies import Access, AccessPolicy, Privilege
from penstock.policy.sparkplug.reasons import PolicyResult, excepting, names, policy_results
from penstock.policy.sparkplug.views import BirthRecord, ViewRequest

_EPILOG = """\
A subject is written as in policies: a client id, GROUP/EDGE, user:NAME or group:NAME.
`list`, `add`, `change` and `end` ask a live node and change its files.
Exit code: 0, 1 if births cannot be read or a node refuses, 2 for bad arguments, 3 if the domain does not check.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("access", "Show who may read and write which Sparkplug messages and metrics.", _EPILOG)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    grants = commands.add_parser("grants", help="everything that a subject may read and write, by topic and metric")
    why = commands.add_parser("why", help="which policies grant a metric, exclude it, or do not apply")
    odd = commands.add_parser("conflicts", help="policies that never apply, change nothing, or cut each other's grants")
    access_changes.add_commands(commands)
    for command in (grants, why, odd):
        command.add_argument("--domain", type=Path, required=True, metavar="FILE", help="the domain file")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.add_argument("--at", type=time_argument, metavar="TIME", help="as of then (default: now)")
        add_options(command)
    for command in (grants, why):
        command.add_argument("--subject", required=True, metavar="S", help="the subject")
    why.add_argument("--topic", required=True, metavar="T", help="the topic of a message")
    why.add_argument("--metric", required=True, metavar="M", help="the metric's name")
    why.add_argument("--value", metavar="JSON", help="its value, or a mapping with `value`, `type`, `properties`")
    why.add_argument("--metrics", metavar="JSON", help="other metrics of the message, by name")
    why.add_argument("--may", choices=PRIVILEGES, help="only this")
    odd.add_argument("--limit", type=int, default=20, metavar="N", help="findings of each kind (default 20; 0: all)")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        if options.command in access_changes.COMMANDS:
            return access_changes.run(options)
        source = read(options.domain)
        domain = check(source, nodes=()).domain
        entities = ensemble(domain, source.folder)
        if entities.access is None:
            raise UsageError(f"`{options.domain}` has no `access`")
        sample = sample_of(options)
        if options.command == "conflicts":
            _conflicts(domain, entities.access, sample, options)
        elif options.command == "grants":
            _grants(entities, entities.access, sample, options)
        else:
            _why(entities, entities.access, sample, options)
    except (UsageError, PolicyError, TopicError) as error:
        parser.error(str(error))
    return 0


def _time(options: argparse.Namespace) -> float:
    """Return the time that is asked about."""
    return time.time() if options.at is None else float(options.at.timestamp())


def _print(value: object) -> None:
    print(json.dumps(msgspec.to_builtins(value), indent=2))


# --- grants


def _grants(entities: Ensemble, access: Access, sample: PlantSample | None, options: argparse.Namespace) -> None:
    actor = find_actor(entities, options.subject)
    policies = [policy for policy in access.policies if policy.subject in (*actor.ids, "*")]
    at = None if options.at is None else _time(options)
    if at is not None:
        policies = possible(policies, at)
    granted = [] if sample is None else list(rights(access, entities.edges, actor, sample, at))
    if options.json:
        plain = [_plain(policy) for policy in policies]
        _print({"subject": options.subject, "as": actor.ids, "policies": plain, "rights": granted})
        return
    print(f"{options.subject} is {names(actor.ids)} in policies\n")
    if not policies:
        then = "" if at is None else " and valid then"
        print(f"no policy is about it{then}: it may read and write nothing")
    elif sample is None:
        heads = ("may", "topics", "except", "when", "policy")
        print_table(heads, [_row(policy) for policy in policies])
    elif granted:
        print_table(("may", "topic", "when", "metrics", "sometimes", "never"), [_right(right) for right in granted])
    else:
        print("of the births seen it may read and write nothing")


def _plain(policy: AccessPolicy) -> dict[str, Any]:
    return {
        "id": policy.id,
        "subject": policy.subject,
        "topics": policy.filter,
        "may": policy.privilege,
        "except": policy.exceptions,
        "when": policy.condition.text if policy.condition is not None else None,
        "valid": policy.valid.text if policy.valid is not None else None,
    }


def _row(policy: AccessPolicy) -> tuple[str, ...]:
    when = condition_text(policy) or "always"
    return policy.privilege, policy.filter, ", ".join(policy.exceptions) or "-", when, policy.id


def _right(right: TopicRight) -> tuple[str, ...]:
    when = " or ".join(f"`{text}`" for text in right.conditions) or "always"
    of: dict[str, list[str]] = {"always": [], "sometimes": [], "never": []}
    for name, access in right.metrics.items():
        # A metric that depends only on whether the message is granted is as certain as the message.
        how = "always" if access.how == "sometimes" and not access.by else access.how
        of[how].append(f"`{name}`" + (f" ({', '.join(access.by)})" if access.by else ""))
    return (right.may, right.topic, when, *(_several(of[how]) for how in ("always", "sometimes", "never")))


def _several(shown: Sequence[str]) -> str:
    return ", ".join([*shown[:20], *([f"{len(shown) - 20} more"] if len(shown) > 20 else [])]) or "-"


# --- why


class _AccessAnswer(msgspec.Struct):
    """The answer about one kind of access, and the effect of each policy."""

    may: Privilege
    answer: str
    """yes, no, or sometimes"""
    reason: str
    policies: list[dict[str, Any]]


def _why(entities: Ensemble, access: Access, sample: PlantSample | None, options: argparse.Namespace) -> None:
    actor = find_actor(entities, options.subject)
    try:
        place = message_topic(check_topic(options.topic))
    except ContentError as error:
        raise UsageError(str(error)) from None
    request = _request(place, sample, options)
    chosen: Sequence[Privilege] = PRIVILEGES if options.may is None else (options.may,)
    answers = [_answer(entities, access, actor, place, request, may, options) for may in chosen]
    if options.json:
        _print({"subject": options.subject, "topic": options.topic, "metric": options.metric, "access": answers})
        return
    for answer in answers:
        verb = {"yes": "may", "no": "may not", "sometimes": "may sometimes"}[answer.answer]
        print(f"{options.subject} {verb} {answer.may} `{options.metric}` of `{options.topic}`: {answer.reason}")
        columns = ("id", "subject", "topics", "says", "because")
        rows = [tuple(policy[column] for column in columns) for policy in answer.policies]
        if rows:
            print_table(("policy", *columns[1:]), rows)
        print()


def _request(place: MessageTopic, sample: PlantSample | None, options: argparse.Namespace) -> ViewRequest | None:
    """Return the message that is asked about; None if its contents are not given."""
    if options.value is None and options.metrics is None:
        return None
    metrics = {} if options.metrics is None else metrics_in(options.metrics)
    if options.value is not None:
        try:
            metrics[options.metric] = json.loads(options.value)
        except ValueError:
            metrics[options.metric] = options.value  # a text without its quotes
    births = BirthRecord() if sample is None or place.source is None else sample.plant.known(place.source)
    try:
        return ViewRequest(place, parse(write_plain(metrics)), births, moment(_time(options)))
    except ContentError as error:
        raise UsageError(str(error)) from None


def _answer(
    entities: Ensemble,
    access: Access,
    actor: Actor,
    place: MessageTopic,
    request: ViewRequest | None,
    may: Privilege,
    options: argparse.Namespace,
) -> _AccessAnswer:
    policies = access.candidates(actor.ids, options.topic, may)
    evaluated = () if request is None else policy_results(policies, request, actor.record)
    if request is None:
        effects = [_plain(policy) | _depends(policy, options.metric) for policy in policies]
    else:
        effects = [_plain(word.policy) | _says(word, options.metric) for word in evaluated]
    foreign = usurped(entities.edges, actor.edge, place) if may == "write" else ""
    if foreign or not policies:
        return _AccessAnswer(may, "no", foreign or "no policy is about it", effects)
    metric = options.metric
    at = None if options.at is None else _time(options)
    answer, reason = _in_general(policies, metric, at) if request is None else _by_words(evaluated, metric)
    return _AccessAnswer(may, answer, reason, effects)


def _says(word: PolicyResult, metric: str) -> dict[str, str]:
    excludes = metric in word.exceptions
    says = "takes it out" if excludes else "grants" if word.grants else "does not apply"
    return {"says": says, "because": word.reason or "it applies"}


def _depends(policy: AccessPolicy, metric: str) -> dict[str, str]:
    says = "takes it out" if metric in NamePatterns(policy.exceptions) else "grants"
    when = f"when `{policy.condition.text}`" if policy.condition is not None else ""
    valid = f"valid {policy.valid.text}" if policy.valid is not None else ""
    return {"says": says, "because": ", ".join(filter(None, (when, valid))) or "always"}


def _by_words(evaluated: Sequence[PolicyResult], metric: str) -> tuple[str, str]:
    granting = [word.policy.id for word in evaluated if word.grants]
    if not granting:
        return "no", "no policy that is about it applies"
    excluding = excepting(evaluated, [metric])
    return ("no", f"excepted by {names(excluding)}") if excluding else ("yes", f"by {names(dict.fromkeys(granting))}")


def _in_general(policies: Sequence[AccessPolicy], metric: str, at: float | None) -> tuple[str, str]:
    able = possible(policies, at)
    if not able:
        return "no", "no policy that is about it can apply" + ("" if at is None else " then")
    if at is not None:  # of those, the time has decided
        able = [replace(policy, valid=None) for policy in able]
    right = metric_right(able, metric)
    if right.how == "never":
        return "no", f"excepted by {names(right.by)}"
    if right.how == "always":
        return "yes", f"by {names(dict.fromkeys(policy.id for policy in able if policy.is_unconditional))}"
    if any(policy.valid is not None for policy in able):
        return "sometimes", "it depends on the time, or on what the message says; --at, --value and --metrics say it"
    return "sometimes", "it depends on what the message says; --value and --metrics say it"


# --- conflicts


def _conflicts(domain: Domain, access: Access, sample: PlantSample | None, options: argparse.Namespace) -> None:
    with uncollected():
        plant = None if sample is None else sample.plant
        findings = list(conflicts(domain, access.policies, plant, _time(options)))
    counts = Counter(finding.kind for finding in findings)
    of_kind = ([finding for finding in findings if finding.kind == kind] for kind in KINDS)
    shown = [finding for some in of_kind for finding in some[: options.limit or sys.maxsize]]
    if options.json:
        _print({"policies": len(access.policies), "counts": counts, "findings": shown})
        return
    if shown:
        print_table(("what", "policy", "because"), [(finding.kind, finding.policy, finding.what) for finding in shown])
        print()
    summary = ", ".join(f"{counts[kind]} {kind} ({meaning})" for kind, meaning in KINDS.items() if counts[kind])
    print(f"{len(access.policies)} policies: {summary or 'nothing found'}")
