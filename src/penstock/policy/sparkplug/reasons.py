"""The reasons why a subject may read or write a message, and which metrics are excepted: the policies and their
results.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.model.sparkplug.metric import Record
from penstock.model.sparkplug.topic import REPORTS
from penstock.model.verdict import Effect, Verdict
from penstock.policy.sparkplug.name_patterns import NamePatterns
from penstock.policy.sparkplug.policies import AccessPolicy, Grants, Privilege, is_valid_in, judged
from penstock.policy.sparkplug.views import START, View, ViewRequest, WithheldMetrics, complement, contexts, doubt

MAX_NAMES = 20
"""Metrics that a sentence names."""


class PolicyResult(NamedTuple):
    """The result of one policy on a message."""

    policy: AccessPolicy
    grants: bool
    excludes: bool
    """True if its exceptions count."""
    reason: str
    """The reason why it does not apply, or only in part; empty if it applies."""

    @property
    def exceptions(self) -> NamePatterns:
        """The metrics that it removes from this message."""
        return NamePatterns(self.policy.exceptions if self.excludes else ())


def policy_results(
    policies: Sequence[AccessPolicy], request: ViewRequest, subject: Record, standing: WithheldMetrics = START
) -> tuple[PolicyResult, ...]:
    """Return the result of each candidate policy; raises `ContentError` if the message cannot be read."""
    more = complement(request, standing) if request.topic.type in REPORTS else ()
    grants = Grants(policies)
    values, unsure = contexts(grants, request, more, subject), doubt(grants, request)
    return tuple(_result(policy, values, unsure) for policy in policies)


def _result(policy: AccessPolicy, values: Sequence[Mapping[str, object]], unsure: str) -> PolicyResult:
    grants, excludes, failure = judged(policy, values, unsure)
    text = policy.condition.text if policy.condition is not None else ""
    if failure:
        return PolicyResult(policy, grants, excludes, f"`{text}` fails: {failure}" if text else failure)
    if not excludes:
        is_valid = is_valid_in(policy, values[0])
        reason = f"`{text}` is false" if policy.valid is None or is_valid else f"it is valid {policy.valid.text}"
        return PolicyResult(policy, grants, excludes, reason)
    reason = "" if grants else f"`{text}` is true for some of the values only"
    return PolicyResult(policy, grants, excludes, reason)


def verdict(
    stage: str,
    results: Sequence[PolicyResult],
    view: View | None,
    request: ViewRequest,
    who: str,
    topic: str,
    may: Privilege,
) -> Verdict:
    """Return the verdict of a stage on a message, with the policies and the reason."""
    silent = [f"`{result.policy.id}` does not apply: {result.reason}" for result in results if result.reason]
    if view is None:
        why = "; ".join(silent) or "no policy is about it"
        return Verdict(stage, Effect.SUPPRESS, "access", f"`{who}` may not {may} `{topic}`: {why}")
    rule = ", ".join(dict.fromkeys(result.policy.id for result in results if result.grants))
    parts = [*_removals(results, view, request), *_additions(view), *silent]
    effect = Effect.PASS if view.is_whole else Effect.REPLACE
    return Verdict(stage, effect, rule, "; ".join(parts))


def _removals(results: Sequence[PolicyResult], view: View, request: ViewRequest) -> Iterator[str]:
    """Yield the removed metrics, grouped by reason."""
    by_reason: dict[str, list[str]] = {}
    for metric in view.removed:
        name = request.known.name(metric)
        behind = None if metric.alias is None else request.known.names.get(metric.alias)
        by = excepting(results, [metric_name for metric_name in (name, behind) if metric_name is not None])
        if name is None or not by:
            by_reason.setdefault("no birth has told what its alias stands for", []).append(
                name or f"alias {metric.alias}"
            )
        else:
            by_reason.setdefault(f"excepted by {names(by)}", []).append(name)
    for reason, metrics in by_reason.items():
        yield f"without {names(dict.fromkeys(metrics))} ({reason})"


def excepting(results: Iterable[PolicyResult], metrics: Sequence[str]) -> list[str]:
    """Return the ids of the policies that remove a metric of one of these names."""
    ids = (result.policy.id for result in results if any(name in result.exceptions for name in metrics))
    return list(dict.fromkeys(ids))


def _additions(view: View) -> Iterator[str]:
    if view.added:
        yield f"{names(name for name, _ in view.added)} given back, withheld before"
    if view.renamed:
        yield f"{names(name for _, name in view.renamed)} told by name"


def names(listed: Iterable[str]) -> str:
    """Join the first few names for a sentence."""
    shown = [f"`{name}`" for name in listed]
    more = len(shown) - MAX_NAMES
    return ", ".join(shown if more <= 0 else [*shown[:MAX_NAMES], f"{more} more"])
