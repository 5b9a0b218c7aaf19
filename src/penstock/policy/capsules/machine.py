"""A capsule that is run one event at a time: what it remembers, and the results that events and time make.

Time comes in as an argument, in microseconds. `advance` closes the windows that are over and finds the inputs that have
fallen silent; `take` takes an event after that. All that is remembered is in `entries`, by key, as values of JSON: each
change is told to `on_change`, so that whoever runs the capsule can keep them, and `restore` goes on from them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from heapq import heappop, heappush
from typing import Any, NamedTuple

from penstock.model.errors import PolicyError
from penstock.model.quality import Direction, MetricValue, Quality, moment
from penstock.model.values import Timestamp
from penstock.policy.capsules.capsule import MICROSECONDS, Capsule, FuseReduction, Late, LatestReduction, WindowSchedule
from penstock.policy.capsules.latest import Last, reduced_latest
from penstock.policy.capsules.steps import (
    CapsuleResult,
    ReducedGroup,
    TakenEvent,
    conclude,
    conclude_silence,
    fused,
)
from penstock.policy.capsules.windows import aggregated, late_starts, why_late
from penstock.policy.quality.carriage import ATTACHED, read_properties, write_properties

MAX_ENTRIES = 100_000
"""Windows, inputs and groups that one capsule remembers. What would be more is put aside."""
_NANOSECONDS = 1_000
Group = tuple[str, ...]
Key = tuple[Any, ...]
"""`("sum", start, input, *group)`, `("item", start, input, source or number, *group)`, `("last", input, *group)` or
`("heard", input, *group)`."""
OnChange = Callable[[Key, Any], None]


class CapsuleOutcome(NamedTuple):
    """A result, or the problem in its place."""

    at: int
    """The time that the result is about: the end of the window, of the last event, or of the patience with an input."""
    group: Group
    inputs: int
    result: CapsuleResult | None
    problem: str = ""
    until: int | None = None
    """The time by which it is to be deleted, as something that it is made of is."""
    silent: int | None = None
    """The place of the input, if it has fallen silent."""


class CapsuleMachine:
    """A capsule and its memory."""

    def __init__(self, capsule: Capsule, on_change: OnChange = lambda key, value: None) -> None:
        self.capsule = capsule
        self.entries: dict[Key, Any] = {}
        self.reached = 0
        """The latest time that has come in."""
        self._on_change = on_change
        self._timers: list[tuple[int, int, Key]] = []
        """Times, and the key of a window (`(start,)`) or of an input that was heard."""
        self._windows: dict[int, dict[Group, set[Key]]] = {}
        """By start and group, the keys of what is summed up."""
        self._metrics = tuple(enumerate(capsule.metrics))

    @property
    def due(self) -> float:
        """The next time at which `advance` has something to do."""
        return self._timers[0][0] if self._timers else float("inf")

    def restore(self, key: Key, value: Any) -> None:
        """Put back what was remembered."""
        self.entries[key] = value
        self._index(key, value)

    # --- time

    def advance(self, now: int) -> Iterator[CapsuleOutcome]:
        """Make the results of windows that are over and of silent inputs, in the order of their times."""
        while self._timers and self._timers[0][0] <= now:
            due, _, key = heappop(self._timers)
            if len(key) == 1:
                yield from self._close(key[0])
            else:
                yield from self._listen(due, key)
        self.reached = max(self.reached, now)

    def _close(self, start: int) -> Iterator[CapsuleOutcome]:
        window = self._window
        for group, keys in sorted(self._windows.pop(start, {}).items()):
            values = {key: self.entries[key] for key in keys}
            for key in keys:
                self._set(key, None)
            until = min((value["until"] for value in values.values() if value["until"] is not None), default=None)
            reduce = partial(self._reduce, start, group, values)
            outcome = self._conclude(start + window.length, group, until, reduce)
            if outcome is not None:
                yield outcome

    def _reduce(self, start: int, group: Group, values: dict[Key, Any]) -> ReducedGroup | None:
        if not isinstance(self.capsule.reduction, FuseReduction):
            return aggregated(self.capsule, start, group, values.values())
        items = sorted(values.items(), key=lambda item: item[1]["number"])
        inputs = [
            TakenEvent(value["at"], group, tuple(value["numbers"]), read_stored(value["quality"]), key[3])
            for key, value in items
        ]
        return fused(self.capsule, start, group, inputs)

    def _listen(self, due: int, key: Key) -> Iterator[CapsuleOutcome]:
        """Tell of an input of which nothing has come for its time."""
        _, input, *names = key
        heard, silence = self.entries.get(key), self.capsule.inputs[input].silence
        if heard is None or silence is None:
            return
        if heard + silence.after > due:
            heappush(self._timers, (heard + silence.after, 1, key))
            return
        self._set(key, None)
        group = tuple(names)
        try:
            yield CapsuleOutcome(due, group, 0, conclude_silence(self.capsule, input, group, heard), silent=input)
        except PolicyError as error:
            yield CapsuleOutcome(due, group, 0, None, str(error), silent=input)

    def _conclude(
        self, at: int, group: Group, until: int | None, reduce: Callable[[], ReducedGroup | None]
    ) -> CapsuleOutcome | None:
        try:
            reduced = reduce()
            result = None if reduced is None else conclude(self.capsule, reduced)
        except PolicyError as error:
            return CapsuleOutcome(at, group, 0, None, str(error), until)
        return (
            None if reduced is None or result is None else CapsuleOutcome(at, group, reduced.inputs, result, "", until)
        )

    # --- events

    def take(self, taken: TakenEvent, arrival: int, until: int | None = None) -> CapsuleOutcome | None:
        """Take an event that came at this time; return the result that it makes at once, or the problem with it.

        `until`: when it is to be deleted. Raises `PolicyError` if there is no room for it.
        """
        now, problem = max(arrival, self.reached), ""
        self.hear(taken.input, taken.group, now)
        if isinstance(self.capsule.reduction, LatestReduction):
            return self._take_latest(taken, now, until)
        window = self._window
        for start in window.starts(taken.at):
            if start + window.length + window.lateness > now:
                self._add(start, taken, until)
        if window.late is Late.QUARANTINE and (late := late_starts(window, taken.at, now)):
            problem = why_late(late)
        return CapsuleOutcome(now, taken.group, 0, None, problem) if problem else None

    def hear(self, input: int, group: Group, now: int) -> None:
        """Note that an input is not silent."""
        if self.capsule.inputs[input].silence is not None:
            self._put(("heard", input, *group), now)

    def _take_latest(self, taken: TakenEvent, now: int, until: int | None) -> CapsuleOutcome | None:
        last = Last(now, taken.content, write_stored(taken.quality), until)
        inputs = range(len(self.capsule.inputs))
        if len(inputs) > 1:  # one alone is never asked for again
            self._put(("last", taken.input, *taken.group), list(last))
        known = {at: Last(*self.entries[key]) for at in inputs if (key := ("last", at, *taken.group)) in self.entries}
        known[taken.input] = last
        for at, other in list(known.items()):
            if other.until is not None and other.until <= now:  # it must not be had any longer
                del known[at]
                self._set(("last", at, *taken.group), None)
        untils = [other.until for other in known.values() if other.until is not None]
        reduce = partial(reduced_latest, self.capsule, taken.group, known, now)
        return self._conclude(now, taken.group, min(untils, default=None), reduce)

    def _add(self, start: int, taken: TakenEvent, until: int | None) -> None:
        if isinstance(self.capsule.reduction, FuseReduction):
            number = sum(map(len, self._windows.get(start, {}).values()))
            source = taken.source if self.capsule.reduction.source is not None else str(number)
            of = {"numbers": list(taken.numbers), "quality": write_stored(_in_micros(taken.quality)), "at": taken.at}
            key: Key = ("item", start, taken.input, source, *taken.group)
            before = self.entries.get(key)
            if before is not None and before["until"] is not None:
                until = before["until"] if until is None else min(until, before["until"])
            last = self.entries.get(key, {}).get("number", 0)
            self._put(key, {**of, "number": max(number, last) + 1, "until": until})
            return
        key = ("sum", start, taken.input, *taken.group)
        part = dict(self.entries.get(key) or {"input": taken.input, "inputs": 0, "until": None})
        part["inputs"] += 1
        part["until"] = min((at for at in (part["until"], until) if at is not None), default=None)
        for at, number_ in enumerate(taken.numbers):
            if number_ is not None:
                part[f"s{at}"] = part.get(f"s{at}", 0.0) + number_
                part[f"l{at}"] = min(part.get(f"l{at}", number_), number_)
                part[f"h{at}"] = max(part.get(f"h{at}", number_), number_)
        self._add_quality(part, start + self._window.length, taken.quality)
        self._put(key, part)

    def _add_quality(self, part: dict[str, Any], end: int, quality: Quality) -> None:
        catalogue = self.capsule.catalogue
        for at, key in self._metrics:
            metric = quality.get(key)
            if metric is None:
                continue
            value, definition = metric.value, catalogue.definition(key)
            gone = (end - metric.at.nanos // _NANOSECONDS) / MICROSECONDS
            if catalogue.kind(key) == "freshness" and gone > 0:
                value = definition.clamped(value + gone)
            created, spread = metric.created.nanos // _NANOSECONDS, 1.0 - min(max(value, 0.0), 100.0) / 100.0
            worse = min if definition.direction is Direction.HIGHER else max
            part[f"m{at}"] = part.get(f"m{at}", 0) + 1
            part[f"f{at}"] = min(part.get(f"f{at}", created), created)
            part[f"t{at}"] = part.get(f"t{at}", 0.0) + value
            part[f"r{at}"] = part.get(f"r{at}", 0.0) + spread * spread
            part[f"w{at}"] = worse(part.get(f"w{at}", value), value)

    # --- memory

    @property
    def _window(self) -> WindowSchedule:
        assert self.capsule.window is not None
        return self.capsule.window

    def _put(self, key: Key, value: Any) -> None:
        if key in self.entries:
            self._set(key, value)
            return
        if len(self.entries) >= MAX_ENTRIES:
            raise PolicyError(f"capsule `{self.capsule.name}` remembers {MAX_ENTRIES} windows and groups already")
        self._set(key, value)
        self._index(key, value)

    def _set(self, key: Key, value: Any) -> None:
        if value is None:
            if self.entries.pop(key, None) is None:
                return
        else:
            self.entries[key] = value
        self._on_change(key, value)

    def _index(self, key: Key, value: Any) -> None:
        """Find a new entry again: by its window, or by its time."""
        match key:
            case ("heard", input, *_):
                silence = self.capsule.inputs[input].silence
                if silence is not None:
                    heappush(self._timers, (value + silence.after, 1, key))
            case ("sum" | "item", start, _, *names):
                if start not in self._windows:
                    heappush(self._timers, (start + self._window.length + self._window.lateness, 0, (start,)))
                group = tuple(names if key[0] == "sum" else names[1:])
                self._windows.setdefault(start, {}).setdefault(group, set()).add(key)


def _in_micros(quality: Quality) -> Quality:
    """Return the quality with times in whole microseconds, as windows have them."""

    def whole(time: Timestamp) -> Timestamp:
        return Timestamp(time.nanos // _NANOSECONDS * _NANOSECONDS)

    return Quality(
        MetricValue(value.key, value.value, whole(value.created), None if value.modified is None else whole(value.at))
        for value in quality
    )


def write_stored(quality: Quality) -> str:
    """Return quality as text; empty if there is none."""
    return "".join(text for _, text in write_properties(quality, ATTACHED))


def read_stored(text: str) -> Quality:
    """Read what `write_stored` has written."""
    return read_properties([(ATTACHED, text)] if text else [], moment(0), ATTACHED)
