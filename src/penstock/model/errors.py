"""The one error root.

A message is lower case, has no final stop, and shows the offending input in backticks.
"""


class PenstockError(Exception):
    """Root of every error that Penstock raises on purpose."""


class TopicError(PenstockError):
    """A topic name or topic filter that MQTT does not allow."""


class PolicyError(PenstockError):
    """A policy file (passwords, access lists) that cannot be read."""


class DomainError(PenstockError):
    """A domain file that does not check."""
