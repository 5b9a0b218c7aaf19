"""The contracts of one subject: first whether each want is met, then how far by each rule and why."""

import re
from collections.abc import Iterator, Sequence

from penstock.broker.http.answers.subjects import ContractFit
from penstock.console.tables import Cell, Prose, table

_ORDER = ("fits", "depends", "fails", "unrelated")
_ANSWERS = {"fits": "met", "depends": "depends", "fails": "not met", "unrelated": "not met"}
_LOOKS = {"met": "pk-gain", "not met": "pk-loss", "depends": "pk-limit"}
_REPEATED = re.compile(r"(?<![\w./-])([\w.-]+)/\1(?:/\1)?(?![\w./-])")
_LONG = re.compile(r"(?<![\w.])\d+\.\d{4,}(?![\w.])")


def show(fits: Sequence[ContractFit]) -> None:
    """Two tables."""
    answers = sorted(_answers(fits), key=lambda row: row[0].text != "not met")
    table("Contracts, and whether they are met", ("answer", "want", "of", "topics", "by"), answers)
    heads = ("comes to", "contract", "for", "want", "rule", "why")
    every = sorted(fits, key=lambda one: _ORDER.index(one.comes_to))
    table("By each rule, and why", heads, map(_detail, every))


def shortened(reason: str) -> str:
    """As people say it: `quality >= 50` for `quality/quality/quality >= 50`, and no more digits than help."""
    return _LONG.sub(lambda found: f"{float(found[0]):.2f}", _REPEATED.sub(r"\1", reason))


def _answers(fits: Sequence[ContractFit]) -> Iterator[tuple[Cell, str, str, Cell, Prose]]:
    """One for each want of a client: by the rule that is best for it, at any time if there is one such."""
    wants: dict[tuple[str, str, str], list[ContractFit]] = {}
    for one in fits:
        wants.setdefault((one.consumer, one.client, one.want), []).append(one)
    for (_, _, want), some in wants.items():
        best = min(some, key=lambda one: (_ORDER.index(one.comes_to), bool(one.when)))
        answer = _ANSWERS[best.comes_to]
        topics = ", ".join(dict.fromkeys(topic for one in some for topic in one.topics))
        yield (
            Cell(answer, _LOOKS[answer]),
            want,
            _consumer(best),
            Cell(topics, "pk-mono"),
            Prose(_by(answer, best, some)),
        )


def _by(answer: str, best: ContractFit, some: Sequence[ContractFit]) -> str:
    if answer == "not met":
        tried = sum(bool(one.rule) for one in some)
        return f"none of {tried} rules lets it through" if tried > 1 else "; ".join(map(shortened, best.why))
    rule = f"rule {best.rule} of {best.producer}" if best.rule else f"{best.producer}, which asks for nothing"
    when = f", {best.when}" if best.when else ""
    return f"{rule}{when}" + (": each event is judged by itself" if answer == "depends" else "")


def _detail(one: ContractFit) -> tuple[object, ...]:
    look = {"fits": "pk-gain", "fails": "pk-loss", "depends": "pk-limit"}.get(one.comes_to, "pk-about")
    rule = " ".join(filter(None, (one.rule, f"({one.when})" if one.when else "")))
    why = "; ".join(map(shortened, one.why))
    return Cell(one.comes_to, look), one.producer, _consumer(one), one.want, rule, Prose(why, "pk-why")


def _consumer(one: ContractFit) -> str:
    return one.consumer if one.consumer == one.client else f"{one.consumer} ({one.client})"
