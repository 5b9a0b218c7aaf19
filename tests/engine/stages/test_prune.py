"""The stage prune: which metrics of a message may its publisher write?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("prune")
