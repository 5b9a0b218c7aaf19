"""The stage judge: what do policy statements do to an event?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("judge")
