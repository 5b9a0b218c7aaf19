"""Bounds on the decoding of content. Payloads come from clients, so each bound is also a defence."""

MAX_BYTES = 1 << 20
"""Bytes of a payload."""

MAX_DEPTH = 64
"""Values inside each other."""

MAX_NODES = 100_000
"""Values of one content: members, elements, metrics."""

MAX_XPATH_WORK = 3_000_000
"""Steps that evaluating an XPath expression may take by our estimate, about 10 ns each."""

MAX_XPATH_TEXT = 1_000
"""Characters of an XPath expression, and so of the texts in it."""

MAX_XPATH_NAMES = 1 << 20
"""Bytes of XML names that are kept in memory for good."""
