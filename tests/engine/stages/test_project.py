"""The stage project: which metrics may a reader see, and which does it get back?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("project")
