"""The stage admit: may this subject publish here?"""

from tests.support.cases.playing import case_tests

test_cases = case_tests("admit")
