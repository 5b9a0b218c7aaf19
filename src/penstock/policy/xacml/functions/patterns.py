"""Regular expressions of XPath 2.0 (fn:matches), by RE2.

What RE2 has not (back references, subtraction of classes) is refused; what it reads otherwise is rewritten: classes of
characters are Unicode's, and blocks are written out.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from penstock.language.errors import EvaluationError
from penstock.language.evaluators.patterns import match_cost, matcher
from penstock.language.limits import MAX_MATCHED, MAX_WORK
from penstock.policy.xacml.functions.unicode_blocks import block_class
from penstock.policy.xacml.status import Indeterminate, unprocessable
from penstock.policy.xacml.tree import Apply, Expression, FunctionName, LiteralValue, Root, XacmlPolicy, inside

_WORD = r"\p{L}\p{M}\p{N}\p{S}"
_OTHER = r"\p{P}\p{Z}\p{C}"
_NAME_START = r"\p{L}_:"
_NAME = r"\p{L}\p{M}\p{Nd}_:.\-·"
_CLASSES = {
    "d": r"\p{Nd}", "w": _WORD, "W": _OTHER, "s": r" \t\n\r", "i": _NAME_START, "c": _NAME,
}  # fmt: skip
_BLOCK = re.compile(r"\\(?P<letter>[pP])\{Is(?P<name>[A-Za-z0-9-]*)\}")
_COMPLEMENTS = {"D": r"\p{Nd}", "S": r" \t\n\r", "I": _NAME_START, "C": _NAME}


@lru_cache(maxsize=1024)
def translated(pattern: str) -> str:
    """Translate a pattern for RE2; raises ValueError if that is impossible."""
    parts: list[str] = []
    depth = at = 0
    while at < len(pattern):
        character, after = pattern[at], pattern[at + 1 : at + 2]
        if block := _BLOCK.match(pattern, at):
            ranges = block_class(block["name"], block["letter"] == "P")
            parts.append(ranges if depth else f"[{ranges}]")
            at = block.end()
            continue
        if character == "\\" and after:
            parts.append(_escape(after, depth > 0))
            at += 2
            continue
        if character == "[":
            if depth:
                raise ValueError("classes inside classes are not known here")
            depth = 1
        elif character == "]":
            depth = 0
        elif character == "(" and after == "?":
            raise ValueError("there is nothing to repeat before `?`")
        parts.append(character)
        at += 1
    return "".join(parts)


def _escape(letter: str, is_in_class: bool) -> str:
    if letter in _CLASSES:
        return _CLASSES[letter] if is_in_class else f"[{_CLASSES[letter]}]"
    if letter in _COMPLEMENTS:
        if is_in_class:
            raise ValueError(f"`\\{letter}` in a class is not known here")
        return f"[^{_COMPLEMENTS[letter]}]"
    if letter in "bBAzZQEaC":
        raise ValueError(f"`\\{letter}` is not in regular expressions of XML Schema")
    return f"\\{letter}"


def pattern_cost(pattern: str, text: str) -> int:
    """Return the steps of a match, as decisions count them; none if it will fail."""
    try:
        return match_cost(text, translated(pattern)) // _STEP
    except (ValueError, EvaluationError):
        return 0


_STEP = 50
"""Instructions of RE2 that take as long as a step of a decision."""


def matches_pattern(pattern: str, text: str) -> bool:
    """Return whether the pattern is found anywhere in the text; raises `Indeterminate`."""
    try:
        expression = translated(pattern)
        if len(text) > MAX_MATCHED or match_cost(text, expression) > MAX_WORK:
            raise unprocessable("a regular expression that would take too long on this text")
        return matcher(expression)(text)
    except (ValueError, EvaluationError) as error:
        raise unprocessable(f"`{pattern[:100]}` is not a regular expression: {error}") from None


def wrong_patterns(root: Root) -> Iterator[str]:
    """Yield invalid patterns in a policy, or in those inside it: their decision would be Indeterminate."""
    for policy in inside(root):
        targets, expressions = [policy.target], list[Expression]()
        if isinstance(policy, XacmlPolicy):
            targets += [rule.target for rule in policy.rules]
            expressions += [rule.condition for rule in policy.rules if rule.condition is not None]
            expressions += [expression for _, expression in policy.variables]
        patterns = [
            (match.function, match.literal)
            for target in targets
            for parts in target
            for all_of in parts
            for match in all_of
        ]
        patterns += [pair for expression in expressions for pair in _applied(expression)]
        for function, literal in patterns:
            try:
                if "regexp" in function:
                    matches_pattern(str(literal.value), "")
            except Indeterminate as error:
                yield f"policy `{policy.id}`: {error}"


def _applied(expression: Expression) -> Iterator[tuple[str, LiteralValue]]:
    """Yield functions with their literal first argument; also functions that other functions apply."""
    if not isinstance(expression, Apply):
        return
    names = [
        expression.function,
        *(argument.id for argument in expression.arguments if isinstance(argument, FunctionName)),
    ]
    literals = [argument for argument in expression.arguments if isinstance(argument, LiteralValue)]
    yield from ((name, literals[0]) for name in names if literals)
    for argument in expression.arguments:
        yield from _applied(argument)
