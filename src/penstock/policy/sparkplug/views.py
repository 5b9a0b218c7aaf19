"""The view of a Sparkplug message that one subject may see or write: the step that nodes and Spark share.

sparkplug §IV: `write_view` is Listing 2 for write requests, `read_view` Listings 2 and 3 for read requests. Names and
values of the complementary set are kept apart. A reader's *standing* has the names that are withheld from it; what a
metric is now is known once for each edge node or device (E of Definition 4), so a metric that is given back has its
present value even if reports in between were denied as a whole. Where the time has a say, a reader is owed also what a
birth or a report that was denied as a whole said: it gets it when its time has come.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.model.errors import ContentError
from penstock.model.sparkplug.message import Metric, SparkplugMessage, named, parse
from penstock.model.sparkplug.metric import Record, read_metric
from penstock.model.sparkplug.topic import BIRTHS, REPORTS, STATE, MessageTopic
from penstock.model.values import Timestamp, Value
from penstock.policy.sparkplug.policies import MESSAGE, METRICS, NOW, RESERVED, SUBJECT, Context, Granted, Grants

EMPTY = frozenset[str]()
BDSEQ = "bdSeq"
"""The metric that an edge node's birth and death have in common."""


class WithheldMetrics(NamedTuple):
    """The metrics of an edge node or device that a reader has not received since the last birth."""

    withheld: frozenset[str] = EMPTY
    """Metrics of which a report was withheld: the complementary set, Γ of Listing 3."""
    unborn: frozenset[str] = EMPTY
    """Metrics that were not in the reader's view of the birth, so that it does not know their aliases."""


START = WithheldMetrics()


@dataclass(slots=True)
class BirthRecord:
    """The metrics of an edge node or device since its birth."""

    names: dict[int, str] = field(default_factory=dict)
    """By alias."""
    births: dict[str, bytes] = field(default_factory=dict)
    """By name, the metric as the birth certificate has it."""
    values: dict[str, bytes] = field(default_factory=dict)
    """By name, the metric as it was last reported."""
    generation: str = ""
    """The name of the birth: messages say by which one they are to be read."""
    speaker: str = ""
    """The client that published the birth at this node; empty: it was published at another."""
    is_over: bool = False
    """True if its client has died, or has published another birth: what comes from now on is not read by it."""
    time: int | None = None
    """The time of the birth certificate in nanoseconds, made later than those before it, as clocks are set back."""

    def born(self, message: SparkplugMessage) -> None:
        """Start again with a birth certificate; raises `ContentError`."""
        names: dict[int, str] = {}
        births: dict[str, bytes] = {}
        for metric in message.metrics:
            if metric.name is None:
                raise ContentError(f"a birth certificate has a metric without a name: alias {metric.alias}")
            if metric.alias is not None and names.setdefault(metric.alias, metric.name) != metric.name:
                raise ContentError(f"a birth certificate has alias {metric.alias} for two metrics")
            births[metric.name] = message.bytes_of(metric)
        self.names, self.births, self.values = names, births, dict(births)
        self.time = _nanos(message)

    def reported(self, message: SparkplugMessage) -> None:
        """Take in the present values of a report; historical values do not count."""
        for metric in message.metrics:
            name = self.name(metric)
            if name is not None and not metric.historical and self.is_certain(metric):
                self.values[name] = message.bytes_of(metric)

    def complete(self, message: SparkplugMessage) -> bool:
        """Take in the metrics of the same birth certificate that were not in it when it first came; False if none."""
        new = [metric for metric in message.metrics if metric.name is not None and metric.name not in self.births]
        for metric in new:
            assert metric.name is not None
            self.births[metric.name] = message.bytes_of(metric)
            self.values.setdefault(metric.name, self.births[metric.name])
            if metric.alias is not None:
                self.names.setdefault(metric.alias, metric.name)
        return bool(new)

    def as_of(self, generation: str) -> "BirthRecord":
        """Return what is known to a message that is to be read by this birth: of another one, only values by name."""
        return self if generation and generation == self.generation else BirthRecord(values=self.values)

    def name(self, metric: Metric) -> str | None:
        """Return a metric's name; None if it has only an alias that no birth has named."""
        return metric.name if metric.name is not None or metric.alias is None else self.names.get(metric.alias)

    def is_certain(self, metric: Metric) -> bool:
        """Return whether name and alias mean the same metric: a reader may go by either."""
        if metric.alias is None:
            return True
        meant = self.names.get(metric.alias)
        return meant is not None and metric.name in (None, meant)

    def is_newer_than(self, message: SparkplugMessage, time: int | None) -> bool:
        """Return whether the birth here is later than this one, whose time another node reports."""
        return self.time is not None and self.time > (time or _nanos(message) or 0)

    def is_of(self, speaker: str) -> bool:
        """Return whether this client has published the birth at this node, and it counts."""
        return bool(speaker) and self.speaker == speaker and not self.is_over

    @property
    def is_ended(self) -> bool:
        """True if nothing that comes now is read by this birth."""
        return self.is_over or not self.generation

    def is_ended_by(self, death: SparkplugMessage) -> bool:
        """Return whether a death ends this birth: the death of an earlier session, as its `bdSeq` says, does not."""
        born = self.births.get(BDSEQ)
        died = next((death.bytes_of(metric) for metric in death.metrics if metric.name == BDSEQ), None)
        return born is None or died is None or _record(born, None).get("value") == _record(died, None).get("value")

    def birth(self, name: str) -> Record | None:
        """Return the record of a metric in the birth certificate."""
        field = self.births.get(name)
        return None if field is None else _record(field, None)


