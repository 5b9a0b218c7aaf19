"""How much content is decoded. Payloads come from clients, so each bound is also a defence."""

MOST_BYTES = 1 << 20
"""Bytes of a payload."""

MOST_DEPTH = 64
"""Values inside each other."""

MOST_NODES = 100_000
"""Values of one content: members, elements, metrics."""

MOST_XPATH_WORK = 3_000_000
"""Steps that evaluating an XPath expression may take by our estimate, about 10 ns each."""

MOST_XPATH_TEXT = 1_000
"""Characters of an XPath expression, and so of the texts in it."""

MOST_XPATH_NAMES = 1 << 20
"""Bytes of XML names that are kept in memory for good."""
