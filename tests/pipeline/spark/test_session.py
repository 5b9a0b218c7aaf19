"""The session: Java is found or asked for, and what Spark says becomes a sentence."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.session import check_place, find_java, readable, sentence


def test_without_java_a_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PipelineError, match=r"Spark needs Java 17 or 21.*apt install openjdk-17-jre-headless"):
        find_java()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(PipelineError, match=f"JAVA_HOME is `{tmp_path}`"):
        find_java()


def test_java_is_found_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_java() == str(java)


@pytest.mark.parametrize(
    "place", ["local", "local[*]", "local[2]", "local[2, 4]", "spark://h:1,i:2", "yarn", "k8s://x"]
)
def test_where_spark_can_run(place: str) -> None:
    check_place(place)


@pytest.mark.parametrize("place", ["nonsense", "local[x]", "spark:h", "http://h", ""])
def test_where_spark_cannot_run_is_said_before_java_is_started(place: str) -> None:
    with pytest.raises(PipelineError, match="is not where Spark can run: expected local"):
        check_place(place)


def test_a_connect_server_without_grpc_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PipelineError, match=r"install `pyspark\[connect\]`"):
        check_place("sc://localhost")


def test_an_error_of_spark_is_one_line(spark: SparkSession) -> None:
    with pytest.raises(PipelineError) as error, readable():
        spark.range(1).select("nowhere").collect()
    assert "nowhere" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_error_of_ours_in_a_worker_is_what_is_said(spark: SparkSession) -> None:
    def fail(batches):  # type: ignore[no-untyped-def]
        raise PipelineError("policies `abc` are lost")
        yield from batches

    with pytest.raises(PipelineError) as error, readable():
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert str(error.value) == "policies `abc` are lost"


def test_a_failure_of_java_is_its_cause(spark: SparkSession) -> None:
    with pytest.raises(PipelineError) as error, readable():
        spark.range(1).select(F.raise_error(F.lit("it is broken"))).collect()
    assert "it is broken" in str(error.value)
    assert "\n" not in str(error.value)


def test_what_caused_it_is_said_rather_than_what_wraps_it() -> None:
    wrapped = ("[STREAM_FAILED] it failed", "org.apache.spark.SparkException: Exception thrown in awaitResult: ")
    assert sentence(*wrapped, "[STATE] there is no state\nmore of it") == "[STATE] there is no state"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "An error occurred while calling o1.x.\n: java.io.IOException: no space\n\tat a.b\nCaused by: a.B: why\n",
            "why",
        ),
        (
            "An error occurred while calling o1.x.\n: org.apache.hadoop.fs.ParentNotDirectoryException: Parent path is"
            " no directory: file:/t\n\tat a.b\n",
            "Parent path is no directory: file:/t",
        ),
        ("[TABLE] there is none; line 1\n\nmore", "[TABLE] there is none; line 1"),
        ("  File x\npenstock.pipeline.errors.PipelineError: lost\n\tat org.apache", "lost"),
        (
            "[FAILED] Return Message: Traceback\npy4j.protocol.Py4JJavaError: An error occurred while calling o1.x.\n"
            ": org.apache.spark.SparkException: aborted\n\tat a.b\nCaused by: java.io.IOException: no space\n\tat a\n",
            "no space",
        ),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o1.x.\n: org.apache.spark.SparkException: \n"
            "Error from python worker:\n  Traceback\n      import x\n  ModuleNotFoundError: No module named 'x'\n",
            "No module named 'x'",
        ),
    ],
)
def test_a_sentence(text: str, said: str) -> None:
    assert sentence(text) == said
