"""`penstock group`: private keys of nodes, and the secret of a trust group encrypted for the members' public keys."""

import argparse
import os
import secrets
import sys
from pathlib import Path

from penstock.cli.exit_codes import EXIT_ERROR
from penstock.cli.parsers import add_command, command_parser
from penstock.policy.trust import key_wrap
from penstock.policy.trust.key_wrap import KeyWrapError

_SECRET_BYTES = 32
_EPILOG = "Exit code: 0, 1 if a file cannot be read or written, 2 for bad arguments.\n"


def main(argv: list[str]) -> int:
    """Run `penstock group` with these arguments; return the exit code."""
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except (KeyWrapError, OSError) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_ERROR


def _key(options: argparse.Namespace) -> int:
    if not options.file.exists():
        _write(options.file, key_wrap.make_private_key() + b"\n")
    print(key_wrap.public_key(key_wrap.read_private_key(options.file.read_bytes())))
    return 0


def _secret(options: argparse.Namespace) -> int:
    content = key_wrap.seal_secret(secrets.token_hex(_SECRET_BYTES).encode(), options.members)
    draft = options.file.with_name(f"{options.file.name}.new")
    draft.unlink(missing_ok=True)
    _write(draft, content)
    draft.replace(options.file)
    return 0


def _write(path: Path, content: bytes) -> None:
    """Write a new file for its owner only."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("group", "Make the keys and secrets of trust groups.", _EPILOG)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    key = add_command(commands, "key", "make a node's private key if there is none, and print its public key", _EPILOG)
    key.add_argument("file", metavar="FILE", type=Path, help="file with the private key")
    key.set_defaults(run=_key)
    secret = add_command(commands, "secret", "make a new secret, encrypted for the public keys of members", _EPILOG)
    secret.add_argument("file", metavar="FILE", type=Path, help="file to write; the one of before is replaced")
    secret.add_argument(
        "--for",
        dest="members",
        metavar="KEY",
        action="append",
        required=True,
        help="public key of a member; repeatable",
    )
    secret.set_defaults(run=_secret)
    return parser
