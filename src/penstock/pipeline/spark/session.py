"""The Spark session of a job: where it runs is a setting, and what goes wrong is said in a sentence."""

import importlib.util
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.journal.private import OTHERS
from penstock.pipeline.errors import ArgumentError, PipelineError

SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    # As journals are: for the user and its group only.
    "spark.hadoop.fs.permissions.umask-mode": f"{OTHERS:03o}",
    # A task writes so many files at a time before it has to sort its rows by subject and date.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # Partition columns are text (subjects, dates): `007` is not a number.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    # Otherwise each expression that is made asks for the stack of the caller, which takes twice as long as making it.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A busy machine takes longer than Spark's 15 seconds to start a worker of Python's.
    "spark.python.authenticate.socketTimeout": "180s",
}
LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "32",
    "spark.python.daemon.module": "penstock.pipeline.spark.daemon",
}
"""On one machine nothing listens beyond it, and what is installed here is installed where the work is."""
SMALL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""For few rows, on one machine: making Java of each plan, and Java fast, takes longer than the work."""

_JAVA = (
    "Spark needs Java 17 or 21, and there is none: install one (Debian and Ubuntu:"
    " `apt install openjdk-17-jre-headless`; macOS: `brew install openjdk@17`) and put it on the PATH or set JAVA_HOME,"
    " or name a Spark Connect server with --master sc://HOST or SPARK_REMOTE"
)
_HERE = "local[*]"
_PLACE = re.compile(r"local(\[(\*|\d+)(, *\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s|sc)://\S+")
_PYTHON_ERROR = re.compile(
    r"^(?:  )?(?!(?:org|java|javax|scala|com|io|py4j)\.)(?:[\w.]+\.)?(\w+(?:Error|Exception|Gap)): (.+)$", re.MULTILINE
)


def open_session(
    master: str | None = None, name: str = "penstock", settings: Mapping[str, str] = MappingProxyType({})
) -> SparkSession:
    """Return a session on `master` (`local[*]`, `spark://…`, `yarn`, `k8s://…`, or `sc://…` for Connect).

    Without one it is where SPARK_REMOTE says, else on this machine with all its cores; there, `settings` count too.
    Raises `PipelineError`.
    """
    remote = master if master is not None and master.startswith("sc://") else None
    if master is None:
        remote = os.environ.get("SPARK_REMOTE")
    check_place(remote or master or _HERE)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with readable():
        builder = SparkSession.builder.appName(name)
        if remote is not None:
            return _set(builder.remote(remote).getOrCreate())
        find_java()
        where = master or _HERE
        for key, value in (SETTINGS | LOCAL | dict(settings) if where.startswith("local") else SETTINGS).items():
            builder = builder.config(key, value)
        with _quiet():
            session = builder.master(where).getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        return session


def _set(session: SparkSession) -> SparkSession:
    """Set what changes results: the session of a server has its own settings."""
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    return session


def check_place(where: str) -> None:
    """Raise `PipelineError` if this is not where Spark can run, or what is needed to reach it is not installed."""
    if not _PLACE.fullmatch(where):
        raise ArgumentError(
            f"`{where}` is not where Spark can run: expected local[N], spark://HOST:PORT, yarn, k8s://…, or sc://HOST"
            " for a Spark Connect server"
        )
    if where.startswith("sc://") and importlib.util.find_spec("grpc") is None:
        raise PipelineError("a Spark Connect server needs the module `grpc`: install `pyspark[connect]`")


def find_java() -> str:
    """Return the `java` that Spark will start; raises `PipelineError`, which says how to get one."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = shutil.which("java", path=str(Path(home) / "bin"))
        if java is None:
            raise PipelineError(f"JAVA_HOME is `{home}`, and there is no Java in it; {_JAVA}")
        return java
    java = shutil.which("java")
    if java is None:
        raise PipelineError(_JAVA)
    return java


@contextmanager
def _quiet() -> Iterator[None]:
    """Java's greetings go to a descriptor that Python's streams know nothing of."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def readable() -> Iterator[None]:
    """Turn what Spark raises into a `PipelineError` of one sentence; the trace is its cause."""
    try:
        yield
    except PySparkException as error:
        raise PipelineError(sentence(*_causes(error))) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("py4j", "grpc"):
            raise PipelineError(sentence(str(error))) from error
        raise


def _causes(error: BaseException) -> Iterator[str]:
    """Return the text of an error, then of the one that caused it, and so on: Spark wraps them."""
    cause: BaseException | None = error
    while cause is not None:
        yield str(cause)
        cause = getattr(cause, "_cause", None)


def sentence(*texts: str) -> str:
    """Return what went wrong, by the texts of Spark's error and its causes.

    It is the last Python error if there is one, else the last cause, without the name of its class.
    """
    ours = _PYTHON_ERROR.findall("\n".join(texts))
    if ours:
        return str(ours[-1][1]).strip()
    text = texts[-1]
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    words = causes[-1] if causes else next((line for line in lines if not line.startswith("An error occurred")), text)
    return re.sub(r"^(?:[\w$]+\.)+[\w$]+(?:Exception|Error)?: ", "", words)
