"""Times of evidence, for whoever reads what the job `trust` prints."""

import pytest

from penstock.pipeline.jobs.trust import moment


@pytest.mark.parametrize(
    ("at", "shown"),
    [
        (None, ""),
        (0.0, "1970-01-01T00:00:00+00:00"),
        (-99_999_999_999.0, "-1e+11"),
        (-1e300, "-1e+300"),
        (1e300, "1e+300"),
    ],
)
def test_a_time_that_no_calendar_has_is_shown_as_it_was_recorded(at: float | None, shown: str) -> None:
    assert moment(at) == shown
