"""A node's journal, written beside the event loop: rows go to a thread, which writes segments.

The node collects rows (`engine/recorder.py`). Every flush interval, or sooner if there are many, they are handed
over; a killed process loses the rows collected since. If the journal cannot be written, the domain decides: either
no publication is accepted until it can be written, or the node goes on and the journal records how many rows are
missing.
"""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from penstock.broker.observe.log import NodeLog
from penstock.domain.schema.domain import JournalSettings
from penstock.engine.journal_rows import Rows
from penstock.engine.recorder import Recorder
from penstock.journal.format import DRAFT
from penstock.journal.private import make_folder
from penstock.journal.revision import Revision
from penstock.journal.write.missing import MissingRows
from penstock.journal.write.recover import recover
from penstock.journal.write.segment import Segment

MAX_ROWS = 8_000
"""Rows that are handed over before the flush interval is over; and bytes. A batch fits into a cache."""
MAX_BYTES = 2 * 2**20
MAX_WAITING = 32
"""Batches that may wait for the thread, and bytes; then no publication is accepted."""
MAX_WAITING_BYTES = 32 * MAX_BYTES
RETRY_SECONDS = 1.0
_PROBE_BYTES = 4096


class RowBatch(NamedTuple):
    """Rows that are handed over, and their size in bytes."""

    rows: Rows
    weight: int


