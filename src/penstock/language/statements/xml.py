"""Policy statements as XML.

```xml
<PolicyStatement>
  <Rule verb="Forward" message="Publication" matching="After" broker="Ingress, Routing" attach="Never"
        yield_attach="False">
    <Clause>
      <If>AuthenticateReceiver(Controlled)</If>
      <Then><Action name="RemoveAttributes"><Argument>a</Argument><Argument>"b c"</Argument></Action></Then>
    </Clause>
    <OnException><Clause><Then/></Clause></OnException>
  </Rule>
</PolicyStatement>
```

Only `verb` and `message` must be there, and `Then` in each clause. Conditions and arguments are written as in the
language. There are no namespaces.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NoReturn
from xml.etree import ElementTree

from penstock.language import limits
from penstock.language.errors import StatementError
from penstock.language.printer import show
from penstock.language.statements import statement as ast
from penstock.language.statements.parser import check_canonical, parse_argument, parse_condition
from penstock.language.statements.printer import qualifiers, show_argument
from penstock.language.statements.words import not_one_of, one_of, points_of, shown, too_many
from penstock.model.content.xml_reader import XmlError, XmlReader

_MAX_BYTES = 25 * limits.MAX_STATEMENT  # most for actions with one short argument
_INSIDE = {
    "": ("PolicyStatement",),
    "PolicyStatement": ("Rule",),
    "Rule": ("Clause", "OnException"),
    "OnException": ("Clause",),
    "Clause": ("If", "Then"),
    "If": (),
    "Then": ("Action",),
    "Action": ("Argument",),
    "Argument": (),
}
_ATTRIBUTES = {"Rule": ("verb", "message", "matching", "broker", "attach", "yield_attach"), "Action": ("name",)}
_MAX_INSIDE = {
    ("PolicyStatement", "Rule"): ("a policy statement", limits.MAX_RULES, "rules"),
    ("Rule", "Clause"): ("a chain", limits.MAX_CLAUSES, "clauses"),
    ("OnException", "Clause"): ("a chain", limits.MAX_CLAUSES, "clauses"),
    ("Rule", "OnException"): ("a rule", 1, "`OnException`"),
    ("Clause", "If"): ("a clause", 1, "`If`"),
    ("Clause", "Then"): ("a clause", 1, "`Then`"),
    ("Then", "Action"): ("a clause", limits.MAX_ACTIONS, "actions"),
    ("Action", "Argument"): ("an action", limits.MAX_ARGUMENTS, "arguments"),
}
_REQUIRED_INSIDE = {"PolicyStatement": "Rule", "Rule": "Clause", "OnException": "Clause", "Clause": "Then"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BLANK = " \t\r\n"


def to_xml(statement: ast.Statement) -> bytes:
    """Return a statement as an XML document, without defaults."""
    root = ElementTree.Element("PolicyStatement")
    for rule in statement.rules:
        element = ElementTree.SubElement(root, "Rule", {"verb": rule.verb, "message": rule.message, **qualifiers(rule)})
        _add_clauses(element, rule.clauses)
        if rule.on_exception:
            _add_clauses(ElementTree.SubElement(element, "OnException"), rule.on_exception)
    ElementTree.indent(root)
    written: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return written + b"\n"


def _add_clauses(around: ElementTree.Element, clauses: Iterable[ast.StatementClause]) -> None:
    for clause in clauses:
        element = ElementTree.SubElement(around, "Clause")
        if clause.condition is not None:
            ElementTree.SubElement(element, "If").text = show(clause.condition)
        then = ElementTree.SubElement(element, "Then")
        for use in clause.actions:
            action = ElementTree.SubElement(then, "Action", {"name": use.name})
            for argument in use.arguments:
                ElementTree.SubElement(action, "Argument").text = show_argument(argument)


def from_xml(data: bytes) -> ast.Statement:
    """Read a statement from an XML document; raises `StatementError`, which names the line."""
    if len(data) > _MAX_BYTES:
        raise StatementError(f"a policy statement in XML has at most {_MAX_BYTES} bytes, this has {len(data)}")
    statement = ast.Statement(tuple(_rule(element) for element in _read(data).inside))
    check_canonical(statement)
    return statement


@dataclass(slots=True)
class _Element:
    name: str
    line: int
    attributes: dict[str, str] = field(default_factory=dict)
    inside: "list[_Element]" = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts).strip(_BLANK)

    def all(self, name: str) -> "list[_Element]":
        return [element for element in self.inside if element.name == name]

    def fail(self, what: str) -> StatementError:
        return StatementError(what, f"in `{self.name}` in line {self.line}" if self.name else f"in line {self.line}")


def _read(data: bytes) -> _Element:
    builder = _StatementBuilder()
    try:
        builder.read(data)
    except XmlError as error:
        where = f"in line {error.line}" + (f", column {error.column}" if error.column else "")
        raise StatementError(f"not XML: {error.reason}", where) from None
    return builder.root.inside[0]


class _StatementBuilder(XmlReader):
    """A builder of elements that refuses unknown elements where they begin."""

    def __init__(self) -> None:
        super().__init__()
        self.root = _Element("", 1)
        self._open = [self.root]
        self._characters = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        around = self._open[-1]
        element = _Element(name, self.parser.CurrentLineNumber, attributes)
        if name not in _INSIDE[around.name]:
            raise _Element("", element.line).fail(_not_inside(name, around.name))
        for attribute in attributes:
            if attribute not in (known := _ATTRIBUTES.get(name, ())):
                problem = not_one_of(attribute, known) if known else f"it has no attribute {shown(attribute)}"
                raise element.fail(problem)
        around.inside.append(element)
        if (bound := _MAX_INSIDE.get((around.name, name))) and len(around.all(name)) > bound[1]:
            raise element.fail(too_many(*bound))
        self._open.append(element)

    def end(self, _: str) -> None:
        element = self._open.pop()
        if _INSIDE[element.name] and element.text:
            raise element.fail(f"expected elements, found the text {shown(element.text)}")
        if (least := _REQUIRED_INSIDE.get(element.name)) and not element.all(least):
            raise element.fail(f"there is no `{least}` inside")

    def text(self, text: str) -> None:
        element = self._open[-1]
        element.texts.append(text)
        self._characters += 0 if _INSIDE[element.name] else len(text)
        if self._characters > limits.MAX_STATEMENT:
            raise element.fail(f"a policy statement has at most {limits.MAX_STATEMENT} characters")

    def document_type(self, *_: object) -> NoReturn:
        line = self.parser.CurrentLineNumber
        raise StatementError("a document type is not read, as it could define entities", f"in line {line}")


def _not_inside(name: str, around: str) -> str:
    if not _INSIDE[around]:
        return f"expected a text in `{around}`, found the element {shown(name)}"
    return not_one_of(name, _INSIDE[around])


def _rule(element: _Element) -> ast.StatementRule:
    attributes = element.attributes
    for name in ("verb", "message"):
        if name not in attributes:
            raise element.fail(f"there is no attribute `{name}`")
    points: tuple[ast.Point, ...] = ast.ANYWHERE
    if "broker" in attributes:
        points = points_of(re.findall(r"[^\s,]+", attributes["broker"]), element.fail)
    if (yields := attributes.get("yield_attach", "False")) not in ("False", "True"):
        raise element.fail(not_one_of(yields, ("False", "True")))
    if (last := element.all("OnException")) and last[0] is not element.inside[-1]:
        raise last[0].fail("it is the last part of a rule")
    return ast.StatementRule(
        one_of(ast.Verb, attributes["verb"], element.fail),
        one_of(ast.Message, attributes["message"], element.fail),
        _clauses(element),
        one_of(ast.Matching, attributes.get("matching", ast.Matching.AFTER), element.fail),
        points,
        one_of(ast.Attach, attributes.get("attach", ast.Attach.NEVER), element.fail),
        yields == "True",
        _clauses(last[0]) if last else (),
    )


def _clauses(around: _Element) -> tuple[ast.StatementClause, ...]:
    return tuple(_clause(element) for element in around.all("Clause"))


def _clause(element: _Element) -> ast.StatementClause:
    condition = None
    for inside in element.all("If"):
        condition = parse_condition(inside.text, f"`If` in line {inside.line}")
    return ast.StatementClause(condition, tuple(_use(action) for action in element.all("Then")[0].inside))


def _use(element: _Element) -> ast.ElementUse:
    if not (name := element.attributes.get("name")):
        raise element.fail("there is no attribute `name`")
    if not _NAME.fullmatch(name):
        raise element.fail(f"{shown(name)} is not a name")
    arguments = (parse_argument(inside.text, f"`Argument` in line {inside.line}") for inside in element.inside)
    return ast.ElementUse(name, tuple(arguments))
