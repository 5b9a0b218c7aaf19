"""HTTP connections with limits: their number, the time a request may take to arrive, the size of its head."""

import asyncio
import logging
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 200
HEAD_SECONDS = 10.0
"""Time limit for a request's first line and headers."""
MAX_HEAD = 32 * 1024
WRITE_SECONDS, MIN_READ = 10.0, 16 * 1024
"""A client must read so many bytes of an answer in so many seconds, or all that is left."""


class BoundedProtocol(H11Protocol):
    """One connection. The head of a request is bounded by h11 itself, which reads no more than that."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head_timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        transport.set_write_buffer_limits(high=1, low=0)  # so that we are notified whenever something is not read
        if len(self.connections) > MAX_CONNECTIONS:
            transport.abort()
            return
        self._start_head_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._start_head_timer()  # for the rest of the next one

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_write_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_write_timer()
        unread = self.transport.get_write_buffer_size()
        self._write_timer = self.loop.call_later(WRITE_SECONDS, self._check_progress, unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _check_progress(self, before: int) -> None:
        unread = self.transport.get_write_buffer_size()
        if before - unread < MIN_READ:
            self._write_timer = None
            self.transport.abort()
        else:
            self._write_timer = self.loop.call_later(WRITE_SECONDS, self._check_progress, unread)

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_timed_out)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_timed_out(self) -> None:
        self._head_timer = None
        is_asking = self.cycle is not None and not self.cycle.response_complete
        if not is_asking and not self.transport.is_closing():
            self.transport.abort()


def config(app: Any, **more: Any) -> uvicorn.Config:
    """Return the configuration of a server with these limits. Mistakes of clients are answered, and not logged."""
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        h11_max_incomplete_event_size=MAX_HEAD,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        **more,
    )
