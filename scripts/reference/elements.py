"""The rule elements of policy statements."""

from penstock.language.statements.statement import Message
from penstock.policy.statements.elements.attributes import ATTRIBUTES
from penstock.policy.statements.elements.conditions import CONDITIONS
from penstock.policy.statements.elements.effects import EFFECTS
from penstock.policy.statements.elements.element import ANY_MESSAGE, Element
from penstock.policy.statements.elements.tracing import TRACING
from scripts.reference.markdown import code, heading, plain, table

_GROUPS = {"Conditions": CONDITIONS, "Attributes": ATTRIBUTES, "Tracing": TRACING, "Effects": EFFECTS}
_INTRODUCTION = """\
The conditions and actions that [policy statements](../statements.md) call by name. `penstock statement --elements`
lists them with those of packages that are installed.
"""


def page() -> str:
    parts = [f"\n## {title}\n\n{_table(group)}" for title, group in _GROUPS.items()]
    return heading("Rule elements", "`penstock.policy.statements.elements`") + _INTRODUCTION + "".join(parts)


def _table(group: tuple[Element, ...]) -> str:
    rows = ((code(element.usage), _gives(element), _messages(element), plain(element.about)) for element in group)
    return table(("element", "gives", "in rules about", "what for"), rows)


def _gives(element: Element) -> str:
    return "an action" if element.gives is None else code(str(element.gives))


def _messages(element: Element) -> str:
    if element.messages == ANY_MESSAGE:
        return "any message"
    return ", ".join(f"{message.lower()}s" for message in Message if message in element.messages)
