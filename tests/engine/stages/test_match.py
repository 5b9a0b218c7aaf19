"""The stage match: which subscriptions does an event satisfy?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("match")
