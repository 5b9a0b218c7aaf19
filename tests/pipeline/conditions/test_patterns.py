"""Regular expressions that are native find what RE2 finds; what Java may take long for is not native."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.language.evaluators.patterns import matches
from penstock.pipeline.conditions.native.patterns import native_pattern

NATIVE = [
    "",
    "^",
    "$",
    "^$",
    "pump",
    "^pump",
    "pump$",
    "^pump-7$",
    r"^pump\.7$",
    r"a\\b",
    "a.b",
    "^a.b$",
    r"^pump-[0-9]+$",
    r"^[a-z]*$",
    r"^\d+$",
    r"\d$",
    r"^\w+$",
    r"\W",
    r"^\S+$",
    r"\s",
    r"[^\s]$",
    r"^[^a-c]",
    "[-a]$",
    "[a-]$",
    r"[\]\-x]",
    r"[\d.]$",
    "^(?:pump|fan)-",
    "(pump|fan|light|door|window|alarm|sensor|meter)-7$",
    "^(a|b|)c",
    "a{2}",
    "^a{2,3}$",
    "ab?c",
    "ab??c",
    "pump-[0-9]+",
    "x.*",
    "^.*$",
    "^.+x$",
    "é",
    "^[à-ÿ]+$",
    "^.𝄞$",
    "a|^b|c$",
    "^[+*?.(){}|]$",
    "\n$",
    "~@#%&!<>=:;,'\"/_ -",
]

GAPS = [
    r"(a+)+$",
    "^(ab)*$",
    ".*a.*b",
    "^a*b*$",
    "a+b",
    "[0-9]+$",
    r"\bpump\b",
    "(?i)pump",
    r"\pL",
    "[[:alpha:]]",
    "[a&&b]",
    r"\x41",
    r"\Aa\z",
    "a{2}{3}",
    "a{,3}",
    r"^(a?){5}$",
    "a?" * 7,
    "[a-c-e]",
]

STRINGS = [
    "",
    "a",
    "ab",
    "aa",
    "aaa",
    "aaaa",
    "abc",
    "ac",
    "c",
    "a\\b",
    "axb",
    "a\nb",
    "a\rb",
    "a\u2028b",
    "a\x85b",
    "pump",
    "pump-7",
    "pump.7",
    "pump-7\n",
    "pump-7\r\n",
    "the pump-42",
    "fan-7",
    "meter-7",
    "7",
    "٣",
    "x",
    "-",
    "]",
    "é",
    "àé",
    "a𝄞",
    "𝄞𝄞",
    "a b",
    "a\x0bb",
    "\x0b",
    "a\tb",
    "\u00a0",
    "word_1",
    "wörd",
    "|",
    "\n",
    "~@#%&!<>=:;,'\"/_ -",
]


def test_native_patterns_find_what_re2_finds(spark: SparkSession) -> None:
    tests = [native_pattern(pattern) for pattern in NATIVE]
    assert [pattern for pattern, test in zip(NATIVE, tests, strict=True) if test is None] == []
    table = spark.createDataFrame([(text,) for text in STRINGS], "text string")
    columns = [test(F.col("text")).alias(f"p{at}") for at, test in enumerate(tests) if test is not None]
    rows = table.select("text", *columns).collect()
    differences = [
        (pattern, row.text, found)
        for row in rows
        for pattern, found in zip(NATIVE, row[1:], strict=True)
        if found is not matches(row.text, pattern)
    ]
    assert differences == []


@pytest.mark.parametrize("pattern", GAPS)
def test_what_is_not_native(pattern: str) -> None:
    assert native_pattern(pattern) is None
