"""Tokens and trust over what was recorded: what a node decided by them stands, for it needs what only it knew then.

Which token came with an event, who had signed it and how these were rated cannot be worked out again. So what was
refused stays refused under every policy; and where nodes would have to decide by tokens or trust what they never
decided so, there is no answer, and jobs say so.
"""

from pyspark.sql import Column, DataFrame

from penstock.domain.schema.tokens import TokenSettings
from penstock.model.verdict import Effect, Verdict
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, Policies, Policy
from penstock.pipeline.tables.executor import F
from penstock.policy.tokens.rights import NO_RIGHTS, TokenRights

BY_LIVE_STATE = ("token", "trust")
"""Rules of admission that need what a node knew then."""


def was_refused() -> Column:
    """Whether a node refused an event by its token, or for lack of trust."""
    return (F.col("effect") == "suppress") & (F.col("stage") == "admit") & F.col("rule").isin(*BY_LIVE_STATE)


def is_the_same(policy: Policy, before: Policy | None, holder: str) -> bool:
    """Whether a client has the tokens that it had: then what was decided by them stands."""
    now, then = policy.ensemble.tokens, before.ensemble.tokens if before is not None else None
    if now is None or then is None:
        return False
    return (now.granted(holder), now.required) == (then.granted(holder), then.required)


def publish_key(tokens: TokenSettings, holder: str, topic: str) -> Verdict | None:
    """Why a client may not publish to a topic by the token that nodes give it; None if it may."""
    granted = tokens.granted(holder)
    if granted is None and not tokens.required:
        return None
    rights = NO_RIGHTS if granted is None else TokenRights(*granted)
    if rights.publishes(topic):
        return None
    return Verdict("admit", Effect.SUPPRESS, "token", rights.why_write(topic))


def check_neighbour(policy: Policy, before: Policy | None, node: str, neighbour: str) -> None:
    """Raises `PipelineError` if what came from a node is to be decided by tokens or trust, and was not then."""
    for key in ("trust", "tokens"):
        is_asked = getattr(policy.ensemble, key) is not None
        if is_asked and (before is None or getattr(before.ensemble, key) is None):
            raise PipelineError(
                f"`{key}` cannot be decided over what node `{node}` recorded from `{neighbour}` without: which tokens"
                f" would have come, and how far they would have been trusted, is not known; take `{key}` out of the"
                " domain, or begin with a day on which nodes had it (--since)"
            )


def check_subjects(policies: Policies, askers: tuple[Asker, ...]) -> None:
    """Raises `PipelineError` if subjects need tokens, and it is not said anywhere what is in them."""
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
    """Raises `PipelineError` if it is not known which ways events went, or would go, for lack of trust."""
    trusting = any(policy.ensemble.trust is not None and policy.has_links for policy in draft.judging)
    if trusting and any(policy.ensemble.trust is None for policy in then.judging):
        raise PipelineError(
            "the draft decides between nodes by `trust`, and nodes did not always: their ratings are not known; take"
            " `trust` out of the draft"
        )
    if all(policy.ensemble.tokens is None for policy in then.judging):
        return
    stopped = events.filter(was_refused() & F.col("neighbour").isin(*recording))
    counted = stopped.groupBy("node", "neighbour", "rule").count().orderBy(F.desc("count"), "node").collect()
    if counted:
        first = counted[0]
        raise PipelineError(
            f"node `{first.node}` refused {first['count']} events of `{first.neighbour}` by `{first.rule}`: where"
            " events would go that other nodes stopped so is not known; ask for other days (--since, --until), or use"
            " `penstock pipeline govern`, which takes what came to each node as it was decided"
        )
