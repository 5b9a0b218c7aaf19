"""Actions that change what a message says: attributes taken out or put in, another format."""

from typing import TYPE_CHECKING

from penstock.language.statements.statement import Verb
from penstock.model.content.content import Format
from penstock.policy.statements.copies import PublicationCopy
from penstock.policy.statements.elements.element import FILTERS, PUBLICATIONS, Element, ElementError, all_texts
from penstock.policy.statements.redact import path_of

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement

_FORWARDED = frozenset({Verb.FORWARD})
PREVIOUS_HOP = "PrevHop"
ATTRIBUTE = "attribute"
"""The beginning of what is demanded of attributes; their paths follow."""


def _trim(on: "Judgement") -> None:
    """Keep only the attributes that the filter asks for."""
    assert on.policy is not None
    if not on.policy.paths:
        raise ElementError(f"`{on.policy.filter}` asks for no attributes: there is nothing to trim to")
    on.copy.keep(on.policy.paths | on.asked)


def _remove(on: "Judgement", *names: str) -> None:
    """Remove these attributes."""
    for name in names:
        on.demand((ATTRIBUTE, *path_of(name)), "remove")
    on.copy.remove({path_of(name) for name in names})


def _keep_only(on: "Judgement", *names: str) -> None:
    """Remove all other attributes."""
    for name in names:
        on.demand((ATTRIBUTE, *path_of(name)), "keep")
    on.copy.keep({path_of(name) for name in names})


def publication(on: "Judgement") -> PublicationCopy:
    """Return the copy of what can only be a publication."""
    assert isinstance(on.copy, PublicationCopy)
    return on.copy


def _to_xml(on: "Judgement") -> None:
    """Write the content as XML."""
    on.demand(("format",), "XML")
    publication(on).convert(Format.XML)


def _to_json(on: "Judgement") -> None:
    """Write the content as JSON."""
    on.demand(("format",), "JSON")
    publication(on).convert(Format.JSON)


def _append_previous_hop(on: "Judgement") -> None:
    """Put the name of the previous hop into the attribute `PrevHop`."""
    publication(on).put(PREVIOUS_HOP, on.sender.name if on.sender is not None else on.here.node)


ATTRIBUTES = (
    Element(
        "TrimAttributes",
        _trim,
        None,
        PUBLICATIONS,
        _FORWARDED,
        needs_filter=True,
        is_shared=True,
        is_blind=True,
        is_removal=True,
    ),
    *(
        Element(
            name,
            run,
            None,
            FILTERS | PUBLICATIONS,
            _FORWARDED,
            1,
            None,
            all_texts,
            is_shared=True,
            is_blind=True,
            is_removal=True,
        )
        for name, run in (("RemoveAttributes", _remove), ("KeepOnlyAttributes", _keep_only))
    ),
    Element("ToXML", _to_xml, None, PUBLICATIONS, _FORWARDED, is_shared=True),
    Element("ToJSON", _to_json, None, PUBLICATIONS, _FORWARDED, is_shared=True),
    Element("AppendPrevHop", _append_previous_hop, None, PUBLICATIONS, _FORWARDED, is_shared=True),
)
