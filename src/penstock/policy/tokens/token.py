"""Authorisation tokens: which filters a client may publish and subscribe to, signed by nodes.

A token is the tuple (b, c, S, Fp, Fs) of the trust paper, §II-A: node b grants holder c the filters Fp and Fs, and the
nodes in S have signed it. On the wire it is a JWS in general JSON serialisation (RFC 7515 §7.2.1) with one Ed25519
signature for each node of S (RFC 8037). Every signature is over the claims and its own header alone, so that a node
adds its own without touching others'.

There is one way to write the claims and each header. Signatures are a set: their order means nothing. What a token says
counts only once `token_verify.verify` has accepted it.
"""

import hashlib
import re
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from penstock.model.errors import TopicError
from penstock.model.topic import check_topic, matches, parse_filter
from penstock.policy.tokens.encoding import as_type, canonical, from_base64url, read_json, to_base64url
from penstock.policy.tokens.errors import TokenError, TokenFault, malformed, show
from penstock.policy.tokens.keys import MAX_TIME, SIGNATURE_BYTES, SigningKey, check_node

MAX_BYTES = 16 * 1024
"""The longest token, as it is sent."""
MAX_SIGNATURES = 64
MAX_FILTERS = 1_000
"""The most filters of a token, to publish and to subscribe taken together."""
MAX_FILTER_BYTES = 1_024
MAX_NAME_BYTES = 256
ALGORITHM = "EdDSA"
VERSION = 1

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class Party(NamedTuple):
    """The holder or the audience of a token: `client:NAME`, `node:NAME` or `domain:NAME`.

    The kind is part of the name, so that a client with the name of a node does not become that node.
    """

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> "Party":
        """Read `KIND:NAME`; raises `TokenError`."""
        kind, _, name = text.partition(":")
        if kind not in ("client", "node", "domain"):
            raise malformed(f"expected `client:NAME`, `node:NAME` or `domain:NAME`, found `{show(text)}`")
        return cls(kind, name).checked()

    def checked(self) -> "Party":
        """Return the party if it can be in a token; raises `TokenError`."""
        if self.kind == "client":
            if not self.name.isprintable() or not 1 <= len(self.name.encode(errors="replace")) <= MAX_NAME_BYTES:
                raise malformed(
                    f"client name `{show(self.name)}`: expected 1 to {MAX_NAME_BYTES} bytes of printable text"
                )
        else:
            check_node(self.name, self.kind)
        return self

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class Claims:
    """The claims of a token. Times are whole seconds since 1970; it counts from `not_before` until before `expiry`."""

    issuer: str
    """The node b that grants."""
    subject: Party
    """The client or node c that holds it."""
    audience: frozenset[Party]
    """The domain, or the nodes, at which it counts."""
    publish: frozenset[str] = frozenset()
    """Fp; empty for a node, which only subscribes (§II-B)."""
    subscribe: frozenset[str] = frozenset()
    """Fs."""
    issued: int
    not_before: int
    expiry: int
    id: str

    def __post_init__(self) -> None:
        check_node(self.issuer)
        if self.subject.kind not in ("client", "node"):
            raise malformed(f"subject `{self.subject}`: expected a client or a node")
        self.subject.checked()
        if not self.audience or any(party.kind not in ("domain", "node") for party in self.audience):
            raise malformed("audience: expected a domain or nodes")
        for party in self.audience:
            party.checked()
        self._check_filters()
        times = (self.issued, self.not_before, self.expiry)
        if not all(type(time) is int and 0 <= time <= MAX_TIME for time in times) or self.expiry <= max(times[:2]):
            raise malformed(
                f"issued `{self.issued}`, not before `{self.not_before}`, expiry `{self.expiry}`:"
                f" expected the expiry last, all whole and from 0 to {MAX_TIME}"
            )
        check_token_id(self.id)

    def _check_filters(self) -> None:
        count = len(self.publish) + len(self.subscribe)
        if count > MAX_FILTERS:
            raise TokenError(TokenFault.OVERSIZED, f"`{count}` filters, more than {MAX_FILTERS}")
        for text in self.publish | self.subscribe:
            try:
                parsed = parse_filter(text)
            except TopicError as error:
                raise malformed(str(error)) from None
            if parsed.group is not None:
                raise malformed(f"filter `{show(text)}` is of a shared subscription: expected what is behind the group")
            if len(text.encode()) > MAX_FILTER_BYTES:
                raise TokenError(TokenFault.OVERSIZED, f"filter `{show(text)}` has more than {MAX_FILTER_BYTES} bytes")
        if self.publish and self.subject.kind == "node":
            raise malformed(f"`{self.subject}` may not publish: a node's token is for subscribing only")

    @cached_property
    def payload(self) -> str:
        """The signed part: the claims in canonical form, in base64url."""
        return to_base64url(self._json)

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the claims, in hexadecimal: it does not depend on the signatures."""
        return hashlib.sha256(self._json).hexdigest()

    @cached_property
    def _json(self) -> bytes:
        # The names are those of RFC 7519 where it has one. `token` marks it among other data that a key signs.
        return canonical(
            {
                "token": VERSION,
                "iss": self.issuer,
                "sub": str(self.subject),
                "aud": sorted(map(str, self.audience)),
                "iat": self.issued,
                "nbf": self.not_before,
                "exp": self.expiry,
                "jti": self.id,
                "publish": sorted(self.publish),
                "subscribe": sorted(self.subscribe),
            }
        )


@dataclass(frozen=True)
class Signature:
    """One node's signature; who signed with which key is in the header that it covers."""

    node: str
    key_id: str
    value: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_node(self.node)
        if not _ID.fullmatch(self.key_id):
            raise malformed(f"key id `{show(self.key_id)}`")
        if len(self.value) != SIGNATURE_BYTES:
            raise malformed(f"a signature of `{len(self.value)}` bytes: expected {SIGNATURE_BYTES}")

    @property
    def header(self) -> str:
        return _header(self.node, self.key_id)


