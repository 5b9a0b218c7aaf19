"""Regular expressions that Java's find in the same strings as RE2, and in a time that grows with the string only.

Java backtracks. So there are no repeated groups, and what repeats without a bound stands at the end, or alone in a
pattern that begins with `^`. Everything else is a gap.
"""

import re
from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

_MAX_CHOICES = 64

_TOKEN = re.compile(
    r"""(?P<atom>\\[dDwWsS]|\.|\[\^?-?(?:\\[^A-Za-z0-9]|\\[dws]|[^\\\[\]&^-]-[^\\\[\]&^-]|[^\\\[\]&^-])+-?\]
          |\\[^A-Za-z0-9]|[^\\.\[\](){}*+?|^$])
        (?P<repeat>(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??)?
      |(?P<open>\((?:\?:)?(?!\?))|(?P<other>[)|^$])""",
    re.VERBOSE | re.DOTALL,
)
_IN_CLASS = re.compile(r"\\[^A-Za-z0-9]|\\[dws]|.", re.DOTALL)
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\f\r "}
_OTHERS = {")": ")", "|": "|", "^": r"\A", "$": r"\z"}


def native_pattern(pattern: str) -> Callable[[Column], Column] | None:
    """Return the test whether a pattern, which RE2 takes, is found in a string; None if that is a gap."""
    tokens = _tokens(pattern)
    if tokens is None or not _is_linear(tokens):
        return None
    start = bool(tokens) and tokens[0]["other"] == "^"
    end = len(tokens) > start and tokens[-1]["other"] == "$"
    middle = tokens[start : len(tokens) - end]
    if all(_is_plain(token) for token in middle):
        return _literal("".join(token["atom"][-1] for token in middle), start, end)
    java = "".join(map(_java, tokens))
    return lambda text: text.rlike(java)


def _tokens(pattern: str) -> list[re.Match[str]] | None:
    tokens: list[re.Match[str]] = []
    at = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return None
        tokens.append(token)
        at = token.end()
    return tokens


def _is_linear(tokens: list[re.Match[str]]) -> bool:
    endless = [place for place, token in enumerate(tokens) if _is_endless(token)]
    choices, top_level = _choices(tokens)
    alone = len(endless) == 1 and tokens[0]["other"] == "^" and top_level == 1
    last = endless == [len(tokens) - 1]
    return choices <= _MAX_CHOICES and (not endless or alone or last)


def _choices(tokens: list[re.Match[str]]) -> tuple[int, int]:
    """Return in how many ways repetitions and alternatives can be combined, and how many alternatives there are."""
    choices, alternatives = 1, [1]
    for token in tokens:
        if token["open"]:
            alternatives.append(1)
        elif token["other"] == "|":
            alternatives[-1] += 1
        elif token["other"] == ")":
            choices *= alternatives.pop()
        elif token["repeat"] in ("?", "??"):
            choices *= 2
        elif bounds := re.match(r"\{([0-9]+),([0-9]+)\}", token["repeat"] or ""):
            choices *= int(bounds[2]) - int(bounds[1]) + 1
    return choices * alternatives[0], alternatives[0]


def _is_endless(token: re.Match[str]) -> bool:
    return bool(re.match(r"[*+]|\{[0-9]+,\}", token["repeat"] or ""))


def _is_plain(token: re.Match[str]) -> bool:
    """Return a character that stands for itself."""
    atom = token["atom"]
    return bool(atom) and not token["repeat"] and atom != "." and atom[0] != "[" and not re.fullmatch(r"\\\w", atom)


def _literal(text: str, start: bool, end: bool) -> Callable[[Column], Column]:
    other = F.lit(text)
    if start and end:
        return lambda column: column == other
    test = F.startswith if start else F.endswith if end else F.contains
    return lambda column: test(column, other)


def _java(token: re.Match[str]) -> str:
    """Return a token as Java reads it with RE2's meaning."""
    if token["open"]:
        return "(?:"
    if token["other"]:
        return _OTHERS[token["other"]]
    return _java_atom(token["atom"]) + (token["repeat"] or "")


def _java_atom(atom: str) -> str:
    if atom == ".":
        return r"[^\n]"
    if atom[0] == "[":
        negated = atom.startswith("[^")
        inside = atom[2:-1] if negated else atom[1:-1]
        return f"[{'^' if negated else ''}{''.join(map(_java_in_class, _IN_CLASS.findall(inside)))}]"
    if atom[0] == "\\" and atom[1] in "dDwWsS":
        return f"[{'^' if atom[1].isupper() else ''}{_CLASSES[atom[1].lower()]}]"
    return _character(atom[-1])


def _java_in_class(item: str) -> str:
    if item[0] == "\\" and item[1] in "dws":
        return _CLASSES[item[1]]
    return item if item == "-" else _character(item[-1])


def _character(character: str) -> str:
    return character if re.fullmatch("[A-Za-z0-9]", character) else rf"\x{{{ord(character):x}}}"
