"""Numbers within bounds, else NULL.

`when(a <= x & x <= b, x)` would write `x` three times, and again in each expression around it. So each bound is moved
to where decimals end, and the number stands here once.
"""

from decimal import Decimal

from pyspark.sql import Column
from pyspark.sql import functions as F

_DIGITS = 30
_TOP = 10**_DIGITS - 1


def within(number: Column, minimum: int, maximum: int) -> Column:
    """Return a whole number of at most 28 digits, as a decimal; NULL beyond the bounds."""
    from_above, from_below = _TOP - maximum, minimum + _TOP
    low_enough = (number.cast("decimal(28,0)") + F.lit(Decimal(from_above))).try_cast(f"decimal({_DIGITS},0)")
    high_enough = (low_enough - F.lit(Decimal(from_above + from_below))).try_cast(f"decimal({_DIGITS},0)")
    return high_enough + F.lit(Decimal(from_below))