def _nanos(message: SparkplugMessage) -> int | None:
    return message.timestamp.nanos if isinstance(message.timestamp, Timestamp) else None


UNKNOWN = BirthRecord()


@dataclass(frozen=True, slots=True)
class View:
    """The view of a message: the metrics that are removed, and those that are given back."""

    message: SparkplugMessage
    removed: tuple[Metric, ...]
    added: tuple[tuple[str, bytes], ...]
    """Metrics of the complementary set that may be seen now: name, and the field to put in."""
    renamed: tuple[tuple[Metric, str], ...]
    """Metrics that are written with their name, as the reader does not know their alias."""
    granted: Granted

    @property
    def is_whole(self) -> bool:
        """True if the view is the message unchanged."""
        return not (self.removed or self.added or self.renamed)

    def payload(self, seq: int | None = None) -> bytes:
        """Return the bytes of the view, with this `seq` in place of the message's own."""
        message = self.message
        renamed = (named(message.bytes_of(metric), name) for metric, name in self.renamed)
        removed = (*self.removed, *(metric for metric, _ in self.renamed))
        return message.cut(removed, (*renamed, *(field for _, field in self.added)), seq)


@dataclass(frozen=True, slots=True)
class ViewRequest:
    """A message, with what conditions may read about it."""

    topic: MessageTopic
    message: SparkplugMessage
    known: BirthRecord = field(default_factory=BirthRecord)
    """The birth record of its source, this message included."""
    now: Value = None
    state: Record = field(default_factory=dict)
    """The content of a STATE message."""


def write_view(grants: Grants, request: ViewRequest, subject: Record) -> View | None:
    """Return the view of a message that its publisher may write (sparkplug Definition 3); None if there is none."""
    granted = grants.decide(contexts(grants, request, (), subject), doubt(grants, request))
    return None if granted is None else _view(granted, request, (), EMPTY)


def read_view(
    grants: Grants, request: ViewRequest, subject: Record, standing: WithheldMetrics
) -> tuple[View | None, WithheldMetrics]:
    """Return the view that a reader may see, and the withheld metrics after it (sparkplug Definition 5, Listing 3)."""
    is_report = request.topic.type in REPORTS
    is_birth = request.topic.type in BIRTHS
    more = complement(request, standing) if is_report else ()
    granted = grants.decide(contexts(grants, request, more, subject), doubt(grants, request))
    if granted is None:
        return None, _denied(request, standing) if grants.owes else START if is_birth else standing
    view = _view(granted, request, more, standing.unborn)
    known = request.known
    if is_birth:
        gone = frozenset(metric.name for metric in view.removed if metric.name is not None)
        return view, WithheldMetrics(gone if grants.reads_now else EMPTY, gone)
    if is_report and (view.removed or standing.withheld):
        withheld = _withheld(view, known, standing.withheld)
        return view, standing if withheld == standing.withheld else WithheldMetrics(withheld, standing.unborn)
    return view, standing


def _denied(request: ViewRequest, standing: WithheldMetrics) -> WithheldMetrics:
    """Return the withheld metrics after a message that was denied as a whole, by policies that may grant it at another
    time: then the reader is owed what it says.
    """
    if request.topic.type in BIRTHS:
        names = frozenset(metric.name for metric in request.message.metrics if metric.name is not None)
        return WithheldMetrics(names, names)
    if request.topic.type not in REPORTS:
        return standing
    return owed(request, request.message.metrics, standing)


def owed(request: ViewRequest, metrics: Iterable[Metric], standing: WithheldMetrics) -> WithheldMetrics:
    """Return the withheld metrics after these of a message are withheld too."""
    names = (request.known.name(metric) for metric in metrics if not metric.historical)
    withheld = standing.withheld.union(name for name in names if name is not None)
    return WithheldMetrics(withheld, standing.unborn) if withheld != standing.withheld else standing


def complement(request: ViewRequest, standing: WithheldMetrics) -> tuple[str, ...]:
    """Return the withheld metrics that are not reported now (sparkplug Definition 4), in the order of the birth."""
    if not standing.withheld:
        return ()
    known = request.known
    reported = {known.name(metric) for metric in request.message.metrics if not metric.historical}
    return tuple(name for name in known.values if name in standing.withheld and name not in reported)


