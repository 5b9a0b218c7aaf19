"""The parser of a command's arguments."""

import argparse


def command_parser(command: str, description: str, epilog: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of `penstock COMMAND`; the epilog of its help is printed as it is written."""
    return argparse.ArgumentParser(
        prog=f"penstock {command}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
