"""The stage conform: does an event keep its producer's advertisements?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("conform")
