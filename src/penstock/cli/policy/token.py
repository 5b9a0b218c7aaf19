"""`penstock token`: authorisation tokens, the keys that nodes sign them with, and revocations."""

import argparse
import json
import ssl
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from penstock.cli.exit_codes import EXIT_DOMAIN, EXIT_ERROR
from penstock.cli.parsers import add_command, command_parser, duration_argument, time_argument
from penstock.cli.table import print_table, printable
from penstock.model.errors import PolicyError
from penstock.policy.access.textfile import replace_file
from penstock.policy.tokens import token as tokens
from penstock.policy.tokens.errors import TokenError
from penstock.policy.tokens.keys import MAX_TIME, KeySet, PublicKey, SigningKey, as_jwk, check_key_id, check_node
from penstock.policy.tokens.revocation import NOTHING, Revoked, revoke
from penstock.policy.tokens.verification import CheckedSignature, check_signatures, verify

T = TypeVar("T")

EXIT_REFUSED = EXIT_DOMAIN
"""The token is refused."""
_FOR_OWNER = 0o600  # anybody who has a token can present it
_EPILOG = """\
TOKEN is a file, or `-` for standard input. PARTY is `client:NAME`, `node:NAME` or `domain:NAME`. TIME is such as
2026-05-01T12:30, UTC unless it says. Nothing prints a private key.
Exit code: 0, 1 if a file cannot be read or written, 2 for bad arguments, 3 if the token is refused.
"""


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        return int(options.run(options, options.parser))
    except TokenError as error:
        print(f"penstock: refused: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except PolicyError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_ERROR


def _key(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if options.retire is not None:
        if options.keys is None or options.node or options.not_before is not None:
            parser.error("--retire goes with --keys, and with --at if it is not now")
        try:
            keys = KeySet.read(options.keys).retire(options.retire, _or_now(options.at))
        except TokenError as error:
            parser.error(f"{options.keys}: {error}")
        keys.write(options.keys)
        return 0
    if options.node is None or options.at is not None:
        parser.error("--out and --of go with --node, and not with --at")
    # Everything that can fail is done before the key is written.
    keys = KeySet.read(options.keys) if options.keys is not None and options.keys.exists() else KeySet()
    key = SigningKey.generate() if options.of is None else SigningKey.read(options.of)
    public = PublicKey(options.node, key.public, _or_now(options.not_before))
    if options.keys is not None:
        try:
            keys = keys.with_key(public)
        except TokenError as error:
            parser.error(f"{options.keys}: {error.detail}")
    if options.out is not None:
        key.write(options.out)
    if options.keys is not None:
        keys.write(options.keys)
    print(json.dumps(as_jwk(public)))
    return 0


def _issue(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    key = SigningKey.read(options.key)
    now = int(time.time())
    start = now if options.not_before is None else options.not_before
    try:
        claims = tokens.Claims(
            issuer=options.node,
            subject=options.subject,
            audience=frozenset(options.audience),
            publish=frozenset(options.publish),
            subscribe=frozenset(options.subscribe),
            issued=now,
            not_before=start,
            expiry=max(now, start) + options.life,
            id=options.id or tokens.new_token_id(),
        )
        token = tokens.issue(claims, key)
    except TokenError as error:
        parser.error(str(error))
    return _write(token, options.out)


def _request(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    # It and the reader of durations load slower than all else here, and only this command needs them.
    from penstock.client.token_request import TokenRequestError, is_in_the_clear, request_token

    password = _password(options.password_file)
    try:
        tls = ssl.create_default_context(cafile=options.cafile)
    except OSError as error:
        raise PolicyError(f"cannot read `{options.cafile}`: {error.strerror or error}") from None
    try:
        if is_in_the_clear(options.url):
            print(f"penstock: the password goes to `{options.url}` without TLS", file=sys.stderr)
        text = request_token(options.url, options.user, password, " ".join(options.scope), tls=tls)
    except TokenRequestError as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_REFUSED if error.error else EXIT_ERROR
    return _write(tokens.parse_token(text.encode()), options.out)


def _password(file: str) -> str:
    """Return the first line of a file, or of standard input."""
    try:
        data = sys.stdin.buffer.readline() if file == "-" else Path(file).read_bytes()
        return data.decode().splitlines()[0]
    except OSError as error:
        raise PolicyError(f"cannot read `{file}`: {error.strerror}") from None
    except (UnicodeDecodeError, IndexError):
        raise PolicyError(f"`{file}` has no password in it") from None


def _sign(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    key = SigningKey.read(options.key)
    return _write(tokens.sign(_read(options.token), options.node, key), options.out)


def _inspect(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    token = _read(options.token)
    if options.json:
        print(json.dumps(_plain(token), indent=2))
        return 0
    claims = token.claims
    rows = [
        ("id", claims.id),
        ("issuer", claims.issuer),
        ("subject", str(claims.subject)),
        *(("audience", str(party)) for party in sorted(claims.audience)),
        *(("may publish", filter) for filter in sorted(claims.publish)),
        *(("may subscribe", filter) for filter in sorted(claims.subscribe)),
        ("issued", _shown_time(claims.issued)),
        ("not before", _shown_time(claims.not_before)),
        ("expiry", _shown_time(claims.expiry)),
        *(("signature, not verified", f"{signature.node}, key {signature.key_id}") for signature in token.signatures),
        ("digest of the claims", claims.digest),
        ("digest of the token", token.digest),
    ]
    print_table(("what", "says"), [(name, printable(value)) for name, value in rows])
    return 0


def _verify(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    keys = KeySet.read(options.keys)
    revoked = NOTHING if options.revoked is None else Revoked.read(options.revoked)
    now = time.time() if options.at is None else options.at
    token = _read(options.token)
    signatures = tuple(check_signatures(token, keys, now, revoked))
    refusal: TokenError | None = None
    try:
        verify(token, keys, now, options.audience, revoked, options.holder)
    except TokenError as error:
        refusal = error
    if options.json:
        print(json.dumps(_findings(signatures, refusal), indent=2))
    else:
        rows = [(signature.node, signature.key_id, signature.reason or "good") for signature in signatures]
        print_table(("node", "key", "signature"), rows)
    if refusal is not None:
        raise refusal
    return 0


def _revoke(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    if options.key is not None:
        kind, id = "key", options.key
    else:
        kind, id = "token", options.id or _read(options.token).claims.id
    if not revoke(options.list, kind, id):
        print(f"penstock: {kind} `{id}` is in `{options.list}` already", file=sys.stderr)
    return 0


def _findings(signatures: tuple[CheckedSignature, ...], refusal: TokenError | None) -> dict[str, Any]:
    return {
        "accepted": refusal is None,
        "reason": None if refusal is None else refusal.reason,
        "detail": None if refusal is None else refusal.detail,
        "signatures": [
            {"node": signature.node, "key": signature.key_id, "reason": signature.reason} for signature in signatures
        ],
    }


def _plain(token: tokens.Token) -> dict[str, Any]:
    claims = token.claims
    return {
        "id": claims.id,
        "issuer": claims.issuer,
        "subject": str(claims.subject),
        "audience": sorted(map(str, claims.audience)),
        "publish": sorted(claims.publish),
        "subscribe": sorted(claims.subscribe),
        "issued": claims.issued,
        "not_before": claims.not_before,
        "expiry": claims.expiry,
        "signatures": [{"node": signature.node, "key": signature.key_id} for signature in token.signatures],
        "claims_digest": claims.digest,
        "digest": token.digest,
    }


def _read(file: str) -> tokens.Token:
    limit = tokens.MAX_BYTES + 2  # a line end may follow; anything longer is too long
    try:
        if file == "-":
            data = sys.stdin.buffer.read(limit)
        else:
            with Path(file).open("rb") as stream:
                data = stream.read(limit)
    except OSError as error:
        raise PolicyError(f"cannot read `{file}`: {error.strerror}") from None
    return tokens.parse_token(data.rstrip(b"\r\n"))


def _write(token: tokens.Token, out: Path | None) -> int:
    text = token.text.decode()
    if out is None:
        print(text)
    else:
        replace_file(out, f"{text}\n", _FOR_OWNER)
    return 0


def _or_now(when: int | None) -> int:
    return int(time.time()) if when is None else when


def _shown_time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _time(text: str) -> int:
    seconds = int(time_argument(text).timestamp())
    if not 0 <= seconds <= MAX_TIME:
        raise argparse.ArgumentTypeError(f"`{text}` is not a time such as 2026-05-01T12:30")
    return seconds


def _life(text: str) -> int:
    seconds = duration_argument(text)
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"`{text}`: expected a second or more")
    if seconds > MAX_TIME:
        raise argparse.ArgumentTypeError(f"`{text}`: expected less: it would end after the year 9999")
    return int(seconds)


def _checked(check: Callable[[str], T]) -> Callable[[str], T]:
    """Return a converter for arguments from a check that raises `TokenError`."""

    def convert(text: str) -> T:
        try:
            return check(text)
        except TokenError as error:
            raise argparse.ArgumentTypeError(error.detail) from None

    return convert


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("token", "Make, sign, look at and verify authorisation tokens.", _EPILOG)
    names = "key|issue|request|sign|inspect|verify|revoke"
    commands = parser.add_subparsers(dest="command", required=True, metavar=names)
    party, node = _checked(tokens.Party.parse), _checked(check_node)

    key = _command(commands, "key", _key, "make a key for a node, list its public half, or retire one")
    how = key.add_mutually_exclusive_group(required=True)
    how.add_argument("--out", type=Path, metavar="FILE", help="make a key and write it here, for the owner only")
    how.add_argument("--of", type=Path, metavar="FILE", help="take this key, which is there already")
    how.add_argument("--retire", metavar="ID", help="have a key of the key set verify nothing any more")
    key.add_argument("--node", type=node, help="whose key it is")
    key.add_argument("--keys", type=Path, metavar="FILE", help="key set to add the public half to, or to retire it in")
    key.add_argument("--not-before", type=_time, metavar="TIME", help="when it comes into use; if not given, now")
    key.add_argument("--at", type=_time, metavar="TIME", help="when it is retired; if not given, now")

    make = _command(commands, "issue", _issue, "make a token, signed by its issuer")
    make.add_argument("--subject", type=party, required=True, metavar="PARTY", help="the client or node that holds it")
    make.add_argument("--audience", type=party, action="append", required=True, metavar="PARTY", help="where it counts")
    make.add_argument("--publish", action="append", default=[], metavar="FILTER", help="what it may publish to")
    make.add_argument("--subscribe", action="append", default=[], metavar="FILTER", help="what it may subscribe to")
    make.add_argument("--for", dest="life", type=_life, required=True, metavar="DURATION", help="how long, such as 12h")
    make.add_argument("--not-before", type=_time, metavar="TIME", help="from when; if not given, from now on")
    make.add_argument("--id", type=_checked(tokens.check_token_id), help="its id; if not given, a random one")

    get = _command(commands, "request", _request, "get a token from a node's authorisation endpoint")
    get.add_argument("--url", required=True, help="the node's admin address, such as http://127.0.0.1:8080")
    get.add_argument("--user", required=True, metavar="NAME", help="user name, as in the node's password file")
    get.add_argument("--password-file", required=True, metavar="FILE", help="file with the password; `-`: from input")
    get.add_argument(
        "--scope",
        action="append",
        default=[],
        help="what it is to be for, such as 'publish:home/kitchen subscribe:home/#'; if not given, all that is granted",
    )
    get.add_argument("--cafile", type=Path, metavar="FILE", help="trusted certificates in PEM, for https")
    get.add_argument("--out", type=Path, metavar="FILE", help="where to; if not given, standard output")

    add = _command(commands, "sign", _sign, "add a node's signature to a token; verify it before")
    for command in (make, add):
        command.add_argument("--node", type=node, required=True, help="the node that signs")
        command.add_argument("--key", type=Path, required=True, metavar="FILE", help="its private key")
        command.add_argument("--out", type=Path, metavar="FILE", help="where to; if not given, standard output")

    look = _command(commands, "inspect", _inspect, "show what a token says, without verifying it")
    judge = _command(commands, "verify", _verify, "say whether a token is accepted, and of each signature why not")
    for command in (add, look, judge):
        command.add_argument("token", metavar="TOKEN")
    for command in (look, judge):
        command.add_argument("--json", action="store_true", help="print JSON")
    judge.add_argument("--keys", type=Path, required=True, metavar="FILE", help="the key set")
    judge.add_argument("--audience", type=party, action="append", required=True, metavar="PARTY", help="who verifies")
    judge.add_argument("--revoked", type=Path, metavar="FILE", help="the list of what is revoked")
    judge.add_argument("--holder", type=party, metavar="PARTY", help="who presents it")
    judge.add_argument("--at", type=_time, metavar="TIME", help="at another time than now")

    end = _command(commands, "revoke", _revoke, "add a token or a key to the list of what is revoked")
    end.add_argument("list", type=Path, metavar="LIST", help="the list; made if there is none")
    what = end.add_mutually_exclusive_group(required=True)
    what.add_argument("--token", metavar="TOKEN", help="this token")
    what.add_argument("--id", type=_checked(tokens.check_token_id), help="the token of this id")
    what.add_argument("--key", type=_checked(check_key_id), metavar="ID", help="this key, and all that it signed")
    return parser


def _command(commands: Any, name: str, run: Callable[..., int], text: str) -> argparse.ArgumentParser:
    command = add_command(commands, name, text, _EPILOG)
    command.set_defaults(run=run, parser=command)
    return command
