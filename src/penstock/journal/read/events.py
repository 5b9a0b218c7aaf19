"""A segment as tables: its events, one per row, and the rows that cannot be read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.federation.wants import neighbour_in
from penstock.journal.format import EVENT_KINDS, OPEN, READABLE, RowKind
from penstock.journal.read.packets import PUBLISHER, Packets, read_packets
from penstock.journal.write.recover import read_intact

_TIME = pa.timestamp("us", "UTC")

REACHED = pa.struct(
    [
        pa.field("entity", pa.string(), nullable=False),
        pa.field("client_id", pa.string(), nullable=False),
        pa.field("user", pa.string()),
        pa.field("link_type", pa.string(), nullable=False),
        pa.field("neighbour", pa.string()),
        pa.field("qos", pa.int8(), nullable=False),
    ]
)
"""A session that a node sent an event to. `qos` is the subscription's."""

WITHHELD = pa.struct(
    [
        pa.field("effect", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("receivers", pa.list_(pa.string()), nullable=False),
        pa.field("count", pa.int32(), nullable=False),
    ]
)
"""Sessions that subscribe to an event and did not get it (`suppress`), or got something else (`replace`), and why."""

EVENTS = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("time", _TIME, nullable=False),
        pa.field("revision", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("arrival", pa.int64(), nullable=False),
        pa.field("place", pa.int32(), nullable=False),
        pa.field("client_id", pa.string(), nullable=False),
        pa.field("user", pa.string()),
        pa.field("entity", pa.string(), nullable=False),
        pa.field("link_type", pa.string(), nullable=False),
        pa.field("neighbour", pa.string()),
        pa.field("version", pa.int8(), nullable=False),
        *(pa.field(name, pa.string()) for name in PUBLISHER),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("retain", pa.bool_(), nullable=False),
        pa.field("content_type", pa.string()),
        pa.field("properties", pa.binary(), nullable=False),
        pa.field("expiry", pa.int64()),
        pa.field("path", pa.list_(pa.string()), nullable=False),
        pa.field("id", pa.string()),
        pa.field("effect", pa.string(), nullable=False),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("rule", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("open", pa.bool_(), nullable=False),
        pa.field("reached", pa.list_(REACHED), nullable=False),
        pa.field("facts", pa.string()),
        pa.field("withheld", pa.list_(WITHHELD)),
    ]
)
"""One row per event: as it came to a node, or as the monitors on its link changed it. See `docs/journal.md`."""

QUARANTINE = pa.schema(
    [
        pa.field("node", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("seq", pa.int64()),
        pa.field("time", _TIME),
        pa.field("packet", pa.binary()),
        pa.field("problem", pa.string(), nullable=False),
    ]
)
"""Rows that are missing or cannot be read, with the reason."""

ARRIVAL, OUTPUT = "arrival", "output"
WITHDRAWN = "withdrawn"
KINDS = (ARRIVAL, OUTPUT, "retained", "view", "sent", WITHDRAWN)
"""The values of the column `kind`, in the order of `EVENT_KINDS`. The first two are events, the others what was sent of
them, or not.
"""
_SOURCE_COLUMNS = ("client_id", "user", "entity", "link_type", "neighbour", "version")
_VERDICT_COLUMNS = ("effect", "stage", "rule", "reason")

_CHUNK_BYTES = 16 * 2**20

_decode, _encode = msgspec.json.decode, msgspec.json.encode
Ints = npt.NDArray[np.int64]


class _Rows(NamedTuple):
    """The event rows of a segment, and the definitions of its other rows."""

    table: pa.Table
    sources: dict[int, dict[str, Any]]
    plans: dict[int, dict[str, Any]]
    revisions: pa.StringArray
    """For each row, the revision of the policies in force."""


class SegmentContents(NamedTuple):
    """The contents of one file."""

    events: pa.Table
    lost: pa.Table
    """Rows that cannot be read."""
    last: int
    """The number of the last row of any kind; -1 if there is none."""
    is_damaged: bool
    """The file itself is damaged."""


def read_segment(path: Path) -> SegmentContents:
    """Return the events of a segment in order, and the rows that cannot be read."""
    node = path.parent.parent.name.removeprefix("node=")
    read = read_intact(path)
    lost = _Quarantine(node, path.name)
    if read.schema is None or read.version not in READABLE:
        lost.add(read.problem or f"its version is {read.version}; versions {', '.join(map(str, READABLE))} are read")
        return SegmentContents(EVENTS.empty_table(), lost.table(), -1, True)
    is_damaged = bool(read.problem) and not path.name.startswith(OPEN)
    if is_damaged:
        lost.add(read.problem)
    try:
        events = events_of(read.batches, node, lost.add_rows)
    except (pa.ArrowException, msgspec.MsgspecError, LookupError, TypeError, ValueError, AttributeError) as error:
        # Damage that Arrow does not detect: the rows contradict each other, so none of them is used.
        lost = _Quarantine(node, path.name)
        lost.add(f"its rows make no sense: {type(error).__name__}: {error}")
        return SegmentContents(EVENTS.empty_table(), lost.table(), read.last, True)
    return SegmentContents(events, lost.table(), read.last, is_damaged)


def events_of(batches: list[pa.RecordBatch], node: str, refuse: Callable[[pa.Table, pa.Array], None]) -> pa.Table:
    """Return the events in batches. `refuse` is called with the rows that are not events, and the reason."""
    if not batches:
        return EVENTS.empty_table()
    rows = _sort_out(pa.Table.from_batches(batches), refuse)
    table = rows.table
    if not table.num_rows:
        return EVENTS.empty_table()
    # A number without a definition belongs to no source; the row is refused below.
    sources, source_at = _defined(rows.sources, table["source"])
    plans, plan_at = _defined(rows.plans, table["plan"])
    packets = _read_all(table, np.array([source.get("packets", 0) for source in sources], np.int8)[source_at])
    kinds = table["kind"].to_numpy()
    is_output = kinds == RowKind.OUTPUT
    arrival_at = _arrivals(kinds)
    same = is_output & (pc.binary_length(table["packet"]).to_numpy() == 0)
    packets = Packets(*(_of_arrivals(column, same, arrival_at) for column in packets))
    missing = {
        "its plan is not defined": plan_at == len(plans) - 1,
        "its source is not defined": source_at == len(sources) - 1,
        "it has no arrival": arrival_at < 0,
    }
    problem = packets.problem
    for text, is_missing in missing.items():
        if is_missing.any():
            problem = pc.if_else(pa.array(is_missing), text, problem)
    seq = table["seq"].to_numpy()
    outputs = np.cumsum(is_output)
    places = np.where(arrival_at < np.arange(len(seq)), np.maximum(outputs - outputs[arrival_at] - 1, 0), 0)
    verdicts = _verdicts(table["detail"].combine_chunks(), plans, plan_at)
    by_source = _taken(sources, _SOURCE_COLUMNS, pa.array(source_at))
    columns = {
        "node": pa.repeat(pa.scalar(node), len(seq)),
        "seq": table["seq"],
        "time": table["time"],
        "revision": rows.revisions,
        "kind": pa.array(KINDS).take(pa.array(np.searchsorted(EVENT_KINDS, kinds))),
        "arrival": pa.array(np.where(arrival_at < 0, seq, seq[arrival_at])),
        "place": pa.array(places.astype(np.int32)),
        **by_source,
        **{name: column for name, column in packets._asdict().items() if name not in ("problem", "path")},
        **_publishers(packets, node, sources, source_at, arrival_at),
        "path": _paths(packets.path, by_source["neighbour"]),
        **verdicts,
    }
    good = pc.is_null(problem)
    if good.false_count:
        refuse(table.filter(pc.invert(good)), problem.drop_null())
    events = pa.table([columns[field.name] for field in EVENTS], names=EVENTS.names).filter(good)
    return events.cast(EVENTS).combine_chunks()


def _sort_out(table: pa.Table, refuse: Callable[[pa.Table, pa.Array], None]) -> _Rows:
    """Separate events from definitions."""
    kinds = table["kind"].to_numpy()
    sources: dict[int, dict[str, Any]] = {}
    plans: dict[int, dict[str, Any]] = {}
    revisions, since = [""], [0]
    are_events = np.isin(kinds, EVENT_KINDS)
    for place in np.flatnonzero(~are_events):
        row = {name: table[name][int(place)].as_py() for name in ("kind", "source", "plan", "detail")}
        detail = _decode(row["detail"]) if row["detail"] else {}
        match row["kind"]:
            case RowKind.SOURCE:
                sources[row["source"]] = detail
            case RowKind.PLAN:
                plans[row["plan"]] = detail
            case RowKind.REVISION:
                revisions.append(detail["revision"])
                since.append(int(place))
            case RowKind.GAP:
                text = f"{detail['rows']} rows are missing before this one: the journal could not be written"
                refuse(table.slice(int(place), 1), pa.array([text]))
            case _:
                refuse(table.slice(int(place), 1), pa.array([f"unknown row kind {row['kind']}"]))
    places = np.flatnonzero(are_events)
    in_force = np.searchsorted(np.array(since), places, side="right") - 1
    return _Rows(table.take(pa.array(places)), sources, plans, pa.array(revisions).take(pa.array(in_force)))


def _defined(definitions: dict[int, dict[str, Any]], numbers: pa.ChunkedArray) -> tuple[list[dict[str, Any]], Ints]:
    """Return the definitions, with an empty one at the end, and for each row the index of its definition."""
    places = pc.index_in(numbers, pa.array(list(definitions), pa.int32()))
    return [*definitions.values(), {}], places.fill_null(len(definitions)).to_numpy().astype(np.int64)


def _read_all(table: pa.Table, versions: npt.NDArray[np.int8]) -> Packets:
    """Read all packets chunk by chunk, so that the memory in use stays bounded."""
    parts, start = [], 0
    for chunk in _joined(table["packet"]):
        parts.append(read_packets(chunk.fill_null(b""), versions[start : start + len(chunk)]))
        start += len(chunk)
    return Packets(*(pa.chunked_array(columns).combine_chunks() for columns in zip(*parts, strict=True)))


def _joined(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the column in chunks that are neither tiny nor too large."""
    pending: list[pa.Array] = []
    for chunk in column.chunks:
        if pending and sum(part.nbytes for part in pending) + chunk.nbytes > _CHUNK_BYTES:
            yield pa.concat_arrays(pending)
            pending = []
        pending.append(chunk)
    if pending:
        yield pa.concat_arrays(pending)


def _arrivals(kinds: npt.NDArray[np.int8]) -> Ints:
    """Return for each row the index of the arrival it belongs to; -1: none. What belongs to none has its own index."""
    rows = np.arange(len(kinds))
    arrival_at = np.maximum.accumulate(np.where(kinds == RowKind.ARRIVAL, rows, -1))
    return np.where(np.isin(kinds, (RowKind.OUTPUT, RowKind.VIEW)), arrival_at, rows)


def _of_arrivals(column: pa.Array, same: npt.NDArray[np.bool_], arrival_at: Ints) -> pa.Array:
    """Return the column, with the arrival's value where a monitor left the event unchanged."""
    if not same.any():
        return column
    return column.take(pa.array(np.where(same & (arrival_at >= 0), arrival_at, np.arange(len(same)))))


def _taken(defined: list[dict[str, Any]], names: tuple[str, ...], at: pa.Array) -> dict[str, pa.Array]:
    """Return columns of the definitions that rows name by number."""
    return {
        name: pa.array([definition.get(name) for definition in defined], EVENTS.field(name).type).take(at)
        for name in names
    }


def _publishers(
    packets: Packets, node: str, sources: list[dict[str, Any]], source_at: Ints, arrival_at: Ints
) -> dict[str, pa.StringArray]:
    """Return who published each event: the client that sent it, or the one that a neighbour told of with it, or with
    what it was made of.
    """
    own = [_own_publisher(node, source) for source in sources]
    is_own, is_told = np.array(list(map(bool, own))), pc.is_valid(packets.publisher).to_numpy(zero_copy_only=False)
    of_others = np.where(is_told | (arrival_at < 0), np.arange(len(is_told)), arrival_at) + len(own)
    at = pa.array(np.where(is_own[source_at], source_at, of_others))
    of_sources = {name: pa.array([each.get(name) for each in own], pa.string()) for name in PUBLISHER}
    return {name: pa.concat_arrays([column, getattr(packets, name)]).take(at) for name, column in of_sources.items()}


def _own_publisher(node: str, source: dict[str, Any]) -> dict[str, Any]:
    client_id = source.get("client_id")
    if not client_id or source.get("neighbour") is not None or neighbour_in(client_id) is not None:
        return {}
    return dict(zip(PUBLISHER, (node, client_id, source.get("user")), strict=True))


def _verdicts(details: pa.StringArray, plans: list[dict[str, Any]], plan_at: Ints) -> dict[str, pa.Array]:
    """Return what the plan decided, and for some rows the single event; each combination is computed once."""
    distinct = details.dictionary_encode()
    own: list[dict[str, Any]] = [*(_decode(text) for text in distinct.dictionary.to_pylist()), {}]
    own_at = distinct.indices.fill_null(len(own) - 1).to_numpy().astype(np.int64)
    pairs, at = np.unique(plan_at * len(own) + own_at, return_inverse=True)
    decided = [_decided(plans[pair // len(own)], own[pair % len(own)]) for pair in pairs.tolist()]
    return _taken(decided, (*_VERDICT_COLUMNS, "open", "reached", "facts", "withheld"), pa.array(at))


def _decided(plan: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    is_own = "effect" in own
    is_stopped = is_own and own["effect"] == "suppress"
    reached = [] if is_stopped else [*plan.get("reached", ())]
    reached = [receiver for receiver in reached if receiver not in own.get("missed", ())] + own.get("chosen", [])
    verdict = {name: (own if is_own else plan).get(name, "") for name in _VERDICT_COLUMNS}
    facts = {**own.get("facts", {}), **{name: plan[name] for name in ("statements",) if name in plan}}
    return {
        **verdict,
        "open": plan.get("open", False),
        "reached": reached,
        "facts": _encode(facts).decode() if facts else None,
        "withheld": [*(() if is_stopped else plan.get("withheld", ())), *own.get("withheld", ())] or None,
    }


def _paths(recorded: pa.ListArray, neighbours: pa.StringArray) -> pa.ListArray:
    """Return the nodes that events have passed: the recorded path, or just the neighbour."""
    offsets = np.zeros(len(neighbours) + 1, np.int32)
    np.cumsum(pc.is_valid(neighbours).to_numpy(zero_copy_only=False), out=offsets[1:])
    alone = pa.ListArray.from_arrays(pa.array(offsets), neighbours.drop_null())
    return alone if recorded.null_count == len(recorded) else pc.if_else(pc.is_valid(recorded), recorded, alone)


class _Quarantine:
    """Collects the rows of one file that cannot be read."""

    def __init__(self, node: str, file: str) -> None:
        self._node, self._file = node, file
        self._rows: list[dict[str, Any]] = []

    def add(self, problem: str) -> None:
        """Record a problem of the file itself."""
        self._rows.append({"node": self._node, "file": self._file, "problem": problem})

    def add_rows(self, rows: pa.Table, problems: pa.Array) -> None:
        """Record rows that are not events."""
        values = rows.select(["seq", "time", "packet"]).to_pylist()
        for row, problem in zip(values, problems.to_pylist(), strict=True):
            self._rows.append({"node": self._node, "file": self._file, **row, "problem": problem})

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self._rows, schema=QUARANTINE)
