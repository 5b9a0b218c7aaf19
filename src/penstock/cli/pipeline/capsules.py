"""`penstock pipeline capsules`: aggregated context, as the journal grows or as a broker sends."""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from penstock.cli.parsers import command_parser
from penstock.cli.pipeline.shared import add_stream_options, add_to_record, check_stream_options, run_job
from penstock.cli.pipeline.signals import wait
from penstock.cli.pipeline.stream import print_batch, print_batch_json
from penstock.domain import Domain, load
from penstock.journal.jobs import JobTable
from penstock.language.errors import EvaluationError
from penstock.language.evaluators.times import timestamp_from_string
from penstock.model.values import SECOND
from penstock.pipeline.capsules.rows import CapsuleReference
from penstock.pipeline.errors import ArgumentError, PipelineError
from penstock.pipeline.jobs.capsules import RESULT_KEY, Running, close, start
from penstock.pipeline.mqtt.connection import BrokerAddress
from penstock.pipeline.mqtt.publish import ViewPublisher
from penstock.pipeline.spark.policies import following, judged_by

_EPILOG = """\
Of each capsule there are tables in FOLDER/NAME: `results`, a row for each window and group; `quarantine`, events that
could not be taken, or came late where the domain says that these are kept. Stopped or killed, the same command goes on
where it was: the tables have each window once. What is published may be published again after a kill; the user property
`governed-id` is then the same.
From a journal, a capsule is given the authorised view of its client; from a broker, what that sends to the client.
Exit code: 0, 1 if the job fails, 2 for bad arguments, 3 if the domain does not check.
"""
_SCHEMES = ("mqtt://", "mqtts://")
_OUT = "-out"
_OF_DOMAIN = ""


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        "pipeline capsules",
        "Run the capsules of a domain: windows of events in, context of a higher level out.",
        _EPILOG,
    )
    add = parser.add_argument
    add("--domain", type=Path, required=True, metavar="FILE", help="the domain file that has the capsules")
    add(
        "--from",
        dest="origin",
        required=True,
        metavar="WHERE",
        help="the folder of a journal, or mqtt://[…@]host[:port]",
    )
    add("--to", type=Path, required=True, metavar="FOLDER", help="where the tables are written")
    add("--capsule", action="append", metavar="NAME", help="run this one (may be repeated; default: all)")
    add(
        "--publish",
        nargs="?",
        const=_OF_DOMAIN,
        metavar="URL",
        help="also publish results, as the capsule's client: to mqtt://[user[:password]@]host[:port], else to the"
        " broker of --from, else to the node that the domain has the client at",
    )
    add(
        "--until",
        metavar="TIME",
        help="with --once: then close what ends by this time, as 2026-01-31T12:00:00Z or `now`; say so only if all that"
        " came before it is there, as what comes later is late",
    )
    add_stream_options(parser, "all present input is processed", "new input")
    return parser


def main(argv: list[str]) -> int:
    parser = _parser()
    options = parser.parse_args(argv)
    check_stream_options(parser, options)
    if options.until is not None and not options.once:
        parser.error("--until is for --once")
    return run_job("capsules", options, lambda spark: _run(spark, options), lambda _: {})


def _run(spark: SparkSession, options: argparse.Namespace) -> None:
    domain = load(options.domain)
    publishers = dict[str, ViewPublisher]()
    runnings = list[Running]()
    for name in _names(domain, options.capsule):
        origin = origin_of(domain, name, options)
        if isinstance(origin, Path):
            policies = following(options.domain, origin)
        else:
            policies = judged_by(domain, options.domain.parent)
        if options.publish is not None:
            if domain.capsules[name].runs == "node":
                raise ArgumentError(f"capsule `{name}` runs in the node of its client, which publishes its results")
            publishers[name] = ViewPublisher(target_of(domain, name, options, origin), "", by=RESULT_KEY)
        partitions = spark.sparkContext.defaultParallelism
        reference = CapsuleReference(policies, name)
        runnings.append(Running(reference, origin, options.to / name, options.max_bytes, partitions))
    folders = [options.to / running.reference.name for running in runnings]
    add_to_record(options, tables=[JobTable(str(folder.resolve())) for folder in folders])
    show = print_batch_json if options.json else print_batch
    queries = []
    try:
        for running in runnings:
            publisher = publishers.get(running.reference.name)
            publish = None if publisher is None else publisher.publish
            queries.append(start(spark, running, options.once, options.every, publish, show))
        if options.once:
            wait(*(query.awaitTermination for query in queries))
            for running in runnings if options.until is not None else ():
                publisher = publishers.get(running.reference.name)
                publish = None if publisher is None else publisher.publish
                close(spark, running, _time(options.until), publish, show)
        else:  # one that ends, ends all: otherwise nobody would notice
            wait(spark.streams.awaitAnyTermination)
    finally:
        for query in queries:
            query.stop()
        for publisher in publishers.values():
            publisher.close()


def _names(domain: Domain, requested: list[str] | None) -> list[str]:
    if not domain.capsules:
        raise PipelineError("the domain has no capsules")
    for name in requested or ():
        if name not in domain.capsules:
            available = ", ".join(f"`{name}`" for name in domain.capsules)
            raise ArgumentError(f"there is no capsule `{name}`; the domain has {available}")
    return list(dict.fromkeys(requested or domain.capsules))


def _time(text: str) -> float:
    if text == "now":
        return time.time()
    try:
        return timestamp_from_string(text).nanos / SECOND
    except EvaluationError as error:
        raise ArgumentError(f"--until: expected a time, as 2026-01-31T12:00:00Z: {error}") from None


def origin_of(domain: Domain, name: str, options: argparse.Namespace) -> Path | BrokerAddress:
    """Return where the events of a capsule come from."""
    if not options.origin.startswith(_SCHEMES):
        return Path(options.origin)
    return _as_client(domain, name, options.origin, "")


def target_of(domain: Domain, name: str, options: argparse.Namespace, origin: Path | BrokerAddress) -> BrokerAddress:
    """Return the broker that results go to; where events come from it too, the client needs a second connection."""
    is_second = isinstance(origin, BrokerAddress)
    url = options.publish or (options.origin if is_second else _node_url(domain, name))
    client = domain.capsules[name].client
    if is_second and domain.clients[client].client_id(client) is not None:
        raise ArgumentError(
            f"client `{client}` is known by its client id, and one id can have one connection: to take events from a"
            " broker and publish there, give it `user`, and rights by that"
        )
    return _as_client(domain, name, url, _OUT if is_second else "")


def _as_client(domain: Domain, name: str, url: str, ending: str) -> BrokerAddress:
    client = domain.capsules[name].client
    settings = domain.clients[client]
    id = settings.client_id(client) or f"{client}-{name}"
    broker = BrokerAddress.of_url(url, f"{id}{ending}")
    return broker if broker.username is not None else replace(broker, username=settings.user)


def _node_url(domain: Domain, name: str) -> str:
    client = domain.capsules[name].client
    (node,) = domain.clients[client].node
    for listener in domain.nodes[node].listeners:
        if not listener.websocket and listener.address.port:
            host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(listener.address.host, listener.address.host)
            at = f"[{host}]" if ":" in host else host
            return f"mqtt{'s' if listener.tls else ''}://{at}:{listener.address.port}"
    raise ArgumentError(f"node `{node}` has no listener for MQTT with a port: say where with --publish URL")
