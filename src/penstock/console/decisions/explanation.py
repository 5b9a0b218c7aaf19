"""Explanations: a decision stage by stage, the event before and after. Data from outside is escaped here."""

from collections.abc import Sequence
from html import escape

from nicegui import ui

from penstock.console import widgets
from penstock.console.decisions import payload_diff
from penstock.console.decisions.payload_diff import CHANGED, GONE, NEW, SAME, DiffLine, MetricDiff
from penstock.console.prose import prose
from penstock.engine.explain.report import Account, DecisionAccount, EventAccount, VerdictAccount
from penstock.engine.stages import runner
from penstock.model.verdict import Effect

NAMES = runner.names()
ASKS = {
    "admit": "may it publish here?",
    "prune": "which metrics may it write?",
    "conform": "does it keep its producer's promises?",
    "edit": "what do the monitors of its link make of it?",
    "match": "which subscriptions does it satisfy?",
    "route": "may it go on from this link's type to that one's?",
    "judge": "what do policy statements do?",
    "shape": "what does the monitor on the outgoing link make of it?",
    "release": "do purpose, attributes and quality suffice?",
    "project": "which metrics may be read?",
    "emit": "is its receiver there, and how does it leave?",
}
HIDDEN = "The payload is hidden: you have the right `read`, and payloads need `content`."
MAX_OUTPUTS = 20
MAX_DECISIONS = 40
MAX_RECEIVERS = 200
_MARK_WORDS = {GONE: "withheld: ", CHANGED: "changed: ", NEW: "new: "}
_TAGS = {GONE: "del", CHANGED: "mark", NEW: "ins"}


def html(text: str) -> None:
    """Add markup that was made here, of parts that were escaped."""
    ui.html(text, sanitize=False).classes("pk-wide")


def data(text: str) -> str:
    """Return text from outside within markup."""
    return f'<bdi class="pk-data">{escape(text)}</bdi>'


def prose_html(text: str) -> str:
    """Return a sentence within markup, with parts from outside."""
    return f'<bdi class="pk-prose">{prose(text)}</bdi>'


# --- stages


def stages(verdicts: Sequence[VerdictAccount], is_whole: bool = True) -> None:
    """Show the stages in order, those with a verdict highlighted; the others are known only of a whole decision."""
    by_stage: dict[str, list[VerdictAccount]] = {name: [] for name in NAMES}
    for verdict in verdicts:
        by_stage.setdefault(verdict.stage, []).append(verdict)
    spoke = [at for at, name in enumerate(by_stage) if by_stage[name]]
    is_stopped = bool(verdicts) and verdicts[-1].effect == Effect.SUPPRESS
    last = max(spoke, default=0) if is_stopped else len(by_stage)
    unsaid = "no verdict" if is_whole else "passed it, no more is kept"
    items = [
        _stage(name, verdicts_, "not reached" if at > last else unsaid)
        for at, (name, verdicts_) in enumerate(by_stage.items())
    ]
    html(f'<ol class="pk-stages" aria-label="Stages">{"".join(items)}</ol>')


def _stage(name: str, verdicts: Sequence[VerdictAccount], unsaid: str) -> str:
    kind = "pk-spoke" if verdicts else "pk-silent"
    content = "".join(map(_verdict, verdicts)) or f'<span class="pk-about">{unsaid}</span>'
    asks = f'<span class="pk-asks">{escape(ASKS.get(name, ""))}</span>'
    return f'<li class="{kind}" data-stage="{escape(name)}"><div><b>{escape(name)}</b> {asks}</div>{content}</li>'


def _verdict(verdict: VerdictAccount) -> str:
    effect = verdict.effect if verdict.effect in set(Effect) else "pass"
    rule = f' <span class="pk-rule">by {data(verdict.rule)}</span>' if verdict.rule else ""
    reason = f'<div class="pk-reason">{prose_html(verdict.reason)}</div>' if verdict.reason else ""
    word = f'<span class="pk-effect pk-{effect}">{escape(verdict.effect)}</span>'
    return f'<div class="pk-said">{word}{rule}{reason}</div>'


# --- before and after


def before_after(event: EventAccount, outputs: Sequence[EventAccount], nothing: str) -> None:
    """Show the event, and beside it the outputs; `nothing` says why there are none."""
    for output in outputs[:MAX_OUTPUTS] or (None,):
        _side_by_side(event, output, nothing)
    if len(outputs) > MAX_OUTPUTS:
        widgets.note(f"… and {len(outputs) - MAX_OUTPUTS} events more")


def _side_by_side(event: EventAccount, output: EventAccount | None, nothing: str) -> None:
    if "hidden" in (event.encoding, output.encoding if output is not None else ""):
        html(_columns(event, output, "", "", nothing))
        widgets.sentence(HIDDEN).classes("pk-hidden").props("role=note")
    elif event.metrics is not None and (output is None or output.metrics is not None):
        html(_columns(event, output, "", "", nothing))
        after = output.metrics if output is not None else event.metrics
        html(_metrics(payload_diff.metrics(event.metrics, after), output))
    else:
        diff = payload_diff.compare(event, output)
        html(_columns(event, output, _payload(diff.before, diff.kind), _payload(diff.after, diff.kind), nothing))


def _columns(event: EventAccount, output: EventAccount | None, before: str, after: str, nothing: str) -> str:
    if output is None:
        went = f'<p class="pk-nothing">{escape(nothing)}</p>'
    else:
        went = _topic(output, output.topic != event.topic) + after
    return (
        '<div class="pk-sides">'
        f'<section aria-label="Before"><h3>Before</h3>{_topic(event, False)}{before}</section>'
        f'<section aria-label="After"><h3>After</h3>{went}</section></div>'
    )


