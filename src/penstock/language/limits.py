"""Bounds on the cost of a condition or a statement. Both come from clients, so each bound is also a defence."""

from penstock.model.content.bounds import MAX_XPATH_TEXT

MAX_TEXT = 10_000
"""Characters of a condition."""

MAX_DEPTH = 80
"""Expressions inside each other. CEL asks for 32 of each kind; the evaluators recurse once for each."""

MAX_NODES = 2_000
"""Nodes of the tree."""

MAX_MACROS = 4
"""Macros inside each other."""

MAX_PATTERN = 1_000
"""Characters of a regular expression."""

MAX_PATTERN_PROGRAM = 1 << 17
"""Bytes that RE2 may take to compile a regular expression: that is a program of about 8,000 instructions."""

MAX_PATTERN_MEMORY = 1 << 20
"""Bytes that RE2 may take for one regular expression, its automaton included."""

MAX_MATCHED = 1 << 16
"""Characters of a string that a regular expression is looked for in."""

MAX_WORK = 1_000_000
"""Steps of one evaluation (`work.py`), of about 0.1 us or less each. Content has at most 100,000 values, so that a
simple macro over any list of it is within the bound."""

MAX_EVENT_WORK = 5 * MAX_WORK
"""Steps of all evaluations on one content: many may ask of one event. Beyond it, what counts steps fails; what does
not, such as comparisons with constants, is not concerned."""

MAX_SIZE = 1 << 20
"""Characters, bytes or elements of one value that `+` makes."""

MAX_XPATH = MAX_XPATH_TEXT
"""Characters of an XPath expression."""

MAX_STATEMENT = 20_000
"""Characters of a policy statement."""

MAX_RULES = 50
"""Rules of a policy statement."""

MAX_CLAUSES = 50
"""Clauses of a rule, and of its `OnException`."""

MAX_ACTIONS = 50
"""Actions of a clause."""

MAX_ARGUMENTS = 200
"""Arguments of an action."""

MAX_STRING = 10_000
"""Characters of one argument."""
