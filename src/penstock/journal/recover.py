"""After a process was killed: the segment that it left open, as far as it is whole, becomes one like others."""

from pathlib import Path

import pyarrow as pa

from penstock.journal.format import ENDING, OPEN


def recover(folder: Path, node: str) -> int:
    """Seal what an earlier run of the node left open; returns the last sequence number that is taken, or -1."""
    home = folder / f"node={node}"
    for path in sorted(home.glob(f"*/{OPEN}*{ENDING}")):
        _seal(path)
    last = max(home.glob(f"*/[0-9]*{ENDING}"), default=None, key=lambda path: path.name)
    return -1 if last is None else _last(last)


def _seal(path: Path) -> None:
    """Write its whole batches anew under its name. One that has none is of no use."""
    schema, batches = read_whole(path)
    sealed = path.with_name(path.name.removeprefix(OPEN))
    if schema is None or not batches:
        path.unlink()
        return
    draft = path.with_name(f"{OPEN}draft-{sealed.name}")
    with pa.ipc.new_stream(draft, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    draft.rename(sealed)
    path.unlink()


def read_whole(path: Path) -> tuple[pa.Schema | None, list[pa.RecordBatch]]:
    """The batches of a segment up to where it breaks off."""
    batches: list[pa.RecordBatch] = []
    try:
        with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
            schema = stream.schema
            while True:
                try:
                    batches.append(stream.read_next_batch())
                except (StopIteration, pa.ArrowInvalid, OSError):
                    return schema, batches
    except (pa.ArrowInvalid, OSError):
        return None, []


def _last(path: Path) -> int:
    _, batches = read_whole(path)
    return int(batches[-1].column("seq")[-1].as_py()) if batches else -1
