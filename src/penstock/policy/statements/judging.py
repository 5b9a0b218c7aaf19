"""What policies do to one message in one direction.

Nothing comes in here but by arguments, nothing goes out but results: a live node and Spark judge by the same function.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from penstock.language.condition import Condition
from penstock.language.errors import Failure, FailureKind
from penstock.language.statements.statement import Attach, Matching, Message, Point, Verb
from penstock.model.content.content import Content
from penstock.model.verdict import Effect, Verdict
from penstock.policy.statements.copies import Copy, Path, paths_read
from penstock.policy.statements.elements.element import ElementError, KeptMessage, PolicyPublication
from penstock.policy.statements.statement import Act, Chain, CompiledRule, Policy

EXCEPTION, CONFLICT = "PolicyException", "PolicyConflict"
"""Classes of meta-events."""

ATTACHED = "attached policy"
"""What a policy is called that travels with a message."""


class MessageParty(Protocol):
    """Who sends a message to a node, or gets it from there."""

    @property
    def name(self) -> str: ...

    def is_member(self, group: str) -> bool:
        """Return whether it is known to be in a trust group."""


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


class Bound(NamedTuple):
    """A policy, and what it belongs to."""

    policy: Policy
    name: str
    """What explanations call it."""
    filter: str = ""
    condition: Condition | None = None
    carrier: Message | None = None
    """What it is associated with; None: it is attached to the message itself."""
    is_given: bool = False
    """The domain gives it; else somebody has told of it."""
    is_strange: bool = False
    """A client beyond a neighbour has set it, so it may be for events that are not its own."""

    def matches(self, content: Content) -> bool:
        """Return whether a publication is one that its filter is for.

        One that cannot be asked about is: a policy may be there to keep something back. Only that an attribute is
        missing means for a client's filter that it does not match; the domain's are for such publications too.
        """
        outcome = True if self.condition is None else self.condition.holds(content)
        if isinstance(outcome, Failure):
            return self.is_given or outcome.kind is not FailureKind.NO_SUCH_ATTRIBUTE
        return outcome

    @property
    def paths(self) -> frozenset[Path]:
        """The attributes that its filter asks for."""
        return paths_read(None if self.condition is None else self.condition.tree)


Rules = tuple[tuple[Bound, tuple[tuple[int, CompiledRule], ...]], ...]
"""Policies, and of each the rules that are to be applied, with their numbers."""

_Said = tuple[str, int, str, int, Effect, tuple[Act, ...]]
"""Policy, number of the rule, a mark if it is its `OnException`, number of the clause, and what it did."""


class Judgement:
    """What becomes of one copy; elements read and change it. One is made for each copy: what is rare is made late."""

    message = Message.PUBLICATION
    copy: Copy
    here: Here
    sender: MessageParty | None
    receiver: MessageParty | None
    is_again = False
    """It was judged before, and only what takes away counts."""
    may_only_block = False
    """What policies would make of it does not count, only whether they let it go."""
    counting: tuple[int, ...] | None = None
    """Of the subscriptions by which it goes this way, the places of those that still count; None: all."""
    policy: Bound | None = None
    """Whose rule is being applied."""
    asked: frozenset[Path] = frozenset()
    """The attributes that all subscriptions with policies ask for by which it goes this way."""
    blocked = ""
    """The policy that blocks it; and in `uninserted`, the one that does not let it in."""
    uninserted = ""
    flooded = False
    attached: tuple[Bound, ...] | None = None
    """What goes on with the copy, if that is not what came with the message."""
    effects: Sequence[tuple[Bound, PolicyPublication | KeptMessage]] = ()
    """What is to be done besides, and by whose wish."""
    _said: tuple[_Said | Verdict, ...] = ()
    _demands: dict[object, tuple[str, str]] | None = None

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
        """What each rule that was applied did: written out only if somebody asks."""
        return [one if isinstance(one, Verdict) else _verdict(*one) for one in self._said]

    def note(self, said: _Said | Verdict) -> None:
        """Remember what was done."""
        self._said += (said,)

    def demand(self, about: object, what: str) -> None:
        """The policy asks for something that another may ask the opposite of."""
        assert self.policy is not None
        if self._demands is None:
            self._demands = {}
        before = self._demands.setdefault(about, (what, self.policy.name))
        if before[0] != what and before[1] != self.policy.name:
            told = f"`{before[1]}` says {before[0]}, `{self.policy.name}` says {what}"
            self._tell(CONFLICT, told)

    def _tell(self, kind: str, reason: str, detail: str = "") -> None:
        assert self.policy is not None
        said: dict[str, object] = {
            "class": kind,
            "policy": self.policy.name,
            "reason": reason,
            "message": self.copy.label(),
        }
        self.cause(PolicyPublication(said, detail=detail))

    def cause(self, effect: PolicyPublication | KeptMessage) -> None:
        """Have something done besides."""
        assert self.policy is not None
        self.effects = (*self.effects, (self.policy, effect))

    def fail(self, rule: str, reason: str) -> None:
        """What cannot be judged goes no further."""
        assert self.policy is not None
        self.blocked = self.uninserted = self.policy.name
        self.note(Verdict("judge", Effect.SUPPRESS, rule, reason))
        self._tell(EXCEPTION, f"{rule} failed", reason)  # what failed may tell of content: only operators are told


def attach(
    attached: Sequence[Bound], associated: Iterable[Bound], about: Message = Message.PUBLICATION
) -> tuple[Bound, ...]:
    """What is attached to a message once the rules of the filters that it matches have been (statements §4.2)."""
    found = list(attached)
    for bound in associated:
        for rule in bound.policy.rules:
            if rule.message is not about or rule.alone is None:
                continue
            one = Bound(rule.alone, ATTACHED)
            if any(one.policy == other.policy for other in found):
                continue
            if rule.attach is Attach.KEEP_EXISTING and found:
                continue
            if rule.attach is Attach.IF_YIELD and found:
                if not all(other.policy.yields for other in found):
                    continue
                found.clear()
            found.append(one)
    return tuple(found)


def judge(
    judgement: Judgement, verb: Verb, points: frozenset[Point], policies: Iterable[Bound], matching: Matching
) -> None:
    """Apply what policies have to say of the message here."""
    run(judgement, applicable(judgement.message, verb, points, policies, matching))


def applicable(
    message: Message, verb: Verb, points: frozenset[Point], policies: Iterable[Bound], matching: Matching
) -> Rules:
    """Return the rules that are for such messages here."""
    found = []
    for bound in policies:
        rules = tuple(
            (number, rule)
            for number, rule in enumerate(bound.policy.rules, 1)
            if rule.verb is verb
            and rule.message is message
            and rule.matching is matching
            and (bound.carrier is None or rule.attach is Attach.NEVER)
            and not rule.points.isdisjoint(points)
        )
        found.append((bound, rules))
    return tuple(found)


def run(judgement: Judgement, policies: Rules) -> None:
    """Apply these rules. Once it is blocked, policies further on are not asked: what they would do with it is not
    theirs to do.
    """
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
    """What is done if a rule fails."""
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
    """Run the first clause whose condition holds; whether there is one."""
    for place, clause in enumerate(chain, 1):
        if clause.test is not None:
            outcome = clause.test.decide(judgement)
            if isinstance(outcome, Failure):
                raise ElementError(outcome.reason)
            if not outcome:
                continue
        acts = clause.actions
        if judgement.is_again:
            acts = tuple(act for act in acts if act.element.name in AGAIN)
        if judgement.may_only_block:
            acts = tuple(act for act in acts if act.element.name == "BlockMessage")
        for act in acts:
            act.call(judgement)
        stopped = judgement.blocked or judgement.uninserted
        effect = Effect.SUPPRESS if stopped else Effect.REPLACE if judgement.copy.is_changed else Effect.PASS
        assert judgement.policy is not None
        judgement.note((judgement.policy.name, number, mark, place, effect, acts))
        return True
    return False


def _verdict(policy: str, number: int, mark: str, place: int, effect: Effect, acts: tuple[Act, ...]) -> Verdict:
    return Verdict("judge", effect, f"{policy}#{number}{mark}.{place}", ", ".join(act.text for act in acts))


AGAIN = frozenset({"BlockMessage", "RemoveAttributes", "KeepOnlyAttributes", "TrimAttributes"})
"""Actions that count for what was judged before, when policies have changed since."""
