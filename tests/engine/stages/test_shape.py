"""The stage shape: what does the monitor of the outgoing link make of an event?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("shape")
