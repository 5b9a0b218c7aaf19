"""The stage release: do the consumer's guarantees satisfy the producer's contract?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("release")
