"""Stage admit over tables: may the publisher publish there?

Tokens and trust are decided as the node decided them, for that needs what only it knew then: which token came with an
event, who had signed it, how these were rated. So what was refused stays refused under every policy; and where nodes
would have to decide by tokens or trust what they never decided so, jobs raise an error.
"""

from pyspark.sql import Column, DataFrame

from penstock.domain.schema.tokens import TokenSettings
from penstock.engine.events.plan import Plans
from penstock.engine.stages import admit
from penstock.engine.stages.draft import Draft
from penstock.journal.read.events import OUTPUT
from penstock.model.verdict import Effect, Verdict
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, CompiledDomain, Policies
from penstock.pipeline.stages.stage import KeyDraft, Traffic, was_stopped_at
from penstock.pipeline.tables.executor import F
from penstock.policy.tokens.rights import NO_RIGHTS, TokenRights

BY_LIVE_STATE = ("token", "trust", "property")
"""Rules of admission that need what a node knew then."""


def plan(draft: KeyDraft) -> None:
    """Find the node and the publisher, and decide whether it may publish on the topic at all."""
    key, policy = draft.key, draft.policy
    if key.node not in policy.ensemble.nodes:
        return _refuse(draft, "node", f"there is no node `{key.node}`")
    draft.node = draft.actors.node(policy, key.node)
    publisher = policy.publisher(draft.node, key.client_id, key.user, key.entity, key.neighbour)
    if publisher is None:
        return _refuse(draft, "place", f"`{key.entity}` has no place at node `{key.node}`")
    draft.publisher = publisher
    draft.source, draft.link_type = publisher.entity, publisher.link.link_type
    planned = Draft(draft.node, key.topic, Plans(publisher.link, {}))
    admit.plan(planned)
    draft.verdict = planned.verdict
    if not draft.is_as_recorded and draft.verdict.effect is not Effect.SUPPRESS:
        draft.verdict = _by_token(draft) or draft.verdict
    return None


def _refuse(draft: KeyDraft, rule: str, reason: str) -> None:
    draft.is_placed = False
    draft.verdict = Verdict("admit", Effect.SUPPRESS, rule, reason)


def on_table(traffic: Traffic) -> Traffic:
    """Stop what the policy does not let a publisher publish, or a node refused by token or trust.

    What monitors made is of something that was let in.
    """
    passes = (F.col("kind") == OUTPUT) | (F.col("admitted") & ~was_refused())
    return traffic.with_rows(traffic.rows.withColumn("passes", passes))


on_stream = on_table


def was_refused() -> Column:
    """Return whether a node refused an event by its token, or for lack of trust."""
    return was_stopped_at("admit") & F.col("rule").isin(*BY_LIVE_STATE)


def _by_token(draft: KeyDraft) -> Verdict | None:
    """Return what is refused by tokens that the publisher did not need then, or that say other things now."""
    key, policy = draft.key, draft.policy
    then, tokens = draft.before.policy if draft.before is not None else None, policy.ensemble.tokens
    if key.neighbour in policy.ensemble.nodes and draft.policies.are_recorded:
        _check_neighbour(policy, then, key.node, key.neighbour or "")
    holder = policy.holder(draft.source, key.user)
    if tokens is None or key.neighbour is not None or _has_same_tokens(policy, then, holder):
        return None
    return _refused_by_token(tokens, holder, key.topic)


def _has_same_tokens(policy: CompiledDomain, before: CompiledDomain | None, holder: str) -> bool:
    """Return whether a client has the tokens that it had: then what was decided by them stands."""
    now, then = policy.ensemble.tokens, before.ensemble.tokens if before is not None else None
    if now is None or then is None:
        return False
    return (now.granted(holder), now.required) == (then.granted(holder), then.required)


def _refused_by_token(tokens: TokenSettings, holder: str, topic: str) -> Verdict | None:
    """Return why a client may not publish to a topic by the token that nodes give it; None if it may."""
    granted = tokens.granted(holder)
    if granted is None and not tokens.required:
        return None
    rights = NO_RIGHTS if granted is None else TokenRights(*granted)
    if rights.publishes(topic):
        return None
    return Verdict("admit", Effect.SUPPRESS, "token", rights.why_write(topic))


def _check_neighbour(policy: CompiledDomain, before: CompiledDomain | None, node: str, neighbour: str) -> None:
    """Raise `PipelineError` if what came from a node is to be decided by tokens or trust, and was not then."""
    for key in ("trust", "tokens"):
        is_asked = getattr(policy.ensemble, key) is not None
        if is_asked and (before is None or getattr(before.ensemble, key) is None):
            raise PipelineError(
                f"`{key}` cannot be evaluated for what node `{node}` recorded from `{neighbour}` without it: the"
                " journal does not say which tokens would have come, and how they would have been rated; remove"
                f" `{key}` from the domain, or begin with a day on which nodes had it (--since)"
            )


def check_subjects(policies: Policies, askers: tuple[Asker, ...]) -> None:
    """Raise `PipelineError` if subjects need tokens, and it is not said anywhere what is in them."""
    for policy in policies.judging:
        tokens = policy.ensemble.tokens
        if tokens is None or not tokens.required:
            continue
        if all(tokens.granted(policy.holder(asker.name, asker.user)) is None for asker in askers):
            named = ", ".join(f"`{asker.label}`" for asker in askers[:3])
            raise PipelineError(
                f"what {named} may read is not known: clients need a token, and `tokens.grants` names none of them"
            )


def check_ways(events: DataFrame, recording: frozenset[str], draft: Policies, then: Policies) -> None:
    """Raise `PipelineError` if it is not known which ways events went, or would go, for lack of trust."""
    trusting = any(policy.ensemble.trust is not None and policy.has_links for policy in draft.judging)
    if trusting and any(policy.ensemble.trust is None for policy in then.judging):
        raise PipelineError(
            "the draft uses `trust` between nodes, and the recording nodes did not always: their ratings are not"
            " known; remove `trust` from the draft"
        )
    if all(policy.ensemble.tokens is None for policy in then.judging):
        return
    stopped = events.filter(was_refused() & F.col("neighbour").isin(*recording))
    counted = stopped.groupBy("node", "neighbour", "rule").count().orderBy(F.desc("count"), "node").collect()
    if counted:
        first = counted[0]
        raise PipelineError(
            f"node `{first.node}` refused {first['count']} events of `{first.neighbour}` by `{first.rule}`: the"
            " journal does not say where these would have gone; choose other days (--since, --until), or use"
            " `penstock pipeline govern`, which takes the events as they came to each node"
        )
