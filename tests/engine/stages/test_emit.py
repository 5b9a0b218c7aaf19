"""The stage emit: out, within the subscriber's window, in order."""

from tests.support.cases.playing import case_tests

test_cases = case_tests("emit")
