"""Bounds on the cost of a policy or a request. Both may come from strangers, so each bound is also a defence."""

MAX_POLICY_BYTES = 64 << 20
"""Bytes of one file of policies."""

MAX_REQUEST_BYTES = 1 << 20
"""Bytes of a request."""

MAX_POLICY_NODES = 4_000_000
"""XML elements and attributes of a file of policies."""

MAX_REQUEST_NODES = 100_000

MAX_DEPTH = 100
"""XML elements, JSON or YAML values inside each other; the evaluators recurse a few times for each."""

MAX_NESTING = 32
"""Policy sets inside each other, references followed."""

MAX_STEPS = 200_000
"""Applications of functions, and members of bags gone through, in one decision."""

MAX_BITS = 4096
"""Bits of an integer."""

MAX_DIGITS = 1_000
"""Digits of an integer as it is written."""

MAX_CHARACTERS = 1 << 20
"""Characters of a string that a function makes."""

MAX_DUTIES = 10_000
"""Obligations and advice of one decision."""

MAX_RESULTS = 1_000
"""Decisions that one request may ask for."""
