"""A node's journal, written beside the event loop: rows go to a thread, and become segments there.

The node gathers rows (`engine/record.py`). Every flush interval, or sooner if there are many, they are handed over; what
a killed process loses is what it gathered since. If the journal cannot be written, the domain says what goes on: nothing
(no connection is read until it can be written), or everything but the journal, which then says how much is missing.
"""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path

from penstock.broker.log import NodeLog
from penstock.domain.schema import JournalSettings
from penstock.engine.record import Recorder, Rows
from penstock.journal.recover import recover
from penstock.journal.revision import Revision
from penstock.journal.segment import Segment

MOST_ROWS = 50_000
"""Rows that are handed over before the flush interval is over."""
MOST_WAITING = 8
"""Batches that may wait for the thread; then no connection is read."""
RETRY_SECONDS = 1.0


class Journal:
    """The journal of one node."""

    def __init__(self, settings: JournalSettings, node: str, domain: str, recorder: Recorder, log: NodeLog) -> None:
        self.settings = settings
        self.recorder = recorder
        self.rows = 0
        self.lost = 0
        """Rows that are missing, for the disk refused them and the node was to go on."""
        self.failing = ""
        """Why it cannot be written at present."""
        self._folder = Path(settings.folder)
        self._node, self._domain = node, domain
        self._log = log
        self._queue: queue.Queue[Rows | Revision | None] = queue.Queue()
        self._segment: Segment | None = None
        self._seq = 0
        self._revision: Revision | None = None
        self._missing = 0
        self._thread = threading.Thread(target=self._run, name=f"{node}-journal", daemon=True)
        self._flushed = 0.0

    def start(self) -> None:
        """Recover what an earlier run left open, and begin to write."""
        try:
            self._seq = recover(self._folder, self._node) + 1
        except OSError as error:
            self._fail(error)
        self._thread.start()

    @property
    def is_full(self) -> bool:
        """Whether no more may be admitted now: the thread is behind, or the disk refuses and the node is to stop."""
        if self._queue.qsize() > MOST_WAITING:
            return True
        return bool(self.failing) and self.settings.when_failing == "stop"

    def turn(self, now: float) -> None:
        """Hand rows over if it is time."""
        count = len(self.recorder.packets)
        if count and (count >= MOST_ROWS or now - self._flushed >= self.settings.flush):
            self._flushed = now
            self._queue.put(self.recorder.take())

    def govern(self, revision: Revision) -> None:
        """Other policies are in force from here on."""
        self._queue.put(self.recorder.take())
        self._queue.put(revision)

    def stop(self) -> None:
        """Write all that was gathered, and seal."""
        self._queue.put(self.recorder.take())
        self._queue.put(None)
        self._thread.join()

    # --- in the thread

    def _run(self) -> None:
        while True:
            given = self._queue.get()
            if given is None:
                self._attempt(self._seal, is_last=True)
                return
            if isinstance(given, Revision):
                self._revision = given
                self._attempt(self._tell_revision)
            elif given.packets:
                self._write(given)

    def _write(self, rows: Rows) -> None:
        while not self._attempt(lambda: self._append(rows)):
            if self.settings.when_failing == "go on" or self._is_stopping():
                self.lost += len(rows.packets)
                self._missing += len(rows.packets)
                return
            time.sleep(RETRY_SECONDS)

    def _is_stopping(self) -> bool:
        return any(waiting is None for waiting in list(self._queue.queue))

    def _append(self, rows: Rows) -> None:
        now = rows.runs[-1][2]
        segment = self._current(now)
        if self._missing:
            self._seq = segment.gap(self._seq, now, self._missing)
            self._missing = 0
        self._seq = segment.write(self._seq, rows)
        self.rows += len(rows.packets)
        if segment.size >= self.settings.segment_size:
            self._seal()

    def _current(self, now: float) -> Segment:
        """The segment to write to: a new one after the age limit, or at the first row of a day."""
        segment = self._segment
        if segment is not None and self._is_over(segment, now):
            self._seal()
            segment = None
        if segment is None:
            segment = self._segment = Segment(self._folder, self._node, self._domain, self._seq, now)
            self._say_revision(segment, now)
        return segment

    def _is_over(self, segment: Segment, now: float) -> bool:
        return now - segment.began >= self.settings.segment_age or now // 86400 != segment.began // 86400

    def _tell_revision(self) -> None:
        if self._segment is not None:
            self._say_revision(self._segment, time.time())

    def _say_revision(self, segment: Segment, now: float) -> None:
        if self._revision is not None:
            self._revision.keep(self._folder)
            self._seq = segment.revision(self._seq, now, self._revision.digest)

    def _seal(self) -> None:
        if self._segment is not None:
            segment, self._segment = self._segment, None
            segment.seal()

    def _attempt(self, step: Callable[[], None], is_last: bool = False) -> bool:
        try:
            step()
        except OSError as error:
            self._fail(error)
            if self._segment is not None:
                self._segment.abandon()
                self._segment = None
                if not is_last:
                    self._seq = self._recovered()
            return False
        if self.failing:
            self._log.info("the journal is written again", extra={"cause": f"{self.lost} rows are missing"})
            self.failing = ""
        return True

    def _recovered(self) -> int:
        """Where to go on after a segment that was given up."""
        try:
            return max(self._seq, recover(self._folder, self._node) + 1)
        except OSError:
            return self._seq

    def _fail(self, error: OSError) -> None:
        text = f"{error.strerror or error}"
        if text != self.failing:
            choice = "nothing is admitted" if self.settings.when_failing == "stop" else "the node goes on without it"
            self._log.error(f"the journal cannot be written: {choice}", extra={"cause": text})
        self.failing = text
