"""Tasks, of which the work list is made (§5.1)."""

from typing import NamedTuple


class TransmitTask(NamedTuple):
    """transmit(x, y, a): an event on its way through a link."""

    x: str
    y: str
    a: str

    def __str__(self) -> str:
        return f"transmit({self.x}, {self.y}, {self.a})"


class BrokerTask(NamedTuple):
    """broker(x, y, w): events that broker y received from x and has yet to pass on."""

    x: str
    y: str
    w: tuple[str, ...]

    def __str__(self) -> str:
        return f"broker({self.x}, {self.y}, {' '.join(self.w)})"


class AnnotatedTask(NamedTuple):
    """tau[t_gen, t_pub]: a task, when it was generated, and when the publication that it derives from was."""

    task: TransmitTask | BrokerTask
    t_gen: int
    t_pub: int

    def __str__(self) -> str:
        return f"{self.task}[{self.t_gen}, {self.t_pub}]"