@dataclass(frozen=True)
class Token:
    """Claims and the signatures of nodes, ordered by the names of the nodes."""

    claims: Claims
    signatures: tuple[Signature, ...]

    def __post_init__(self) -> None:
        if len(self.signatures) > MAX_SIGNATURES:
            raise TokenError(TokenFault.OVERSIZED, f"`{len(self.signatures)}` signatures, more than {MAX_SIGNATURES}")
        names = [signature.node for signature in self.signatures]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise TokenError(TokenFault.SIGNED_TWICE, f"`{twice}`")
        object.__setattr__(self, "signatures", tuple(sorted(self.signatures, key=lambda signature: signature.node)))
        if len(self.text) > MAX_BYTES:
            raise TokenError(TokenFault.OVERSIZED, f"`{len(self.text)}` bytes, more than {MAX_BYTES}")

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that seem to have signed: S, before it is verified."""
        return tuple(signature.node for signature in self.signatures)

    @cached_property
    def text(self) -> bytes:
        """The token as it is sent."""
        signatures = [
            {"protected": signature.header, "signature": to_base64url(signature.value)} for signature in self.signatures
        ]
        return canonical({"payload": self.claims.payload, "signatures": signatures})

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the token with its signatures, in hexadecimal: its name on a connection."""
        return hashlib.sha256(self.text).hexdigest()


def new_token_id() -> str:
    """Return an id that no other token has: 128 random bits."""
    return secrets.token_hex(16)


def check_token_id(text: str) -> str:
    """Return the id, or raise `TokenError`."""
    if not _ID.fullmatch(text):
        raise malformed(f"token id `{show(text)}`: expected at most 64 letters, digits, `-` and `_`")
    return text


def issue(claims: Claims, key: SigningKey) -> Token:
    """Make a token of these claims, signed by its issuer."""
    return sign(Token(claims, ()), claims.issuer, key)


