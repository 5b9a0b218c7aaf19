"""What a condition or a statement may cost at most. Both come from clients, so each bound is also a defence."""

from penstock.model.content.bounds import MOST_XPATH_TEXT

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

MOST_PATTERN_PROGRAM = 1 << 17
"""Bytes that RE2 may take to compile a regular expression: that is a program of about 8,000 instructions."""

MOST_PATTERN_MEMORY = 1 << 20
"""Bytes that RE2 may take for one regular expression, its automaton included."""

MOST_MATCHED = 1 << 16
"""Characters of a string that a regular expression is looked for in."""

MOST_WORK = 1_000_000
"""Steps of one evaluation (`work.py`), of about 0.1 us or less each. Content has at most 100,000 values, so that a
simple macro over any list of it is within the bound."""

MOST_EVENT_WORK = 5 * MOST_WORK
"""Steps of all evaluations on one content: many may ask of one event. Beyond it, what counts steps fails; what does
not, such as comparisons with constants, is not concerned."""

MOST_SIZE = 1 << 20
"""Characters, bytes or elements of one value that `+` makes."""

MOST_XPATH = MOST_XPATH_TEXT
"""Characters of an XPath expression."""

MOST_STATEMENT = 20_000
"""Characters of a policy statement."""

MOST_RULES = 50
"""Rules of a policy statement."""

MOST_CLAUSES = 50
"""Clauses of a rule, and of its `OnException`."""

MOST_ACTIONS = 50
"""Actions of a clause."""

MOST_ARGUMENTS = 200
"""Arguments of an action."""

MOST_STRING = 10_000
"""Characters of one argument."""
