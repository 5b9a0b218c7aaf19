"""`penstock pipeline stream`: authorised views as the journal grows."""

import argparse
import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser
from penstock.cli.pipeline.shared import add_stream_options, add_to_record, check_stream_options, nodes_of, run_job
from penstock.cli.pipeline.signals import wait
from penstock.journal.jobs import JobTable
from penstock.pipeline.errors import ArgumentError
from penstock.pipeline.jobs.govern import VIEW, every_subject
from penstock.pipeline.jobs.stream import Stream, StreamBatch, start
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.mqtt.publish import SUBJECT, ViewPublisher, check_prefix
from penstock.pipeline.spark.policies import Asker, following

_EPILOG = f"""\
Each batch is written as Parquet to FOLDER/view/batch=N, by subject and date, when the node has sealed segments; what of
the journal cannot be read, to FOLDER/quarantine. Stopped or killed, the same command goes on where it was: the tables
have each event once. What is published by MQTT may be published again after a kill; the user property `governed-id` is
then the same. Monitors go on in the states that the checkpoint has.
In the prefix of topics, {SUBJECT} stands for the name of the subject.
Exit code: 0, 1 if the job fails, 2 for bad arguments, 3 if the domain does not check.
"""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "pipeline stream", "Write the part of the events that subjects may read, as nodes record them.", _EPILOG
    )
    add = parser.add_argument
    add("--domain", type=Path, required=True, metavar="FILE", help="judge everything by this domain file")
    add("--from", dest="journal", type=Path, required=True, metavar="JOURNAL", help="the folder of a journal")
    add("--to", type=Path, required=True, metavar="FOLDER", help="where the tables are written")
    add("--checkpoint", type=Path, required=True, metavar="FOLDER", help="where the stream keeps its progress")
    subjects = parser.add_mutually_exclusive_group(required=True)
    subjects.add_argument("--subject", action="append", metavar="NAME", help="a client of the domain, or a client id")
    subjects.add_argument("--all-subjects", action="store_true", help="every client that the domain lists")
    add("--user", help="the user name of a subject that is not listed")
    add("--node", action="append", metavar="NAME", help="only what this node records (may be repeated)")
    add("--publish", metavar="URL", help="also publish views to a broker: mqtt://[user[:password]@]host[:port]")
    add("--topic-prefix", metavar="P", default=f"governed/{SUBJECT}", help="publish to P/TOPIC (default: %(default)s)")
    add("--client-id", metavar="ID", default="penstock-stream", help="publish as this client (default: %(default)s)")
    add_stream_options(parser, "all segments sealed by now are processed", "new segments")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    if options.user is not None and options.all_subjects:
        parser.error("--user goes with --subject")
    check_stream_options(parser, options)
    try:
        _check_publish(options)
    except ArgumentError as error:
        parser.error(str(error))
    return run_job("stream", options, lambda spark: _stream(spark, options), lambda _: {})


def _check_publish(options: argparse.Namespace) -> None:
    """Check the options before anything is started; raise `ArgumentError`. The number of subjects is not known yet."""
    if options.publish is not None:
        BrokerAddress.of_url(options.publish, options.client_id)
        check_prefix(options.topic_prefix, len(set(options.subject or ("",))))


def _stream(spark: SparkSession, options: argparse.Namespace) -> None:
    askers = _askers(options)
    places = (options.journal, options.domain, options.to, options.checkpoint)
    partitions = spark.sparkContext.defaultParallelism
    stream = Stream(*places, askers, nodes_of(options), options.max_bytes, partitions)
    add_to_record(options, tables=[JobTable(str((options.to / VIEW).resolve()))])
    publisher = None
    if options.publish is not None:
        check_prefix(options.topic_prefix, len(askers))
        publisher = ViewPublisher(BrokerAddress.of_url(options.publish, options.client_id), options.topic_prefix)
    show = print_batch_json if options.json else print_batch
    query = start(spark, stream, options.once, options.every, publisher.publish if publisher else None, show)
    try:
        wait(query.awaitTermination)
    finally:
        query.stop()
        if publisher is not None:
            publisher.close()
            if publisher.too_long:
                what = "with the prefix, their topics are longer than MQTT allows"
                print(f"{publisher.too_long} events were not published: {what}", file=sys.stderr)


def _askers(options: argparse.Namespace) -> tuple[Asker, ...]:
    if options.all_subjects:
        return every_subject(following(options.domain, options.journal))
    return tuple(Asker(name, options.user) for name in dict.fromkeys(options.subject))


def print_batch(batch: StreamBatch) -> None:
    """Say what a batch gave, in a line."""
    counts = ", ".join(f"{name} {count}" for name, count in sorted(batch.counts.items()))
    print(f"batch {batch.number}: {counts or 'nothing for anybody'}", flush=True)


def print_batch_json(batch: StreamBatch) -> None:
    """Print the same as JSON."""
    print(json.dumps({"batch": batch.number, "subjects": batch.counts}), flush=True)
