"""`penstock passwd`: manage a password file, with mosquitto_passwd's options and in its format."""

import argparse
import getpass
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial

from penstock.cli.exit_codes import EXIT_ERROR, EXIT_INTERRUPTED
from penstock.model.errors import PolicyError
from penstock.policy.access import passwords


def main(argv: Sequence[str]) -> int:
    """Run `penstock passwd` with these arguments; return the exit code."""
    parser = _parser()
    options = parser.parse_args(argv)
    _check(parser, options)
    try:
        return _change(options)
    except PolicyError as error:
        print(f"Error: {error}", file=sys.stderr)
        return EXIT_ERROR
    except (KeyboardInterrupt, EOFError):
        print(file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="penstock passwd",
        usage="penstock passwd [-H HASH] [-I COUNT] [-c | -D] FILE USER\n"
        "       penstock passwd [-H HASH] [-I COUNT] [-c] -b FILE USER PASSWORD\n"
        "       penstock passwd [-H HASH] [-I COUNT] -U FILE",
        description="Add a user to a password file, or give a user a new password. The password is asked for.",
    )
    parser.add_argument("-b", dest="is_batch", action="store_true", help="take the password as an argument")
    parser.add_argument("-c", dest="creates", action="store_true", help="make a new file, over an old one")
    parser.add_argument("-D", dest="deletes", action="store_true", help="delete the user")
    parser.add_argument("-U", dest="upgrades", action="store_true", help="hash the passwords of a plain text file")
    parser.add_argument(
        "-H",
        dest="hash",
        choices=["sha512-pbkdf2", "sha512"],
        default="sha512-pbkdf2",
        help="how to hash; sha512 is for Mosquitto 1.6 and older",
    )
    parser.add_argument(
        "-I",
        dest="iterations",
        metavar="COUNT",
        type=int,
        default=passwords.DEFAULT_ITERATIONS,
        help="rounds of sha512-pbkdf2; %(default)s if not given, as in Mosquitto; more is safer and slower",
    )
    parser.add_argument("file", metavar="FILE", help="the password file")
    parser.add_argument("user", metavar="USER", nargs="?", help="the user's name")
    parser.add_argument("password", metavar="PASSWORD", nargs="?", help="the password, with -b")
    return parser


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    if options.creates + options.deletes + options.upgrades > 1:
        parser.error("only one of -c, -D and -U can be used")
    if options.is_batch and (options.deletes or options.upgrades):
        parser.error("-b goes with neither -D nor -U")
    if options.upgrades != (options.user is None):
        parser.error("-U takes no user" if options.upgrades else "a user is needed")
    if options.is_batch != (options.password is not None):
        parser.error("-b needs a password" if options.is_batch else "a password as an argument needs -b")
    if options.iterations < 1:
        parser.error(f"`{options.iterations}` iterations: expected 1 or more")


def _change(options: argparse.Namespace) -> int:
    hasher: Callable[[bytes], str] = partial(passwords.hash_password, iterations=options.iterations)
    if options.hash == "sha512":
        hasher = passwords.hash_password_sha512
    if options.upgrades:
        passwords.upgrade_file(options.file, hasher)
    elif options.deletes:
        if not passwords.delete_user(options.file, options.user):
            print(f"Warning: user `{options.user}` is not in `{options.file}`", file=sys.stderr)
            return EXIT_ERROR
    else:
        hashed = hasher(os.fsencode(options.password) if options.is_batch else _ask())
        change = passwords.create_file if options.creates else passwords.set_user
        change(options.file, options.user, hashed)
    return 0


def _ask() -> bytes:
    password = getpass.getpass("Password: ")
    if not password:
        raise PolicyError("the password is empty")
    if getpass.getpass("Reenter password: ") != password:
        raise PolicyError("the passwords do not match")
    return os.fsencode(password)
