"""Why a subject may read or write a message, and what of it not: which policies spoke, and what each said."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.model.sparkplug.metric import Record
from penstock.model.sparkplug.topic import REPORTS
from penstock.model.verdict import Effect, Verdict
from penstock.policy.sparkplug.name_patterns import Names
from penstock.policy.sparkplug.policies import AccessPolicy, Grants, Privilege, judged
from penstock.policy.sparkplug.views import START, Request, Standing, View, complement, contexts, doubt

MOST_NAMES = 20
"""Metrics that a sentence names."""


class Word(NamedTuple):
    """What one policy that is about a message has to say on it."""

    policy: AccessPolicy
    grants: bool
    excludes: bool
    """Whether its exceptions count."""
    reason: str
    """Why it does not apply, or why it does so only in part; empty if it applies."""

    @property
    def exceptions(self) -> Names:
        """What it takes out of this message."""
        return Names(self.policy.exceptions if self.excludes else ())


def words(
    policies: Sequence[AccessPolicy], request: Request, subject: Record, standing: Standing = START
) -> tuple[Word, ...]:
    """What each of the candidate policies says; raises `ContentError` if the message cannot be read."""
    more = complement(request, standing) if request.topic.type in REPORTS else ()
    grants = Grants(policies)
    asked, unsure = contexts(grants, request, more, subject), doubt(grants, request)
    return tuple(_word(policy, asked, unsure) for policy in policies)


def _word(policy: AccessPolicy, asked: Sequence[Mapping[str, object]], unsure: str) -> Word:
    condition = policy.condition
    if condition is None:
        return Word(policy, True, True, "")
    grants, excludes, failure = judged(condition, asked, unsure)
    if failure:
        return Word(policy, grants, excludes, f"`{condition.text}` fails: {failure}")
    if not excludes:
        return Word(policy, grants, excludes, f"`{condition.text}` is false")
    return Word(policy, grants, excludes, "" if grants else f"`{condition.text}` is true for some of the values only")


def verdict(
    stage: str, said: Sequence[Word], view: View | None, request: Request, who: str, topic: str, may: Privilege
) -> Verdict:
    """What a stage does to a message, by which policies, and why."""
    silent = [f"`{word.policy.id}` does not apply: {word.reason}" for word in said if word.reason]
    if view is None:
        why = "; ".join(silent) or "no policy is about it"
        return Verdict(stage, Effect.SUPPRESS, "access", f"`{who}` may not {may} `{topic}`: {why}")
    rule = ", ".join(dict.fromkeys(word.policy.id for word in said if word.grants))
    told = [*_without(said, view, request), *_with(view), *silent]
    effect = Effect.PASS if view.is_whole else Effect.REPLACE
    return Verdict(stage, effect, rule, "; ".join(told))


def _without(said: Sequence[Word], view: View, request: Request) -> Iterator[str]:
    """What is taken out, by the reasons for it."""
    found: dict[str, list[str]] = {}
    for metric in view.removed:
        name = request.known.name(metric)
        behind = None if metric.alias is None else request.known.names.get(metric.alias)
        by = excepting(said, [one for one in (name, behind) if one is not None])
        if name is None or not by:
            found.setdefault("no birth has told what its alias stands for", []).append(name or f"alias {metric.alias}")
        else:
            found.setdefault(f"excepted by {names(by)}", []).append(name)
    for reason, several in found.items():
        yield f"without {names(dict.fromkeys(several))} ({reason})"


def excepting(said: Iterable[Word], metrics: Sequence[str]) -> list[str]:
    """The ids of the policies that take out a metric of one of these names."""
    found = (word for word in said if word.excludes)
    return list(dict.fromkeys(one.policy.id for one in found if any(name in one.exceptions for name in metrics)))


def _with(view: View) -> Iterator[str]:
    if view.added:
        yield f"{names(name for name, _ in view.added)} given back, withheld before"
    if view.renamed:
        yield f"{names(name for _, name in view.renamed)} told by name"


def names(several: Iterable[str]) -> str:
    """Names as a sentence has them: not more than a few."""
    shown = [f"`{name}`" for name in several]
    more = len(shown) - MOST_NAMES
    return ", ".join(shown if more <= 0 else [*shown[:MOST_NAMES], f"{more} more"])
