"""The words of a condition: names, literals and marks, each with its place."""

import re
from dataclasses import dataclass

from penstock.language.errors import ConditionError
from penstock.language.values import MAX_INT, MAX_UINT

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
class LexerToken:
    """One word: `kind` is `name`, `quoted name`, `mark`, `end` or the type of a literal."""

    kind: str
    text: str
    at: int
    value: int | float | str | bytes | None = None


def tokens(text: str) -> list[LexerToken]:
    """Return the words of a text, an `end` at the end; raises `ConditionError`."""
    words: list[LexerToken] = []
    at = skip_space(text, 0)
    while at < len(text):
        token, at = token_at(text, at)
        words.append(token)
        at = skip_space(text, at)
    words.append(LexerToken("end", "", len(text)))
    return words


def has_comment(text: str) -> bool:
    """Return whether there is a comment in a text, which has no mistake."""
    at = 0
    while True:
        start, at = at, skip_space(text, at)
        if "//" in text[start:at]:
            return True
        if at == len(text):
            return False
        _, at = token_at(text, at)


def skip_space(text: str, at: int) -> int:
    """Return the position after the blanks and comments that begin here."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def token_at(text: str, at: int, over_lines: bool = False) -> tuple[LexerToken, int]:
    """Return the word that begins here, and its end; with `over_lines` any string may span several lines."""
    if match := _QUOTE.match(text, at):
        return _quoted(text, at, (match[1] or "").lower(), match[2], match.end(), over_lines)
    if match := _NAME.match(text, at):
        return LexerToken("name", match[0], at), match.end()
    if match := _DOUBLE.match(text, at):
        return _double(text, match), _end_of_number(text, match)
    if match := _INT.match(text, at):
        return _int(text, match), _end_of_number(text, match)
    if match := _QUOTED_NAME.match(text, at):
        return LexerToken("quoted name", match[0], at, match[1]), match.end()
    if match := _MARK.match(text, at):
        return LexerToken("mark", match[0], at), match.end()
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


def _double(text: str, match: re.Match[str]) -> LexerToken:
    value = float(match[0])
    if value == float("inf"):
        raise ConditionError(f"`{match[0]}` is too large for a double", text, match.start())
    return LexerToken("double", match[0], match.start(), value)


def _int(text: str, match: re.Match[str]) -> LexerToken:
    digits, unsigned = match[0].rstrip("uU"), match[0][-1] in "uU"
    # The least int is written as `-` before a number that is one too large for an int.
    maximum = MAX_UINT if unsigned else MAX_INT + 1
    value = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits) if len(digits) < 40 else maximum + 1
    kind = "uint" if unsigned else "int"
    if value > maximum:
        raise ConditionError(f"`{match[0]}` is too large for {'a uint' if unsigned else 'an int'}", text, match.start())
    return LexerToken(kind, match[0], match.start(), value)


def _end_of_number(text: str, match: re.Match[str]) -> int:
    if following := _NAME.match(text, match.end()):
        raise ConditionError(f"`{match[0]}{following[0]}` is not a number", text, match.start())
    return match.end()


def _quoted(text: str, at: int, prefix: str, quote: str, start: int, over_lines: bool) -> tuple[LexerToken, int]:
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
    return LexerToken("bytes" if is_bytes else "string", text[at:after], at, value), after


def _closing(text: str, at: int, quote: str, start: int, raw: bool, over_lines: bool) -> int:
    """Return the position of the closing quotation mark."""
    end = start
    while not text.startswith(quote, end):
        if end >= len(text):
            raise ConditionError("this string does not end", text, at)
        if not over_lines and text[end] in "\r\n":
            raise ConditionError("this string does not end on its line; write `\\n` for a new line", text, at)
        end += 2 if text[end] == "\\" and not raw else 1
    return end


def _pieces(text: str, start: int, body: str) -> list[str | re.Match[str]]:
    """Return a string's text as plain runs and escape sequences."""
    pieces: list[str | re.Match[str]] = []
    start_of_piece = 0
    while (slash := body.find("\\", start_of_piece)) >= 0:
        pieces.append(body[start_of_piece:slash])
        match = _ESCAPE.match(body, slash)
        if match is None:
            what = f"`{body[slash : slash + 2]}` does not begin an escape sequence that is complete"
            raise ConditionError(what, text, start + slash)
        pieces.append(match)
        start_of_piece = match.end()
    pieces.append(body[start_of_piece:])
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
