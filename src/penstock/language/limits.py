"""What a condition may cost at most. Conditions come from clients, so each bound is also a defence."""

MOST_TEXT = 10_000
"""Characters of a condition."""

MOST_DEPTH = 80
"""Expressions inside each other. CEL asks for 32 of each kind; the evaluators recurse once for each."""

MOST_NODES = 2_000
"""Nodes of the tree."""

MOST_MACROS = 4
"""Macros inside each other."""

MOST_PATTERN = 1_000
"""Characters of a regular expression."""

MOST_PATTERN_MEMORY = 1 << 20
"""Bytes that RE2 may take for one regular expression, its automaton included."""

MOST_STEPS = 10_000
"""Elements that the macros of one evaluation may visit together."""

MOST_SIZE = 1 << 20
"""Characters, bytes or elements of one value that `+` makes."""

MOST_XPATH = 1_000
"""Characters of an XPath expression."""
