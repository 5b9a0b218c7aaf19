"""The job `stream`: what it writes batch by batch is what nodes delivered; what it needs to go on is checked."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.domain.yaml.write import domain_text
from penstock.engine.monitors import Watch
from penstock.engine.node import Node
from penstock.engine.sessions import placement
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.govern import read_view
from penstock.pipeline.jobs.stream import Stream, StreamBatch, start
from penstock.pipeline.spark.policies import Asker, following
from penstock.pipeline.state.monitors import LINKS, LinkMonitors
from penstock.pipeline.tables.stream_marks import StreamLedger
from tests.support.generators.brokering import BrokeringPlays, gathered, plays
from tests.support.memory.recording import Written, differences, viewed

pytestmark = pytest.mark.recorded

SHAPE: dict[str, object] = {"subjects": ["a"]}


def test_streamed_views_are_what_nodes_delivered(spark: SparkSession, tmp_path: Path) -> None:
    """Trees and cycles, with monitors on links into nodes and to subjects, in several batches."""
    scenes = gathered(8, plays()) + gathered(8, plays(cyclic=True))
    joined = BrokeringPlays(scenes, tmp_path)
    journal = Written(tmp_path / "journal")
    delivered = joined.played(journal)
    domain = tmp_path / "domain.yaml"
    domain.write_text(domain_text(joined.renamed("monitors")))
    size = sum(path.stat().st_size for path in journal.folder.glob("node=*/*/*.arrow"))
    askers = tuple(map(Asker, joined.subjects))
    places = journal.folder, domain, tmp_path / "views", tmp_path / "checkpoint"
    stream = Stream(*places, askers, max_bytes=size // 2, partitions=1)
    batches: list[StreamBatch] = []
    query = start(spark, stream, once=True, on_batch=batches.append)
    query.awaitTermination()
    wrong = differences(viewed(read_view(spark, stream.folder)), delivered)
    assert not wrong, f"{wrong[0]}\n{joined.told(wrong[0].split()[0])}"
    assert len(batches) > 1
    assert sum(sum(batch.counts.values()) for batch in batches) == sum(map(len, delivered.values()))


def test_what_links_remember_comes_back(tmp_path: Path) -> None:
    (tmp_path / "domain.yaml").write_text(
        "domain: d\nnodes: {n: {listen: '127.0.0.1:1'}}\nclients: {c: {node: n, type: t}}\nbrokering: {types: [t]}\n"
        "monitors: {m: {link: c -> n, states: {q0: {'*': {pass: true, next: q1}}, q1: {'*': suppress}}}}\n"
    )
    policies = following(tmp_path / "domain.yaml", tmp_path)
    policy = next(policies.judging)
    row = {"policy": policy.digest, "node": "n", "source": "c"}
    links = LinkMonitors(policies, "source", {})
    _, node, is_new = links.enter(row)
    assert is_new
    _watch(node).move(0, "q1")
    again = LinkMonitors(policies, "source", links.keep())
    assert _watch(again.enter(row)[1]).states == ["q1"]
    assert _watch(again.enter({**row, "source": "another"})[1]).states == ["q0"]


def test_states_of_another_version_are_refused() -> None:
    with pytest.raises(PipelineError, match=f"states of version {LINKS.version + 1}, not {LINKS.version}"):
        LINKS.read((LINKS.version + 1, b"[]"))


def _watch(node: Node) -> Watch:
    watch = placement.watch(node, node.ensemble.links["c", "n"])
    assert watch is not None
    return watch


def test_tables_and_checkpoint_belong_together(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    token = _opened(one, tmp_path / "c1")
    assert _opened(one, tmp_path / "c1") == token
    assert _opened(other, tmp_path / "c2") != token
    with pytest.raises(PipelineError, match="is not the checkpoint of the stream"):
        _opened(one, tmp_path / "c2")
    with pytest.raises(PipelineError, match="is not the checkpoint of the stream"):
        _opened(one, tmp_path / "c3")


def test_a_stream_is_for_the_subjects_that_it_began_with(tmp_path: Path) -> None:
    _opened(tmp_path / "t", tmp_path / "c")
    with pytest.raises(PipelineError, match="began with other subjects"):
        StreamLedger.open(tmp_path / "t", tmp_path / "c", {"subjects": ["a", "b"]})


def test_what_another_job_wrote_is_not_added_to(tmp_path: Path) -> None:
    (tmp_path / "t" / "view").mkdir(parents=True)
    with pytest.raises(PipelineError, match="no stream made it"):
        StreamLedger.open(tmp_path / "t", tmp_path / "c", SHAPE)


def test_two_do_not_stream_to_the_same_tables(tmp_path: Path) -> None:
    first = StreamLedger.open(tmp_path / "t", tmp_path / "c", SHAPE)
    with pytest.raises(PipelineError, match="another process is streaming"):
        StreamLedger.open(tmp_path / "t", tmp_path / "c", SHAPE)
    first.close()


def _opened(folder: Path, checkpoint: Path) -> str:
    ledger = StreamLedger.open(folder, checkpoint, SHAPE)
    ledger.close()
    return ledger.token
