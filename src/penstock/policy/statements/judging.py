"""The judgement of policies on one message in one direction. All input comes by arguments, all output is returned: a
live node and Spark use the same function.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.language.condition import Condition
from penstock.language.errors import Failure, FailureKind
from penstock.language.statements.statement import Attach, Matching, Message, Point, Verb
from penstock.model.content.content import Content
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.copies import Copy, Path, paths_read, touches
from penstock.policy.statements.elements.element import ElementError, KeptMessage, PolicyPublication
from penstock.policy.statements.statement import Act, Chain, CompiledRule, Policy
from penstock.policy.trust.sealing import NO_KEYS, Sealer

EXCEPTION, CONFLICT = "PolicyException", "PolicyConflict"
"""Classes of meta-events."""

ATTACHED = "attached policy"
"""The name of a policy that travels with a message."""


class MessageParty(Protocol):
    """The sender of a message to a node, or its receiver."""

    @property
    def name(self) -> str: ...

    def is_member(self, group: str) -> bool:
        """Return whether it is a known member of a trust group."""

    def why_no_member(self, group: str) -> str:
        """Return why it is none, if that is known of this message."""


class Here(NamedTuple):
    """The node that judges."""

    node: str
    host: str = ""
    load: float = 0.0
    """From 0 to 1."""
    elapsed: Callable[[], float] = lambda: 0.0
    """Seconds that the message has been in the node."""
    largest: int = 1 << 28
    """Bytes of the largest message that the node takes."""
    has_store: bool = False
    sealer: Sealer = NO_KEYS
    """The keys of its trust groups."""

    def moved_to(self, node: str) -> "Here":
        """Return another node, of which the same is known."""
        return self._replace(node=node)


class Bound(NamedTuple):
    """A policy, and the filter or message that it belongs to."""

    policy: Policy
    name: str
    """Its name in explanations."""
    filter: str = ""
    condition: Condition | None = None
    carrier: Message | None = None
    """The kind of message that it is set on; None: it is attached to the message itself."""
    is_given: bool = False
    """True if the domain assigns it; else a client or neighbour has set it."""
    is_strange: bool = False
    """True if a client beyond a neighbour has set it, so that it may concern events of others."""
    owner: str = ""
    """The client whose events alone it concerns, as offers name it; empty: it concerns events of all."""

    def matches(self, content: Content) -> bool:
        """Return whether its filter matches a publication.

        One that cannot be asked about is: a policy may be there to keep something back. Only that an attribute is
        missing means for a client's filter that it does not match; the domain's are for such publications too.
        """
        outcome = True if self.condition is None else self.condition.holds(content)
        if isinstance(outcome, Failure):
            return self.is_given or outcome.kind is not FailureKind.NO_SUCH_ATTRIBUTE
        return outcome

    @property
    def paths(self) -> frozenset[Path]:
        """The attributes that its filter reads."""
        return paths_read(None if self.condition is None else self.condition.tree)


Rules = tuple[tuple[Bound, tuple[tuple[int, CompiledRule], ...]], ...]
"""Policies, and of each the rules that are to be applied, with their numbers."""

_Note = tuple[str, int, str, int, Effect, tuple[Act, ...], tuple[str, ...]]
"""Policy, number of the rule, a mark if it is its `OnException`, number of the clause, what it did, and why."""


class Judgement:
    """The judgement of one copy, which elements read and change. Rare fields are class attributes until set."""

    message = Message.PUBLICATION
    copy: Copy
    here: Here
    sender: MessageParty | None
    receiver: MessageParty | None
    is_again = False
    """True if it was judged before: then only removing actions count."""
    may_only_block = False
    """True if policies may only block, not change it."""
    counting: tuple[int, ...] | None = None
    """The places of the subscriptions in this direction that still count; None: all."""
    policy: Bound | None = None
    """The policy whose rule is being applied."""
    asked: frozenset[Path] = frozenset()
    """The attributes that all subscriptions with policies in this direction ask for."""
    blocked = ""
    """The policy that blocks it; `uninserted` is the one that does not let it in."""
    uninserted = ""
    reasons: tuple[str, ...] = ()
    """The reasons why conditions do not hold, where these say more than the condition."""
    flooded = False
    attached: tuple[Bound, ...] | None = None
    """The policies that travel on with the copy, if they have changed."""
    effects: Sequence[tuple[Bound, PolicyPublication | KeptMessage]] = ()
    """Side effects, and the policies that caused them."""
    _notes: tuple[_Note | Verdict, ...] = ()
    _demands: tuple[tuple[Path, str, Bound], ...] = ()

    def __init__(
        self,
        message: Message,
        copy: Copy,
        here: Here,
        sender: MessageParty | None = None,
        receiver: MessageParty | None = None,
        is_again: bool = False,
    ) -> None:
        self.message = message
        self.copy = copy
        self.here = here
        self.sender = sender
        self.receiver = receiver
        self.is_again = is_again

    @property
    def verdicts(self) -> list[Verdict]:
        """The verdict of each applied rule, formatted when it is read."""
        return [entry if isinstance(entry, Verdict) else _verdict(*entry) for entry in self._notes]

    def note(self, entry: _Note | Verdict) -> None:
        """Record a verdict."""
        self._notes += (entry,)

    def demand(self, about: Path, what: str) -> None:
        """Record a demand of the policy, and report a conflict with the opposite demand of another: about the same, or
        about a part of it. `about`: of attributes, what is demanded of all and then the path.
        """
        mine = self.policy
        assert mine is not None
        for path, other_what, other in self._demands:
            is_same = path == about
            if (
                other_what == what
                or not touches([path], [about])
                or (other.name, other.policy) == (mine.name, mine.policy)
            ):
                continue
            named = ("", "") if is_same else (f" `{'.'.join(path[1:])}`", f" `{'.'.join(about[1:])}`")
            self._report(CONFLICT, f"`{other.name}` says {other_what}{named[0]}, `{mine.name}` says {what}{named[1]}")
        self._demands = (*self._demands, (about, what, mine))

    def _report(self, kind: str, reason: str, detail: str = "") -> None:
        assert self.policy is not None
        policy, label = self.policy.name, self.copy.label()
        self.cause(PolicyPublication({"class": kind, "policy": policy, "reason": reason, "message": label}, "", detail))

    def cause(self, effect: PolicyPublication | KeptMessage) -> None:
        """Add a side effect."""
        assert self.policy is not None
        self.effects = (*self.effects, (self.policy, effect))

    def fail(self, rule: str, reason: str) -> None:
        """Block a message that cannot be judged."""
        assert self.policy is not None
        self.blocked = self.uninserted = self.policy.name
        self.note(Verdict("judge", Effect.SUPPRESS, rule, reason))
        self._report(EXCEPTION, f"{rule} failed", reason)  # the reason may reveal content: only operators see it


def attach(
    attached: Sequence[Bound], associated: Iterable[Bound], about: Message = Message.PUBLICATION
) -> tuple[Bound, ...]:
    """Return the policies of a message after the filters that it matches have attached theirs (statements §4.2)."""
    result = list(attached)
    for bound in associated:
        for rule in bound.policy.rules:
            if rule.message is not about or rule.alone is None:
                continue
            bound_rule = Bound(rule.alone, ATTACHED)
            if any(bound_rule.policy == other.policy for other in result):
                continue
            if rule.attach is Attach.KEEP_EXISTING and result:
                continue
            if rule.attach is Attach.IF_YIELD and result:
                if not all(other.policy.yields for other in result):
                    continue
                result.clear()
            result.append(bound_rule)
    return tuple(result)


def judge(
    judgement: Judgement, verb: Verb, points: frozenset[Point], policies: Iterable[Bound], matching: Matching
) -> None:
    """Apply the rules of policies to the message here."""
    run(judgement, applicable(judgement.message, verb, points, policies, matching))


def applicable(
    message: Message, verb: Verb, points: frozenset[Point], policies: Iterable[Bound], matching: Matching
) -> Rules:
    """Return the rules for such messages here."""

    def applies(bound: Bound, rule: CompiledRule) -> bool:
        return (
            (rule.verb is verb and rule.message is message and rule.matching is matching)
            and (bound.carrier is None or rule.attach is Attach.NEVER)
            and not rule.points.isdisjoint(points)
        )

    numbered = ((bound, enumerate(bound.policy.rules, 1)) for bound in policies)
    return tuple((bound, tuple((at, rule) for at, rule in rules if applies(bound, rule))) for bound, rules in numbered)


def run(judgement: Judgement, policies: Rules) -> None:
    """Apply these rules. After a policy blocks the message, later policies are not applied."""
    for bound, rules in policies:
        judgement.policy = bound
        for number, rule in rules:
            try:
                _run(judgement, rule.chain, number, "")
            except ElementError as error:
                _compensate(judgement, rule, number, str(error))
        if judgement.blocked or judgement.uninserted:
            return


def _compensate(judgement: Judgement, rule: CompiledRule, number: int, reason: str) -> None:
    """Run `OnException` of a rule that failed."""
    try:
        if _run(judgement, rule.on_exception, number, "!"):
            return
    except ElementError as error:
        reason = f"{reason}; then, in OnException: {error}"
    assert judgement.policy is not None
    if judgement.copy.is_empty:
        return
    judgement.fail(f"{judgement.policy.name}#{number}", reason)


def _run(judgement: Judgement, chain: Chain, number: int, mark: str) -> bool:
    """Run the first clause whose condition holds; return whether there is one."""
    for place, clause in enumerate(chain, 1):
        if clause.test is not None:
            outcome = clause.test.decide(judgement)
            if isinstance(outcome, Failure):
                raise ElementError(outcome.reason)
            if not outcome:
                continue
        acts = clause.actions
        if judgement.is_again:
            acts = tuple(act for act in acts if act.element.is_removal)
        if judgement.may_only_block:
            acts = tuple(act for act in acts if act.element.name == "BlockMessage")
        for act in acts:
            act.call(judgement)
        stopped = judgement.blocked or judgement.uninserted
        effect = Effect.SUPPRESS if stopped else Effect.REPLACE if judgement.copy.is_changed else Effect.PASS
        assert judgement.policy is not None
        reasons = judgement.reasons if stopped else ()
        judgement.note((judgement.policy.name, number, mark, place, effect, acts, reasons))
        return True
    return False


def _verdict(
    policy: str, number: int, mark: str, place: int, effect: Effect, acts: tuple[Act, ...], reasons: tuple[str, ...]
) -> Verdict:
    did = ", ".join(act.text for act in acts)
    why = f": {'; '.join(dict.fromkeys(reasons))}" if reasons else ""
    return Verdict("judge", effect, f"{policy}#{number}{mark}.{place}", f"{did}{why}")
