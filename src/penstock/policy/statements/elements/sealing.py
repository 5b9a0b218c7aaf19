"""Actions that encrypt and decrypt under the secret of a trust group (statements §5.2)."""

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.language.statements.statement import Verb
from penstock.policy.statements.elements.attributes import publication
from penstock.policy.statements.elements.element import PUBLICATIONS, Element, ElementError, all_texts
from penstock.policy.statements.redact import path_of
from penstock.policy.trust.sealing import SealError, is_sealed

if TYPE_CHECKING:
    from penstock.policy.statements.judging import Judgement

SEALED_TYPE = "application/vnd.penstock.sealed"
_PREFIX = "sealed:"
_LENGTH_BYTES = 2


def _encrypt(on: "Judgement", group: str, *attributes: str) -> None:
    """Encrypt the payload, or these attributes of JSON, for the members of a trust group."""
    copy = publication(on)
    topic = copy.event.topic
    if attributes:
        _change(on, attributes, lambda path, value: _sealed_value(on, group, topic, path, value))
        return
    if copy.is_empty or is_sealed(copy.payload):
        return
    content_type = (copy.event.content_type if copy.content_type is None else copy.content_type).encode()
    plain = len(content_type).to_bytes(_LENGTH_BYTES, "big") + content_type + copy.payload
    copy.write(_try(lambda: on.here.sealer.seal(group, topic, "", plain)), SEALED_TYPE)
    copy.hidden.keep(())


def _decrypt(on: "Judgement", group: str, *attributes: str) -> None:
    """Decrypt the payload, or these attributes of JSON, that a member of a trust group has encrypted."""
    copy = publication(on)
    topic = copy.event.topic
    if attributes:
        _change(on, attributes, lambda path, value: _opened_value(on, group, topic, path, value))
        return
    if copy.is_empty:
        return
    plain = _try(lambda: on.here.sealer.open(group, topic, "", copy.payload))
    end = _LENGTH_BYTES + int.from_bytes(plain[:_LENGTH_BYTES], "big")
    copy.reveal(plain[end:], plain[_LENGTH_BYTES:end].decode())


def _sealed_value(on: "Judgement", group: str, topic: str, path: str, value: Any) -> Any:
    if isinstance(value, str) and value.startswith(_PREFIX):
        return value
    sealed = _try(lambda: on.here.sealer.seal(group, topic, path, msgspec.json.encode(value)))
    return _PREFIX + base64.urlsafe_b64encode(sealed).decode()


def _opened_value(on: "Judgement", group: str, topic: str, path: str, value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(_PREFIX):
        raise ElementError(f"attribute `{path}` is not sealed")
    try:
        sealed = base64.b64decode(value.removeprefix(_PREFIX), altchars=b"-_", validate=True)
    except binascii.Error:
        raise ElementError(f"attribute `{path}` is not sealed") from None
    return msgspec.json.decode(_try(lambda: on.here.sealer.open(group, topic, path, sealed)))


def _change(on: "Judgement", attributes: tuple[str, ...], changed: Callable[[str, Any], Any]) -> None:
    """Put another value in the place of each of these attributes that is there."""
    copy = publication(on)
    for attribute in attributes:
        name, *rest = path_of(attribute)
        whole = around = {name: copy.require(name)} if copy.has(name) else {}
        for part in (name, *rest)[:-1]:
            inner = around.get(part)
            around = inner if isinstance(inner, dict) else {}
        last = (name, *rest)[-1]
        if last in around:
            around[last] = changed(attribute, around[last])
            copy.put(name, whole[name])


def _try(act: Callable[[], bytes]) -> bytes:
    try:
        return act()
    except SealError as error:
        raise ElementError(str(error)) from None


_FORWARDED = frozenset({Verb.FORWARD})
SEALING = (
    Element(
        "Encrypt",
        _encrypt,
        None,
        PUBLICATIONS,
        _FORWARDED,
        1,
        None,
        all_texts,
        is_shared=True,
        is_blind=True,
        is_removal=True,
    ),
    Element("Decrypt", _decrypt, None, PUBLICATIONS, _FORWARDED, 1, None, all_texts, is_shared=True),
)