def _withheld(view: View, known: BirthRecord, before: frozenset[str]) -> frozenset[str]:
    """Return the withheld metrics after a view (Listing 3, line 6): with removed metrics, without visible ones."""
    gone = set(view.removed)
    pruned = {known.name(metric) for metric in view.removed if not metric.historical}
    shown = {known.name(metric) for metric in view.message.metrics if metric not in gone and not metric.historical}
    shown.update(name for name, _ in view.added)
    return frozenset(name for name in (*before, *pruned) if name is not None and name not in shown)


def _view(granted: Granted, request: ViewRequest, more: Sequence[str], unborn: frozenset[str]) -> View:
    message, known = request.message, request.known
    if request.topic.type == STATE:
        return View(message, (), (), (), granted)
    exceptions = granted.exceptions
    removed: list[Metric] = []
    renamed: list[tuple[Metric, str]] = []
    for metric in message.metrics:
        name = known.name(metric)
        if exceptions and _is_excluded(metric, name, granted, request):
            removed.append(metric)
        elif unborn and metric.name is None and name in unborn:
            renamed.append((metric, name))
    added = [(name, known.values[name]) for name in more if name not in exceptions]
    return View(message, tuple(removed), tuple(_renamed_fields(added, unborn)), tuple(renamed), granted)


def _is_excluded(metric: Metric, name: str | None, granted: Granted, request: ViewRequest) -> bool:
    """Return whether it is excepted by its name, or by the name of its alias, as its reader may go by either."""
    exceptions, is_birth = granted.exceptions, request.topic.type in BIRTHS
    if not exceptions.has_unknown and not is_birth and not request.known.is_certain(metric):
        return False
    if name is None or name in exceptions:
        return True
    if metric.alias is None or is_birth:
        return False
    other = request.known.names.get(metric.alias)
    return other is None or other in exceptions


def _renamed_fields(added: Sequence[tuple[str, bytes]], unborn: frozenset[str]) -> Iterator[tuple[str, bytes]]:
    for name, metric in added:
        is_unnamed = name in unborn and parse(metric).metrics[0].name is None
        yield name, named(metric, name) if is_unnamed else metric


# --- what conditions ask


def doubt(grants: Grants, request: ViewRequest) -> str:
    """Return why it is not known which metrics these are; empty for a birth, which names them itself."""
    if not grants.reads or request.topic.type in BIRTHS:
        return ""
    known = request.known
    doubted = next((metric for metric in request.message.metrics if not known.is_certain(metric)), None)
    if doubted is None:
        return ""
    problem = "no birth certificate has" if doubted.alias not in known.names else "another metric has"
    return f"{problem} alias {doubted.alias}"


def contexts(grants: Grants, request: ViewRequest, more: Sequence[str], subject: Record) -> list[Context]:
    """Return the contexts of conditions: one, or one for each of the values that some metric has in the message."""
    attributes = grants.reads
    if not attributes:
        return [{}]
    fixed: dict[str, Value] = {}
    if MESSAGE in attributes:
        fixed[MESSAGE] = _about(request)
    if SUBJECT in attributes:
        fixed[SUBJECT] = subject
    if NOW in attributes:
        fixed[NOW] = request.now
    everything = METRICS in attributes
    records: dict[str, list[Record]] = {}
    message, known = request.message, request.known
    for metric in message.metrics:
        name = known.name(metric)
        if name is not None and (everything or name in attributes):
            birth = known.birth(name) if request.topic.type not in BIRTHS else None
            records.setdefault(name, []).append(read_metric(message.payload, metric.body, metric.stop, birth))
    for name in more:
        if everything or name in attributes:
            records[name] = [*records.get(name, ()), _record(known.values[name], known.birth(name))]
    layers = max(map(len, records.values()), default=1)
    return [_layer(number, records, fixed, everything) for number in range(layers)]


def _layer(number: int, records: Mapping[str, list[Record]], fixed: Context, everything: bool) -> Context:
    metrics = {name: values[min(number, len(values) - 1)] for name, values in records.items()}
    attributes = {name: record for name, record in metrics.items() if name not in RESERVED}
    return {**attributes, **fixed, METRICS: metrics} if everything else {**attributes, **fixed}


def _about(request: ViewRequest) -> Record:
    topic, message = request.topic, request.message
    source = topic.source
    record: Record = {"type": topic.type}
    if source is not None:
        record |= {"group": source.group, "edge": source.edge, "device": source.device}
    else:
        record |= {"host": topic.host, **request.state}
    if message.seq is not None:
        record["seq"] = message.seq
    if message.timestamp is not None:
        record["timestamp"] = message.timestamp
    return record


def _record(field: bytes, birth: Record | None) -> Record:
    metric = parse(field).metrics[0]
    return read_metric(field, metric.body, metric.stop, birth)
