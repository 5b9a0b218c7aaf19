"""Topic filters as Spark's patterns mean what they mean in a node."""

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.model.topic import matches
from penstock.pipeline.tables.filters import is_on

FILTERS: tuple[str, ...] = (
    "a",
    "a/b",
    "#",
    "+",
    "+/+",
    "a/#",
    "a/+",
    "a/+/c",
    "+/b/#",
    "/",
    "/+",
    "a//b",
    "$SYS/#",
    "$SYS/+",
)
FILTERS += ("a.b", "a$", "[x]/(y)*", "\\d/#", "a b/+", "é/+", "a\nb")
TOPICS: tuple[str, ...] = (
    "a",
    "a/b",
    "a/b/c",
    "/",
    "/a",
    "a/",
    "a//b",
    "$SYS",
    "$SYS/x",
    "$SYS/x/y",
    "a.b",
    "aXb",
    "a$",
    "x/y",
    "b/b",
)
TOPICS += ("[x]/(y)*", "7/x", "\\d/x", "a b/c", "é/ß", "a\nb", "a\n", "aa")


def test_a_filter_as_a_pattern(spark: SparkSession) -> None:
    topics = spark.createDataFrame([(topic,) for topic in TOPICS], "topic string")
    row = topics.select(
        "topic", *(is_on(one, F.col("topic")).alias(f"f{at}") for at, one in enumerate(FILTERS))
    ).collect()
    found = {(filter, one.topic): one[f"f{at}"] for one in row for at, filter in enumerate(FILTERS)}
    assert found == {(filter, topic): matches(filter, topic) for filter in FILTERS for topic in TOPICS}
