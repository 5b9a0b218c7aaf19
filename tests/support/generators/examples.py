"""How many random examples a test takes that has a number of its own."""

import os

IS_LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"


def some(count: int) -> int:
    """So many in `make test`, and twenty times as many in `make fuzz`."""
    return 20 * count if IS_LONG else count
