"""Sources of births for commands: sample files, a node's store, a journal, a live node."""

import argparse
import asyncio
import contextlib
import sqlite3
from base64 import b64decode
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.analysis.access import PlantSample
from penstock.engine.sparkplug.state import CERTIFICATES, governed
from penstock.model.errors import ContentError, PenstockError
from penstock.model.sparkplug.message import parse
from penstock.model.sparkplug.plain import write_plain
from penstock.model.sparkplug.topic import BIRTHS, NAMESPACE, STATE, message_topic
from penstock.policy.sparkplug.edge_nodes import Plant

Publication = tuple[str, bytes]

QUIET = 0.5
"""Seconds without another retained message after which a live node has sent all."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options for the sources of births."""
    group = parser.add_argument_group("births", "what metrics there are; without any of these only policies are shown")
    group.add_argument(
        "--births", type=Path, metavar="PATH", help="JSON lines with `topic` and `metrics`, or a folder of payloads"
    )
    group.add_argument("--store", type=Path, metavar="FILE", help="the store of a node that does not run")
    group.add_argument("--journal", type=Path, metavar="FOLDER", help="what nodes have recorded")
    group.add_argument("--connect", metavar="HOST:PORT", help="a live node: the certificates that it lets us read")
    group.add_argument("--id", metavar="ID", help="client id for --connect")
    group.add_argument("--user", metavar="NAME", help="user name for --connect")
    group.add_argument("--password-file", type=Path, metavar="PATH", help="file with the password of --user")


def sample_of(options: argparse.Namespace) -> PlantSample | None:
    """Read the births that the options name; None if they name none. Raises `PenstockError`."""
    publications: list[Publication] = []
    if options.births is not None:
        publications += read_births(options.births)
    if options.store is not None:
        publications += _of_store(options.store)
    if options.journal is not None:
        publications += _of_journal(options.journal)
    if options.connect is not None:
        publications += asyncio.run(_of_node(options))
    named = (options.births, options.store, options.journal, options.connect)
    return None if all(source is None for source in named) else _sample(publications)


def read_births(path: Path) -> Iterator[Publication]:
    """Read the messages of a sample, with their topics; raise `PenstockError`."""
    return _of_folder(path) if path.is_dir() else _of_lines(path)


def _sample(publications: Iterable[Publication]) -> PlantSample:
    plant, hosts = Plant(), list[str]()
    for topic, payload in publications:
        try:
            place = message_topic(governed(topic))
            if place.type == STATE:
                hosts.append(place.host)
            elif place.type in BIRTHS:
                plant.take(place, parse(payload))
        except ContentError as error:
            raise PenstockError(f"`{topic}`: {error}") from None
    return PlantSample(plant, tuple(dict.fromkeys(hosts)))


class _BirthLine(msgspec.Struct, forbid_unknown_fields=True):
    topic: str
    metrics: dict[str, Any] | None = None
    payload: str | None = None
    """In Base64."""


def _of_lines(file: Path) -> Iterator[Publication]:
    decode = msgspec.json.Decoder(_BirthLine).decode
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PenstockError(f"cannot read `{file}`: {error}") from None
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entry = decode(line)
                payload = b64decode(entry.payload or "") if entry.metrics is None else write_plain(entry.metrics)
            except (msgspec.DecodeError, ContentError, ValueError) as error:
                raise PenstockError(f"{file}:{number}: {error}") from None
            yield entry.topic, payload


def _of_folder(folder: Path) -> Iterator[Publication]:
    """Read a file for each payload, at its topic: `FOLDER/spBv1.0/G1/NBIRTH/E1`."""
    for file in sorted(folder.rglob("*")):
        topic = file.relative_to(folder).as_posix()
        if file.is_file() and governed(topic):
            yield topic, file.read_bytes()


def _of_store(file: Path) -> list[Publication]:
    if not file.is_file():
        raise PenstockError(f"there is no store `{file}`")
    statement = "SELECT topic, payload FROM retained WHERE topic LIKE ? OR topic LIKE ?"
    try:
        with sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=0.5) as store:
            return store.execute(statement, (f"{CERTIFICATES}%", f"{NAMESPACE}/{STATE}/%")).fetchall()
    except sqlite3.Error as error:
        raise PenstockError(f"store `{file}` cannot be read, ask a running node with --connect: {error}") from None


def _of_journal(folder: Path) -> Iterator[Publication]:
    from penstock.journal.read.tables import read

    for events, _ in read(folder):
        for row in events.select(["topic", "payload"]).to_pylist():
            topic = str(row["topic"])
            kind = topic.split("/")[2:3]
            if topic.startswith(f"{NAMESPACE}/") and kind and kind[0] in BIRTHS and row["payload"]:
                yield topic, bytes(row["payload"])


async def _of_node(options: argparse.Namespace) -> list[Publication]:
    from penstock.client import Client

    host, _, port = options.connect.rpartition(":")
    if not port.isdigit():
        raise PenstockError(f"--connect: expected HOST:PORT, found `{options.connect}`")
    password = options.password_file.read_text("utf-8").strip() if options.password_file is not None else None
    publications: list[Publication] = []
    client = Client(host or "localhost", int(port), client_id=options.id, username=options.user, password=password)
    async with client:
        for filter in (f"{CERTIFICATES}#", f"{NAMESPACE}/{STATE}/+"):
            events = aiter(await client.subscribe(filter))
            with contextlib.suppress(TimeoutError):  # retained messages come at once
                while True:
                    event = await asyncio.wait_for(anext(events), QUIET)
                    publications.append((event.topic, event.payload))
    return publications
