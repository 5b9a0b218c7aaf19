"""The printer of conditions: the canonical form, which `penstock fmt` writes. `parse(show(tree)) == tree`."""

import re

from penstock.language import tree as ast
from penstock.language.parser import KEYWORDS, LITERAL_WORDS, RESERVED
from penstock.language.values import TYPE_NAMES

_EXPRESSION, _OR, _AND, _RELATION, _SUM, _PRODUCT, _UNARY, _MEMBER = range(8)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def show(tree: ast.Tree) -> str:
    """Return the condition in canonical form."""
    return _show(tree, _EXPRESSION, frozenset())


def show_string(text: str) -> str:
    """Return a string literal."""
    quote = '"' if "'" in text and '"' not in text else "'"
    return quote + "".join(show_character(character, quote) for character in text) + quote


def _show(tree: ast.Tree, level: int, variables: frozenset[str]) -> str:
    """Return the text of an expression at a place for this level or tighter, inside macros with these variables."""
    text, own = _text(tree, variables)
    return text if own >= level else f"({text})"


def _text(tree: ast.Tree, variables: frozenset[str]) -> tuple[str, int]:
    def show(inner: ast.Tree, level: int = _EXPRESSION) -> str:
        return _show(inner, level, variables)

    def listed(items: tuple[ast.Tree, ...]) -> str:
        return ", ".join(map(show, items))

    match tree:
        case ast.Literal():
            return _literal(tree), _MEMBER
        case ast.TypeLiteral(name) | ast.Variable(name):
            return name, _MEMBER
        case ast.Attribute(name):
            return _attribute(name, variables), _MEMBER
        case ast.Select(operand, name):
            return f"{show(operand, _MEMBER)}.{_field(name)}", _MEMBER
        case ast.Has(None, name):
            return f"has({_attribute(name, variables)})", _MEMBER
        case ast.Has(operand, name) if operand is not None:
            return f"has({show(operand, _MEMBER)}.{_field(name)})", _MEMBER
        case ast.IndexAccess(operand, index):
            return f"{show(operand, _MEMBER)}[{show(index)}]", _MEMBER
        case ast.Call(function, receiver, arguments):
            before = "" if receiver is None else show(receiver, _MEMBER) + "."
            return f"{before}{function}({listed(arguments)})", _MEMBER
        case ast.XPath(expression):
            return f"xpath({show_string(expression)})", _MEMBER
        case ast.Unary(operator, operand):
            return operator + _operand_of(operator, operand, variables), _UNARY
        case ast.Binary(operator, left, right):
            level = _SUM if operator in ast.ADDITIVE else _PRODUCT if operator in ast.MULTIPLICATIVE else _RELATION
            return f"{show(left, level)} {operator} {show(right, level + 1)}", level
        case ast.And(operands):
            return " && ".join(show(operand, _RELATION) for operand in operands), _AND
        case ast.Or(operands):
            return " || ".join(show(operand, _AND) for operand in operands), _OR
        case ast.Conditional(condition, yes, no):
            return f"{show(condition, _OR)} ? {show(yes, _OR)} : {show(no)}", _EXPRESSION
        case ast.ListOf(items):
            return f"[{listed(items)}]", _MEMBER
        case ast.MapOf(entries):
            return "{" + ", ".join(f"{show(key)}: {show(value)}" for key, value in entries) + "}", _MEMBER
        case ast.Macro(name, range_, variable, body, guard):
            inside = variables | {variable}
            parts = [variable, *(_show(part, _EXPRESSION, inside) for part in (guard, body) if part is not None)]
            return f"{show(range_, _MEMBER)}.{name}({', '.join(parts)})", _MEMBER
        case _:
            raise TypeError(f"not a tree: {tree!r}")


def _operand_of(operator: str, operand: ast.Tree, variables: frozenset[str]) -> str:
    """Return an operand of `!` or `-`: CEL takes one kind of sign before a value, and `-1` is one literal."""
    if isinstance(operand, ast.Unary) and operand.operator == operator:
        return _show(operand, _UNARY, variables)
    text = _show(operand, _MEMBER, variables)
    is_number = isinstance(operand, ast.Literal) and operand.kind in ("int", "double")
    return f"({text})" if is_number and (operator == "-") is not text.startswith("-") else text


def _literal(literal: ast.Literal) -> str:
    match literal.value:
        case bool() | None:
            return next(word for word, (_, value) in LITERAL_WORDS.items() if value is literal.value)
        case str(text):
            return show_string(text)
        case bytes(octets):
            return "b'" + "".join(map(_shown_octet, octets)) + "'"
        case number:
            return repr(number) + ("u" if literal.kind == "uint" else "")


def _attribute(name: str, variables: frozenset[str]) -> str:
    shown = _field(name) if name not in KEYWORDS | RESERVED else f"`{name}`"
    return f".{shown}" if name in variables or name in TYPE_NAMES else shown


def _field(name: str) -> str:
    return name if _NAME.fullmatch(name) and name not in KEYWORDS else f"`{name}`"


def show_character(character: str, quote: str) -> str:
    """Return a character of a string that stands in these quotation marks."""
    if character == quote:
        return "\\" + quote
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _shown_octet(octet: int) -> str:
    character = chr(octet)
    if character in "'\\":
        return "\\" + character
    return character if 0x20 <= octet < 0x7F else f"\\x{octet:02x}"
