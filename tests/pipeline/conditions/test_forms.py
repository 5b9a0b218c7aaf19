"""Conditions of one form: with their constants beside them they are what they were."""

from hypothesis import given
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from penstock.language.condition import make_condition
from penstock.language.parser import parse
from penstock.language.tree import Literal, Tree, Variable, rebuilt
from penstock.pipeline.conditions.columns import native_holds
from penstock.pipeline.conditions.forms import ConditionForms, taken_apart
from tests.support.generators.conditions import expressions

SCHEMA = StructType([StructField("t", DoubleType()), StructField("n", LongType()), StructField("s", StringType())])
CONTENTS: list[dict[str, object]] = [
    {"t": 1.5, "n": 1, "s": "a"},
    {"t": 2.0, "n": 2, "s": "b"},
    {"t": -0.0, "n": -(2**63), "s": ""},
    {"t": float("nan"), "n": 2**63 - 1, "s": "a\0"},
    {"n": 2},
    {},
]
FORMS = [
    [f"t >= {bound}" for bound in ("1.5", "2.0", "0.0", "1e300")],
    [f"t < {bound}" for bound in ("1", "2", "9223372036854775807")],
    [f"{bound} <= n && s != '{text}'" for bound, text in (("2", "a"), ("2.0", "b"), ("1", ""))],
    [f"!(n == {bound}) || t > {bound}.5" for bound in ("1", "2")],
    [f"[1, 2].exists(x, x == n && x < {bound})" for bound in ("2", "3")],
    [f"s == '{text}' ? n == {bound} : n > {bound}" for text, bound in (("a", 1), ("b", 2))],
]
TEXTS = [text for texts in FORMS for text in texts]


@given(expressions())
def test_taken_apart_and_put_together(text: str) -> None:
    tree = parse(text)
    form, constants = taken_apart(tree)

    def put_back(node: Tree) -> Tree:
        if not isinstance(node, Variable) or " " not in node.name:
            return node
        kind, _, place = node.name.partition(" ")
        return Literal(kind, constants[kind][int(place)])  # type: ignore[arg-type]

    assert rebuilt(form, put_back) == tree


def test_conditions_that_differ_in_constants_have_one_form() -> None:
    assert [len(ConditionForms(texts)) for texts in FORMS] == [1, 1, 2, 1, 1, 1]


def test_what_they_come_to_on_spark(spark: SparkSession) -> None:
    rows = [(text, at, tuple(map(content.get, SCHEMA.names))) for text in TEXTS for at, content in enumerate(CONTENTS)]
    schema = StructType(
        [StructField("where", StringType()), StructField("content", LongType()), StructField("typed", SCHEMA)]
    )
    forms = ConditionForms(TEXTS)
    table = forms.beside(spark.createDataFrame(rows, schema))
    found = F.lit(None).cast("boolean")
    for form in forms.forms:
        outcome = native_holds(form.tree, SCHEMA, F.col("typed"), form.given)
        assert outcome is not None, form.tree
        found = F.when(form.applies, outcome).otherwise(found)
    answers = {(row["where"], row["content"]): row["found"] for row in table.withColumn("found", found).collect()}
    assert answers == {
        (text, at): make_condition(text).decide(content) is True
        for text in TEXTS
        for at, content in enumerate(CONTENTS)
    }
