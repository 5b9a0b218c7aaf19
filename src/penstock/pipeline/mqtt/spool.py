"""Messages on disk until they are done with: files of numbered records, and a note of how far that is."""

import os
import time
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

import msgspec

from penstock.journal.private import make_folder, write_file

_FILE = 8 * 2**20
_LENGTH = 4
_DONE = "committed"
_ENDING = ".spool"


class SpooledMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message as it came."""

    time: int
    """Microseconds."""
    topic: str
    payload: bytes
    qos: int
    retain: bool
    content_type: str | None
    properties: bytes
    expiry: int | None
    mid: int
    """What the broker calls it until it is acknowledged; 0 for QoS 0."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SpooledMessage).decode


class Spool:
    """A folder of records. What a process that was killed left half written is not there.

    The numbers of a new one begin with the time in microseconds, after all that a lost one in its place can have had:
    so a checkpoint never takes a record for one that it knows.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_folder(folder)
        self._firsts: list[int] = []
        self._places: dict[int, list[int]] = {}
        """For each file, by the number of its first record, where its records begin; then where they end."""
        for path in sorted(folder.glob(f"*{_ENDING}")):
            first = int(path.stem)
            self._firsts.append(first)
            self._places[first] = _places(path)
            os.truncate(path, self._places[first][-1])
        begin = self._firsts[0] if self._firsts else time.time_ns() // 1000
        done = folder / _DONE
        self.committed = int(done.read_text()) if done.exists() else begin
        """Everything before this number is done with."""
        self._file = -1
        self._is_synced = True
        self._begin()

    @property
    def next(self) -> int:
        """Return the number of the next record."""
        first = self._firsts[-1]
        return first + len(self._places[first]) - 1

    def append(self, message: SpooledMessage) -> int:
        """Write a record; returns its number. It is sure to last after `sync`."""
        if self._places[self._firsts[-1]][-1] > _FILE:
            self.sync()
            self._begin()
        data = _encode(message)
        record = memoryview(len(data).to_bytes(_LENGTH, "big") + data)
        number, places = self.next, self._places[self._firsts[-1]]
        end = places[-1] + len(record)
        while record:
            self._is_synced = False
            record = record[os.write(self._file, record) :]
        places.append(end)
        return number

    def sync(self) -> None:
        """Write all of it to the disk."""
        if not self._is_synced:
            os.fsync(self._file)
            self._is_synced = True

    def read(self, start: int, end: int) -> Iterator[SpooledMessage]:
        """Records from one number to before another; raises `LookupError` if they are not there any more."""
        if start < end and (start < self._firsts[0] or end > self.next):
            raise LookupError(f"there are records {self._firsts[0]} to {self.next - 1}, not {start} to {end - 1}")
        while start < end:
            first = self._firsts[bisect_right(self._firsts, start) - 1]
            places = self._places[first]
            last = min(end - first, len(places) - 1)
            with open(self._path(first), "rb") as file:
                file.seek(places[start - first])
                data = file.read(places[last] - places[start - first])
            base = places[start - first]
            for at in range(start - first, last):
                yield _decode(data[places[at] - base + _LENGTH : places[at + 1] - base])
            start = first + last

    def commit(self, number: int) -> None:
        """Everything before this number is done with."""
        if number <= self.committed:
            return
        draft = self._folder / f"{_DONE}.draft"
        write_file(draft, str(number).encode())
        draft.rename(self._folder / _DONE)
        self.committed = number
        self._forget()

    def _forget(self) -> None:
        while len(self._firsts) > 1 and self._firsts[1] <= self.committed:
            first = self._firsts.pop(0)
            del self._places[first]
            self._path(first).unlink()

    def close(self) -> None:
        os.close(self._file)

    def _path(self, first: int) -> Path:
        return self._folder / f"{first:016d}{_ENDING}"

    def _begin(self) -> None:
        """Go on in a new file: where the last ended, or where it was committed if there is none."""
        first = self.next if self._firsts else self.committed
        if self._file >= 0:
            os.close(self._file)
        if first not in self._places:
            self._firsts.append(first)
            self._places[first] = [0]
        self._file = os.open(self._path(first), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _places(path: Path) -> list[int]:
    size, places = path.stat().st_size, [0]
    with path.open("rb") as file:
        while places[-1] + _LENGTH <= size:
            file.seek(places[-1])
            end = places[-1] + _LENGTH + int.from_bytes(file.read(_LENGTH), "big")
            if end > size:
                break
            places.append(end)
    return places