class Journal:
    """The journal of one node."""

    def __init__(self, settings: JournalSettings, node: str, domain: str, recorder: Recorder, log: NodeLog) -> None:
        self.settings = settings
        """May be replaced; a new folder takes effect when the node is restarted."""
        self.recorder = recorder
        self.rows = 0
        self.lost = 0
        """Rows that are missing: the disk refused them, and the node was configured to go on."""
        self.failing = ""
        """The reason why it cannot be written at present."""
        self._folder = Path(settings.folder)
        self._node, self._domain = node, domain
        self._log = log
        self._queue: queue.Queue[RowBatch | Revision | None] = queue.Queue()
        self._wake: Callable[[], object] = lambda: None
        self.is_awaited = False
        """A caller waits until it can take more."""
        self._flushed = 0.0
        self._received = 0
        """Bytes that the node had received when rows were last handed over."""
        self._bytes_handed = self._bytes_written = 0
        """Bytes that were handed over, and those that the thread has finished; and batches."""
        self._batches_handed = self._batches_written = 0
        self._rows_handed = 0
        """Rows that were handed over."""
        self._segment: Segment | None = None
        self._seq = -1
        """The number of the next row; less than 0 until it is known."""
        self._revision: Revision | None = None
        self._missing = 0
        """Rows that are missing before the next one, and not yet written as a gap."""
        self._missing_file = MissingRows(self._folder, node)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name=f"{node}-journal", daemon=True)

    def start(self, wake: Callable[[], object]) -> None:
        """Start to write, after the rows of an earlier run. `wake` is called, in a thread, when more can be taken."""
        self._wake = wake
        _keep_memory()
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Return whether nothing may be admitted: the thread is behind, or the disk refuses and the node is to stop."""
        if (
            self._batches_handed - self._batches_written > MAX_WAITING
            or self._bytes_handed - self._bytes_written > MAX_WAITING_BYTES
        ):
            return True
        return bool(self.failing) and self.settings.when_failing == "stop"

    def turn(self, now: float, received: int) -> float | None:
        """Hand rows over if it is time, or return the seconds until then. `received`: bytes that the node received."""
        count = len(self.recorder.notes)
        if not count:
            self._received = received
            return None
        weight = received - self._received + self.recorder.weight
        seconds = self._flushed + self.settings.flush - now
        if count < MAX_ROWS and weight < MAX_BYTES and 0 < seconds <= self.settings.flush:
            return seconds
        self._flushed = now
        self._received = received
        self._hand_over(weight)
        return None

    def set_revision(self, revision: Revision) -> None:
        """Record that other policies are in force from here on."""
        self._hand_over(self.recorder.weight)
        self._queue.put(revision)

    def stop(self) -> None:
        """Write all collected rows, and seal the segment."""
        self._hand_over(self.recorder.weight)
        self._is_stopping = True
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def _hand_over(self, weight: int) -> None:
        self._bytes_handed += weight
        self._batches_handed += 1
        rows = self.recorder.take()
        self._rows_handed += len(rows.notes)
        self._queue.put(RowBatch(rows, weight))

    # --- in the thread

    def _run(self) -> None:
        self._attempt(self._prepare)
        while True:
            try:
                batch = self._queue.get(timeout=RETRY_SECONDS)
            except queue.Empty:
                self._attempt(self._do_idle_work)
                continue
            if batch is None:
                self._finish()
                return
            if isinstance(batch, Revision):
                self._revision = batch
                self._attempt(self._seal)  # a segment has rows of one revision
                self._attempt(self._keep_revision)
            elif batch.rows.notes:
                self._write(batch.rows)
            if isinstance(batch, RowBatch):
                self._bytes_written += batch.weight
                self._batches_written += 1
            if self.is_awaited:
                self._wake()

    def _prepare(self) -> None:
        """Find the number of the next row."""
        if self._seq < 0:
            make_folder(self._folder, with_parents=False)
            self._seq = recover(self._folder, self._node) + 1
            self._missing += self._missing_file.find()

    def _keep_revision(self) -> None:
        if self._revision is not None:
            self._revision.keep(self._folder)

    def _do_idle_work(self) -> None:
        """Do the periodic work when there is nothing to write."""
        self._prepare()
        if self.failing:
            self._keep_revision()
            self._probe()
            self._note_success()
            self._missing_file.keep(self._missing)
        if self._segment is not None and self._is_over(self._segment, time.time()):
            self._seal()

    def _probe(self) -> None:
        """Test whether the disk accepts data."""
        probe = self._folder / f"{DRAFT}{self._node}"
        try:
            probe.write_bytes(bytes(_PROBE_BYTES))
        finally:
            probe.unlink(missing_ok=True)

    def _finish(self) -> None:
        self._attempt(self._seal)
        if self._missing:
            self._log.error("rows of the journal are lost", extra={"cause": f"{self._missing} rows: {self.failing}"})
            self._attempt(self._write_gap)

    def _write_gap(self) -> None:
        """Record the gap although no row follows."""
        self._prepare()
        _, self._seq = self._begin(time.time())
        self._seal()
        self._missing = 0
        self._missing_file.keep(0)

    def _write(self, rows: Rows) -> None:
        try:
            while not self._attempt(lambda: self._append(rows)):
                if self.settings.when_failing == "go on" or self._is_stopping:
                    self._drop(rows)
                    return
                time.sleep(RETRY_SECONDS)
        except Exception:  # a bug of ours: these rows would fail again and again
            self._log.exception("rows cannot be written to the journal")
            self._abandon_segment()
            self._drop(rows)

    def _drop(self, rows: Rows) -> None:
        self.lost += len(rows.notes)
        self._missing += len(rows.notes)
        self._missing_file.keep(self._missing)

    def _append(self, rows: Rows) -> None:
        self._prepare()
        now = rows.times[-1]
        if self._segment is not None and self._is_over(self._segment, now):
            self._seal()
        segment, seq = (self._segment, self._seq) if self._segment is not None else self._begin(now)
        self._seq = segment.write(seq, rows)
        self._missing = 0
        self._missing_file.keep(0)  # after the gap is written: a process killed in between records it twice, not never
        self.rows += len(rows.notes)
        self._note_success()
        if segment.size >= self.settings.segment_size:
            self._attempt(self._seal)  # the rows are in it, even if the rename fails

    def _begin(self, now: float) -> tuple[Segment, int]:
        """Begin a segment; return it and the number of the next row after the first ones: the revision, and the gap.

        No number is used before rows are in it: an attempt that fails leaves nothing.
        """
        self._keep_revision()
        segment, seq = Segment(self._folder, self._node, self._domain, self._seq, now), self._seq
        self._segment = segment
        if self._revision is not None:
            seq = segment.revision(seq, now, self._revision.digest)
        if self._missing:
            seq = segment.gap(seq, now, self._missing)
        return segment, seq

    def _is_over(self, segment: Segment, now: float) -> bool:
        return now - segment.began >= self.settings.segment_age or now // 86400 != segment.began // 86400

    def _seal(self) -> None:
        if self._segment is not None:
            self._segment.seal()
            self._segment = None

    def _attempt(self, step: Callable[[], None]) -> bool:
        try:
            step()
        except OSError as error:
            self._note_failure(error)
            self._abandon_segment()
            return False
        return True

    def _abandon_segment(self) -> None:
        """Abandon the segment: it may not have what its writer thinks it has."""
        segment, self._segment = self._segment, None
        if segment is not None and not segment.abandon():
            self._seq = -1

    def _note_success(self) -> None:
        if self.failing:
            self._log.info("the journal is written again", extra={"cause": f"{self.lost} rows are missing"})
            self.failing = ""
            self._wake()

    def _note_failure(self, error: OSError) -> None:
        text = error.strerror or str(error)
        if text != self.failing:
            choice = "nothing is admitted" if self.settings.when_failing == "stop" else "the node goes on without it"
            self._log.error(f"the journal cannot be written: {choice}", extra={"cause": text})
        self.failing = text
        self._missing_file.keep(self._missing + self._rows_handed - self.rows - self.lost + len(self.recorder.notes))
        self._wake()


def _keep_memory() -> None:
    """Have glibc keep the memory that is freed with each batch, instead of returning it page by page.

    After the first large block is freed, it keeps twice as much.
    """
    bytearray(8 * MAX_BYTES).clear()
