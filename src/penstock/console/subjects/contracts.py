"""The contracts of one subject: first whether each want is met, then how far by each rule and why."""

import re
from collections.abc import Iterator, Sequence

from penstock.broker.http.answers.subjects import ContractFit
from penstock.console.tables import Prose, TableCell, table

_ORDER = ("fits", "depends", "fails", "unrelated")
_ANSWERS = {"fits": "met", "depends": "depends", "fails": "not met", "unrelated": "not met"}
_LOOKS = {"met": "pk-gain", "not met": "pk-loss", "depends": "pk-limit"}
_REPEATED = re.compile(r"(?<![\w./-])([\w.-]+)/\1(?:/\1)?(?![\w./-])")
_LONG = re.compile(r"(?<![\w.])\d+\.\d{4,}(?![\w.])")


def show(fits: Sequence[ContractFit]) -> None:
    """Show two tables."""
    answers = sorted(_answers(fits), key=lambda row: row[0].text != "not met")
    table("Contracts, and whether they are met", ("answer", "want", "of", "topics", "by"), answers)
    heads = ("comes to", "contract", "for", "want", "rule", "why")
    ordered = sorted(fits, key=lambda fit: _ORDER.index(fit.comes_to))
    table("By each rule, and why", heads, map(_detail, ordered))


def shortened(reason: str) -> str:
    """Shorten a reason: `quality >= 50` for `quality/quality/quality >= 50`, and fewer digits."""
    return _LONG.sub(lambda match: f"{float(match[0]):.2f}", _REPEATED.sub(r"\1", reason))


def _answers(fits: Sequence[ContractFit]) -> Iterator[tuple[TableCell, str, str, TableCell, Prose]]:
    """Yield one answer for each want of a client: by the best rule, preferably one that always counts."""
    wants: dict[tuple[str, str, str], list[ContractFit]] = {}
    for fit in fits:
        wants.setdefault((fit.consumer, fit.client, fit.want), []).append(fit)
    for (_, _, want), some in wants.items():
        best = min(some, key=lambda fit: (_ORDER.index(fit.comes_to), bool(fit.when)))
        answer = _ANSWERS[best.comes_to]
        topics = TableCell(", ".join(dict.fromkeys(topic for fit in some for topic in fit.topics)), "pk-mono")
        yield TableCell(answer, _LOOKS[answer]), want, _consumer(best), topics, Prose(_by(answer, best, some))


def _by(answer: str, best: ContractFit, some: Sequence[ContractFit]) -> str:
    if answer == "not met":
        tried = sum(bool(fit.rule) for fit in some)
        return f"none of {tried} rules allows it" if tried > 1 else "; ".join(map(shortened, best.why))
    rule = f"rule {best.rule} of {best.producer}" if best.rule else f"{best.producer}, which asks for nothing"
    when = f", {best.when}" if best.when else ""
    return f"{rule}{when}" + (": each event is judged by itself" if answer == "depends" else "")


def _detail(fit: ContractFit) -> tuple[object, ...]:
    look = {"fits": "pk-gain", "fails": "pk-loss", "depends": "pk-limit"}.get(fit.comes_to, "pk-about")
    rule = " ".join(filter(None, (fit.rule, f"({fit.when})" if fit.when else "")))
    why = "; ".join(map(shortened, fit.why))
    return TableCell(fit.comes_to, look), fit.producer, _consumer(fit), fit.want, rule, Prose(why, "pk-why")


def _consumer(fit: ContractFit) -> str:
    return fit.consumer if fit.consumer == fit.client else f"{fit.consumer} ({fit.client})"
