"""The words of a condition: names, literals and marks, each with its place."""

import re
from dataclasses import dataclass

from penstock.language.errors import ConditionError
from penstock.language.values import MOST_INT, MOST_UINT

_SPACE = re.compile(r"(?:[ \t\n\f\r]+|//[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED_NAME = re.compile(r"`([^`\r\n]+)`")
_DOUBLE = re.compile(r"[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+")
_INT = re.compile(r"(?:0[xX][0-9A-Fa-f]+|[0-9]+)[uU]?")
_QUOTE = re.compile(r"([rR]|[bB][rR]?)?(\"\"\"|'''|\"|')")
_MARK = re.compile(r"&&|\|\||[<>=!]=|[<>!?:()\[\]{},.+\-*/%]")
_ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([0-3][0-7]{2}))"
)
_PLAIN_ESCAPES = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))


@dataclass(frozen=True, slots=True)
class Token:
    """One word: `kind` is `name`, `quoted name`, `mark`, `end` or the type of a literal."""

    kind: str
    text: str
    at: int
    value: int | float | str | bytes | None = None


def tokens(text: str) -> list[Token]:
    """The words of a text, an `end` at the end; raises `ConditionError`."""
    found: list[Token] = []
    at = skip_space(text, 0)
    while at < len(text):
        token, at = token_at(text, at)
        found.append(token)
        at = skip_space(text, at)
    found.append(Token("end", "", len(text)))
    return found


def has_comment(text: str) -> bool:
    """Whether there is a comment in a text, which has no mistake."""
    at = 0
    while True:
        start, at = at, skip_space(text, at)
        if "//" in text[start:at]:
            return True
        if at == len(text):
            return False
        _, at = token_at(text, at)


def skip_space(text: str, at: int) -> int:
    """Where blanks and comments end that begin here."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def token_at(text: str, at: int, over_lines: bool = False) -> tuple[Token, int]:
    """The word that begins here, and where it ends; `over_lines`: in it, any string may be on several lines."""
    if match := _QUOTE.match(text, at):
        return _quoted(text, at, (match[1] or "").lower(), match[2], match.end(), over_lines)
    if match := _NAME.match(text, at):
        return Token("name", match[0], at), match.end()
    if match := _DOUBLE.match(text, at):
        return _double(text, match), _end_of_number(text, match)
    if match := _INT.match(text, at):
        return _int(text, match), _end_of_number(text, match)
    if match := _QUOTED_NAME.match(text, at):
        return Token("quoted name", match[0], at, match[1]), match.end()
    if match := _MARK.match(text, at):
        return Token("mark", match[0], at), match.end()
    raise ConditionError(_not_a_word(text[at]), text, at)


def _not_a_word(character: str) -> str:
    match character:
        case "&" | "|":
            return f"`{character}` is not an operator; write `{character * 2}`"
        case "=":
            return "`=` is not an operator; write `==` to compare"
        case "`":
            return "this name in backticks does not end, or is empty"
        case _:
            return f"`{character}` has no meaning here"


def _double(text: str, match: re.Match[str]) -> Token:
    value = float(match[0])
    if value == float("inf"):
        raise ConditionError(f"`{match[0]}` is too large for a double", text, match.start())
    return Token("double", match[0], match.start(), value)


def _int(text: str, match: re.Match[str]) -> Token:
    digits, unsigned = match[0].rstrip("uU"), match[0][-1] in "uU"
    # The least int is written as `-` before a number that is one too large for an int.
    most = MOST_UINT if unsigned else MOST_INT + 1
    value = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits) if len(digits) < 40 else most + 1
    kind = "uint" if unsigned else "int"
    if value > most:
        raise ConditionError(f"`{match[0]}` is too large for {'a uint' if unsigned else 'an int'}", text, match.start())
    return Token(kind, match[0], match.start(), value)


def _end_of_number(text: str, match: re.Match[str]) -> int:
    if following := _NAME.match(text, match.end()):
        raise ConditionError(f"`{match[0]}{following[0]}` is not a number", text, match.start())
    return match.end()


def _quoted(text: str, at: int, prefix: str, quote: str, start: int, over_lines: bool) -> tuple[Token, int]:
    end = _closing(text, at, quote, start, raw="r" in prefix, over_lines=over_lines or len(quote) > 1)
    body, after = text[start:end], end + len(quote)
    is_bytes = prefix.startswith("b")
    value: str | bytes
    if "r" in prefix:
        value = body.encode() if is_bytes else body
    elif is_bytes:
        value = b"".join(_bytes_piece(text, start, piece) for piece in _pieces(text, start, body))
    else:
        value = "".join(_string_piece(text, start, piece) for piece in _pieces(text, start, body))
    return Token("bytes" if is_bytes else "string", text[at:after], at, value), after


def _closing(text: str, at: int, quote: str, start: int, raw: bool, over_lines: bool) -> int:
    """Where the closing quotation mark is."""
    here = start
    while not text.startswith(quote, here):
        if here >= len(text):
            raise ConditionError("this string does not end", text, at)
        if not over_lines and text[here] in "\r\n":
            raise ConditionError("this string does not end on its line; write `\\n` for a new line", text, at)
        here += 2 if text[here] == "\\" and not raw else 1
    return here


def _pieces(text: str, start: int, body: str) -> list[str | re.Match[str]]:
    """A string's text as plain runs and escape sequences."""
    pieces: list[str | re.Match[str]] = []
    here = 0
    while (slash := body.find("\\", here)) >= 0:
        pieces.append(body[here:slash])
        match = _ESCAPE.match(body, slash)
        if match is None:
            what = f"`{body[slash : slash + 2]}` does not begin an escape sequence that is complete"
            raise ConditionError(what, text, start + slash)
        pieces.append(match)
        here = match.end()
    pieces.append(body[here:])
    return pieces


def _string_piece(text: str, start: int, piece: str | re.Match[str]) -> str:
    if isinstance(piece, str):
        return piece
    plain, hexadecimal, short, long, octal = piece.groups()
    if plain:
        return _PLAIN_ESCAPES.get(plain, plain)
    code = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ConditionError(f"`{piece[0]}` is not a Unicode character", text, start + piece.start())
    return chr(code)


def _bytes_piece(text: str, start: int, piece: str | re.Match[str]) -> bytes:
    if isinstance(piece, str):
        return piece.encode()
    plain, hexadecimal, _, _, octal = piece.groups()
    if plain:
        return _PLAIN_ESCAPES.get(plain, plain).encode()
    if not (hexadecimal or octal):
        raise ConditionError(f"`{piece[0]}` is for strings; bytes take `\\x` and octal", text, start + piece.start())
    return bytes([int(octal, 8) if octal else int(hexadecimal, 16)])
