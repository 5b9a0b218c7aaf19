"""Ctrl-C and SIGTERM, while Spark works.

Neither may interrupt a call of Spark: a Java process that is just starting would be left behind, and the connection
to a running one does not survive an exception in the middle of a call.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_PATIENCE = 1
"""Seconds until a signal takes effect, at most."""


@contextmanager
def delayed_interrupt() -> Iterator[None]:
    """Delay Ctrl-C until the block ends; a handler that is set within the block is kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_asked = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        is_asked.set()

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is ask:
            signal.signal(signal.SIGINT, before)
    if is_asked.is_set():
        raise KeyboardInterrupt


@contextmanager
def noted_interrupt() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C has come: then Spark may fail in any way, as it cancels its work."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    is_asked = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        is_asked.set()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield is_asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def wait(*over: Callable[[int], bool | None]) -> None:
    """Wait until each of these has ended, or Ctrl-C or SIGTERM asks to end; each call waits the given seconds."""
    is_asked = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, frame: is_asked.set()) for number in numbers]
    try:
        for is_over in over:
            while not is_asked.is_set() and not is_over(_PATIENCE):
                pass
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
