"""The exit codes of the commands."""

EXIT_ERROR = 1
EXIT_USAGE = 2
EXIT_DOMAIN = 3
"""The domain does not check."""
EXIT_TEST = 4
"""A policy test failed."""
EXIT_INTERRUPTED = 130
"""Ctrl-C, as shells report it."""
