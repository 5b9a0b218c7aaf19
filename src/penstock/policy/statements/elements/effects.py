"""Actions on the way of a message, and those that tell or keep something: publications, log, database."""

import re
from typing import TYPE_CHECKING

from penstock.language.statements.statement import Argument, Message, Verb
from penstock.model.errors import TopicError
from penstock.model.topic import check_topic
from penstock.policy.statements.elements.element import (
    FILTERS,
    PUBLICATIONS,
    Element,
    ElementError,
    KeptMessage,
    PolicyPublication,
)

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement

CLASS = "class"
RESERVED = ("PolicyException", "PolicyConflict")
"""Classes of meta-events that only nodes themselves make."""
_FORWARDED, _INSERTED = frozenset({Verb.FORWARD}), frozenset({Verb.INSERT})
_PAIR = re.compile(r"\s*\[\s*([^\[\],'\"\s]+)\s*,\s*(?:'([^']*)'|\"([^\"]*)\"|([^\[\]'\"]*?))\s*\]\s*(,|$)")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
_VARIABLE = re.compile(r"\$(\w+)")
_CLASS_NAME = re.compile(r"[\w-]{1,64}")
_VARIABLES = ("Message", "Sender", "Receiver", "Broker")
_COLLECTION = re.compile(r"[\w.-]{1,64}")


def _block(on: "Judgement") -> None:
    """Do not send the message this way."""
    assert on.policy is not None
    on.demand(("passage",), "block")
    on.blocked = on.policy.name


def _flood(on: "Judgement") -> None:
    """Send the message to every neighbour, even to neighbours without a known subscription."""
    on.demand(("passage",), "flood")
    on.flooded = True


def _uninsert(on: "Judgement") -> None:
    """Do not keep the subscription or advertisement in the node's tables."""
    assert on.policy is not None
    on.uninserted = on.policy.name


def _pairs(text: str) -> list[tuple[str, str, bool]]:
    """Return the attributes in a text such as `[class,X],[cause,'Load']`: name, value, and whether it is quoted."""
    pairs: list[tuple[str, str, bool]] = []
    at = 0
    while at < len(text) or not pairs:
        match = _PAIR.match(text, at)
        if match is None or (match[5] == "," and match.end() == len(text)):
            raise ElementError(f"expected attributes such as `[class,Alarm],[cause,'load']`, not `{text[at:][:40]}`")
        quoted = match[2] if match[2] is not None else match[3]
        pairs.append((match[1], match[4] if quoted is None else quoted, quoted is not None))
        at = match.end()
    return pairs


def _check_publish(arguments: tuple[Argument, ...]) -> str:
    text, *topic = arguments
    if not isinstance(text, str):
        return f"expected the attributes as a text, not `{text}`"
    try:
        pairs = _pairs(text)
    except ElementError as error:
        return str(error)
    names = [name for name, _, _ in pairs]
    if len(set(names)) < len(names):
        return "an attribute is named twice"
    used = (variable for _, value, _ in pairs for variable in _VARIABLE.findall(value))
    unknown = next((variable for variable in used if variable not in _VARIABLES), None)
    if unknown is not None:
        return f"`${unknown}` is not known: there are {', '.join(f'`${variable}`' for variable in _VARIABLES)}"
    classes = [value for name, value, _ in pairs if name == CLASS]
    if classes and not topic and classes[0] in RESERVED:
        return f"class `{classes[0]}` is for what nodes have to say of policies"
    if topic:
        return _wrong_topic(topic[0])
    if not classes or _CLASS_NAME.fullmatch(classes[0]) is None:
        return "expected a `class` of letters, digits, `-` and `_`, as the topic is made of it, or a topic"
    return ""


def _wrong_topic(topic: Argument) -> str:
    try:
        check_topic(str(topic))
    except TopicError as error:
        return str(error)
    return f"`{topic}` is a topic of the node itself" if str(topic).startswith("$") else ""


def _publish(on: "Judgement", text: str, topic: str = "") -> None:
    """Publish attributes such as `[class,Alarm],[message,$Message]`, as a meta-event or on a topic."""
    variables = {
        "Message": on.copy.text(),
        "Sender": on.sender.name if on.sender is not None else "",
        "Receiver": on.receiver.name if on.receiver is not None else "",
        "Broker": on.here.node,
    }
    content: dict[str, object] = {}
    for name, value, is_quoted in _pairs(text):
        filled = _VARIABLE.sub(lambda match: variables[match[1]], value)
        content[name] = float(value) if not is_quoted and _NUMBER.fullmatch(value) else filled
        if not is_quoted and value.lstrip("-").isdecimal():
            content[name] = int(value)
    on.cause(PolicyPublication(content, topic))


def _check_text(arguments: tuple[Argument, ...]) -> str:
    return "" if all(isinstance(argument, str) for argument in arguments) else "expected a text"


def _log(on: "Judgement", text: str = "") -> None:
    """Write a line to the log of the node."""
    assert on.policy is not None
    on.cause(KeptMessage("log", on.policy.name, text, on.copy.text(), *on.copy.raw()))


def _check_collection(arguments: tuple[Argument, ...]) -> str:
    wrong = next((argument for argument in arguments if _COLLECTION.fullmatch(str(argument)) is None), None)
    return "" if wrong is None else f"`{wrong}` is not a name: expected letters, digits, `.`, `-` and `_`"


def _persist(on: "Judgement", collection: str = "messages") -> None:
    """Keep the message in the store of the node permanently."""
    assert on.policy is not None
    if not on.here.has_store:
        raise ElementError("the node has no store to keep it in")
    on.cause(KeptMessage("persist", on.policy.name, collection, on.copy.text(), *on.copy.raw()))


EFFECTS = (
    Element(
        "BlockMessage", _block, None, FILTERS | PUBLICATIONS, _FORWARDED, is_shared=True, is_blind=True, is_removal=True
    ),
    Element("FloodMessage", _flood, None, FILTERS | PUBLICATIONS, _FORWARDED, is_blind=True),
    Element("UninsertMessage", _uninsert, None, frozenset({Message.SUBSCRIPTION, Message.ADVERTISEMENT}), _INSERTED),
    Element("Publish", _publish, None, least=1, most=2, check=_check_publish, is_blind=True),
    Element("Log", _log, None, least=0, most=1, check=_check_text, is_blind=True),
    Element("Persist", _persist, None, least=0, most=1, check=_check_collection, is_blind=True),
)
