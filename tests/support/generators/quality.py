"""Quality at random."""

from hypothesis import strategies as st

from penstock.model.quality import MetricKey, MetricValue, Quality
from penstock.model.values import FIRST_SECOND, LAST_SECOND, SECOND, Timestamp
from penstock.policy.quality.criteria import LIBRARY

ids = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,8}", fullmatch=True)
keys = st.builds(MetricKey, ids, ids, ids)
times = st.integers(FIRST_SECOND * SECOND, (LAST_SECOND + 1) * SECOND - 1).map(Timestamp)
numbers = st.floats(allow_nan=False, allow_infinity=False)
values = st.builds(MetricValue, keys, numbers, times, st.none() | times)
qualities = st.lists(values, max_size=6, unique_by=lambda one: one.key).map(Quality)


_of_library = st.builds(MetricValue, st.sampled_from(tuple(LIBRARY)), st.floats(0, 100), st.just(Timestamp(0)))
library_qualities = st.lists(_of_library, max_size=7, unique_by=lambda one: one.key).map(Quality)
"""Of the library's metrics, with values that these have, measured at the epoch."""