def _topic(event: EventAccount, is_changed: bool) -> str:
    name = f"<mark>{data(event.topic)}</mark>" if is_changed else data(event.topic)
    retained = ", retained" if event.retain else ""
    return f'<p class="pk-topic">{name} <span class="pk-about">QoS {event.qos:d}{retained}</span></p>'


def _payload(lines: Sequence[DiffLine], kind: str) -> str:
    if not lines:
        return '<p class="pk-about">no payload</p>'
    text = "\n".join(_marked(escape(line.text), line.mark) for line in lines)
    return f'<p class="pk-about">{kind}</p><pre class="pk-payload" tabindex="0" aria-label="{kind}">{text}</pre>'


def _marked(text: str, mark: str) -> str:
    """Return escaped text, struck out or marked, with words for screen readers."""
    if mark == SAME:
        return text
    return f'<{_TAGS[mark]} class="pk-{mark}"><span class="pk-aside">{_MARK_WORDS[mark]}</span>{text}</{_TAGS[mark]}>'


def _metrics(diffs: Sequence[MetricDiff], output: EventAccount | None) -> str:
    if not diffs:
        return '<p class="pk-about">no metrics</p>'
    rows = "".join(_metric(diff, output is None) for diff in diffs[: payload_diff.MAX_LINES])
    more = len(diffs) - payload_diff.MAX_LINES
    rest = f'<p class="pk-about">… and {more} metrics more</p>' if more > 0 else ""
    head = "<tr><th scope=col>Metric</th><th scope=col>Before</th><th scope=col>After</th></tr>"
    return f'<table class="pk-metrics"><thead>{head}</thead><tbody>{rows}</tbody></table>{rest}'


def _metric(diff: MetricDiff, is_stopped: bool) -> str:
    name, before, after = (data(text) if text is not None else "" for text in diff)
    mark = SAME if is_stopped else diff.mark
    if is_stopped:
        after = '<span class="pk-about">nothing goes on</span>'
    elif mark == GONE:
        name, before, after = _marked(name, GONE), f'<del class="pk-gone">{before}</del>', "withheld"
    elif mark != SAME:
        after = _marked(after, mark)
    return f'<tr class="pk-metric-{mark or "same"}"><th scope=row>{name}</th><td>{before}</td><td>{after}</td></tr>'


# --- one decision, and all of one event


def decision(account: DecisionAccount) -> None:
    """Show one whole decision."""
    way = f"{data(account.came_by.source)} → {data(account.node)}"
    way += f" → {data(account.goes_by.target)}" if account.goes_by is not None else ""
    types = escape(account.came_by.type) + (f" → {escape(account.goes_by.type)}" if account.goes_by is not None else "")
    html(f'<p class="pk-way">{way} <span class="pk-about">link types: {types or "none"}</span></p>')
    before_after(account.event, account.outputs, _nothing(account))
    stages(account.verdicts, not is_refusal(account))


def is_refusal(account: DecisionAccount) -> bool:
    """Return whether a node has recorded only the one verdict that refused."""
    return len(account.verdicts) == 1 and account.goes_by is None and account.verdicts[0].effect == Effect.SUPPRESS


def _nothing(account: DecisionAccount) -> str:
    return f"Nothing goes on to {account.goes_by.target}." if account.goes_by is not None else "It goes no further."


def explanation(account: Account) -> None:
    """Show what each receiver of an event gets, or why not; and the decisions on its way."""
    if account.assumed:
        widgets.hint(f"Assumed: {account.assumed}")
    if not account.receivers:
        widgets.note("Nobody would receive it: nobody else is subscribed to it, or it is stopped before.")
    items = []
    for name, receiver in list(account.receivers.items())[:MAX_RECEIVERS]:
        if receiver.gets:
            content = "".join(f"<div>{_summary(got, account.event)}</div>" for got in receiver.gets[:MAX_OUTPUTS])
            word = '<span class="pk-effect pk-pass">gets</span>'
        else:
            content = "".join(f"<div>{prose_html(why)}</div>" for why in receiver.why_not)
            word = '<span class="pk-effect pk-suppress">gets nothing</span>'
        items.append(f"<li>{data(name)} {word}{content}</li>")
    if items:
        html(f'<ul class="pk-receivers" aria-label="Receivers">{"".join(items)}</ul>')
    widgets.subheading("Decisions on the way")
    for decided in account.decisions[:MAX_DECISIONS]:
        goes = f" → {decided.goes_by.target}" if decided.goes_by is not None else ""
        title = f"{decided.effect}: {decided.came_by.source} → {decided.node}{goes}"
        with ui.expansion(title, value=len(account.decisions) == 1).classes("pk-decided pk-wide"):
            decision(decided)
    if len(account.decisions) > MAX_DECISIONS:
        widgets.note(f"… and {len(account.decisions) - MAX_DECISIONS} decisions more")


def _summary(got: EventAccount, published: EventAccount) -> str:
    """Return what a receiver gets, in one line."""
    if got.encoding == "hidden":
        return f"{data(got.topic)} <span class='pk-about'>payload hidden</span>"
    is_same = (got.topic, got.payload) == (published.topic, published.payload)
    summary = "as it was published" if is_same else data(str(got)[len(got.topic) :].strip()[:300] or "without payload")
    return f"{data(got.topic)} {summary}"