def sign(token: Token, node: str, key: SigningKey) -> Token:
    """Add the signature of one more node to a token; raises `TokenError` if that node has signed already."""
    signing = Signature(node, key.key_id, key.sign(signing_input(_header(node, key.key_id), token.claims)))
    return Token(token.claims, (*token.signatures, signing))


def signing_input(header: str, claims: Claims) -> bytes:
    """Return the bytes that a signature with this header is over: RFC 7515 §5.1."""
    return f"{header}.{claims.payload}".encode("ascii")


def parse_token(data: bytes | str) -> Token:
    """Parse a token without verifying its signatures; raises `TokenError`."""
    data = data.encode(errors="replace") if isinstance(data, str) else data
    if len(data) > MAX_BYTES:
        raise TokenError(TokenFault.OVERSIZED, f"`{len(data)}` bytes, more than {MAX_BYTES}")
    outer = as_type(read_json(data, "the token"), _Outer, "the token")
    if len(outer.signatures) > MAX_SIGNATURES:
        raise TokenError(TokenFault.OVERSIZED, f"`{len(outer.signatures)}` signatures, more than {MAX_SIGNATURES}")
    return Token(_parse_claims(outer.payload), tuple(map(_parse_signature, outer.signatures)))


def may_publish(token: Token, topic: str) -> bool:
    """Return whether one of its filters to publish matches the topic; False for what is no topic."""
    try:
        check_topic(topic)
    except TopicError:
        return False
    return any(matches(permitted, topic) for permitted in token.claims.publish)


class _Signed(msgspec.Struct, forbid_unknown_fields=True):
    protected: str
    signature: str


class _Outer(msgspec.Struct, forbid_unknown_fields=True):
    payload: str
    signatures: list[_Signed]


class _Payload(msgspec.Struct, forbid_unknown_fields=True):
    token: int
    iss: str
    sub: str
    aud: list[str]
    iat: int
    nbf: int
    exp: int
    jti: str
    publish: list[str]
    subscribe: list[str]


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    alg: str
    kid: str
    node: str


def _header(node: str, key_id: str) -> str:
    return to_base64url(canonical({"alg": ALGORITHM, "kid": key_id, "node": node}))


def _parse_claims(payload: str) -> Claims:
    members = as_type(read_json(from_base64url(payload, "the payload"), "the payload"), _Payload, "the payload")
    if members.token != VERSION:
        raise malformed(f"version `{members.token}` of tokens: expected {VERSION}")
    if len(members.publish) + len(members.subscribe) > MAX_FILTERS:
        raise TokenError(TokenFault.OVERSIZED, f"more than {MAX_FILTERS} filters")
    claims = Claims(
        issuer=members.iss,
        subject=Party.parse(members.sub),
        audience=frozenset(map(Party.parse, members.aud)),
        publish=frozenset(members.publish),
        subscribe=frozenset(members.subscribe),
        issued=members.iat,
        not_before=members.nbf,
        expiry=members.exp,
        id=members.jti,
    )
    if claims.payload != payload:  # other order, blanks, escapes, a filter twice
        raise TokenError(TokenFault.NOT_CANONICAL, "the payload is not written in its one form")
    return claims


def _parse_signature(signed: _Signed) -> Signature:
    members: Any = read_json(from_base64url(signed.protected, "a header"), "a header")
    # Before all else, so that `none` and `HS256` are named as what they are.
    if not isinstance(members, dict) or members.get("alg") != ALGORITHM:
        alg = members.get("alg") if isinstance(members, dict) else None
        raise TokenError(TokenFault.ALGORITHM, f"`{show(str(alg))}`")
    if "crit" in members:  # RFC 7515 §4.1.11: there is none that is understood here
        raise TokenError(TokenFault.CRITICAL_HEADER, f"`{show(str(members['crit']))}`")
    header = as_type(members, _Header, "a header")
    signature = Signature(header.node, header.kid, from_base64url(signed.signature, "a signature"))
    if signature.header != signed.protected:
        raise TokenError(TokenFault.NOT_CANONICAL, f"the header of `{header.node}` is not written in its one form")
    return signature
