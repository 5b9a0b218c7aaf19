"""The authorised view: of all that nodes recorded, what a subject may have.

It is what a node would have sent to the subject if that had subscribed, from the first event on, to each topic by its
name: payloads byte for byte, as the monitors on the links left them. The stages are those of the engine, in its order;
each has its side here, on keys (`decide.py`) or on rows or both. `docs/pipeline.md` has the meaning and the gaps.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from pyspark.sql import Column, DataFrame

from penstock.engine.contracts.registry import CONSUMER, SITUATION
from penstock.engine.stages import runner
from penstock.journal.read.events import ARRIVAL, OUTPUT, RETAINED
from penstock.language.condition import Condition, all_of
from penstock.pipeline.conditions.typed import MOST_BRANCHES, MOST_CONDITIONS, TypedConditions, narrowed, without
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spark.policies import Asker, Policies
from penstock.pipeline.stages import conform, decide, means, release
from penstock.pipeline.stages.admit import was_refused
from penstock.pipeline.stages.decide import AS_IT_CAME, RECORDED, RUN
from penstock.pipeline.stages.edit import edited, emitted
from penstock.pipeline.stages.judge import Judges, has_reserved, is_carrying, is_judged, judged, with_ways
from penstock.pipeline.stages.match import SEPARATOR, one_holds
from penstock.pipeline.stages.project import projected, pruned
from penstock.pipeline.stages.release import Releases, with_times
from penstock.pipeline.stages.situations import NOTHING_OPEN, timeline
from penstock.pipeline.tables.executor import F, Window
from penstock.pipeline.tables.tables import typed_columns_of
from penstock.policy.statements.advertisement import OWN

VIEW = (
    "subject",
    "node",
    "seq",
    "place",
    "part",
    "time",
    "topic",
    "payload",
    "qos",
    "retain",
    "content_type",
    "properties",
    "expiry",
    release.NOT_BEFORE,
    release.UNTIL,
)
"""What a subject sees of an event; in order at a node by `seq`, `place`, `part`. Nothing says who published."""

EVENT = (
    "revision",
    "node",
    "seq",
    "arrival",
    "place",
    "time",
    "kind",
    "client_id",
    "user",
    "entity",
    "link_type",
    "neighbour",
    "topic",
    "payload",
    "qos",
    "retain",
    "content_type",
    "properties",
    "expiry",
    "path",
    "id",
    "effect",
    "stage",
    "rule",
    "open",
    "facts",
)
"""What the stages ask of an event."""


@dataclass(frozen=True)
class Governing:
    """By which policies, for whom; and what need not be done at all."""

    policies: Policies
    askers: tuple[Asker, ...]
    asks_advertisers: bool
    """Whether conform has conditions to ask."""
    asks_subjects: bool
    """Whether match may have some."""
    wheres: frozenset[str]
    """Those that match may have to ask of typed content."""
    are_all_wheres: bool
    """Else a topic to which several apply may have others."""
    trusts_types: bool
    """Whether typed content is as the policies read it."""
    may_run: bool
    """Whether monitors on links into nodes may have to be run."""
    watches: bool
    """Whether there are monitors on links to the subjects."""
    is_cyclic: bool
    has_access: bool
    """Whether there are access policies."""
    judges: bool
    """Whether there are policy statements, or may be."""
    has_contracts: bool = False
    """Whether there are contracts, or were."""
    has_situations: bool = False
    """Whether some of their rules may depend on situations."""
    at_rest: bool = False
    """Whether policies find a node at rest where it was not recorded how it was: see `judged.Judges`."""

    @classmethod
    def of(cls, policies: Policies, askers: tuple[Asker, ...]) -> "Governing":
        """Raises what compiling a domain raises, before any job is started."""
        advertisers = runs = watches = cyclic = access = judges = situations = False
        wheres, most = set[str](), 0
        for policy in policies.judging:
            whole = policy.ensemble
            cyclic |= whole.is_cyclic
            access |= whole.access is not None
            judges |= bool(whole.statements.given or whole.statements.grants)
            situations |= whole.contracts is not None and bool(whole.contracts.situations)
            runs |= policies.decide_again and any(
                policy.ensemble.monitors(link) for link in whole.links.values() if link.target in whole.nodes
            )
            for name in whole.nodes:
                runs |= policies.decide_again and bool(policy.monitors("", name))
                advertised = [one for entry in whole.listed(name) for one in entry.advertises]
                advertisers |= policies.decide_again and any(one.condition for one in advertised)
                node = policy.new_node(name)
                sessions = [session for asker in askers if (session := policy.session(node, asker)) is not None]
                for session in sessions:
                    wheres |= _texts([condition for _, condition in session.where])
                    most = max(most, len(session.where))
                watches |= any(session.watch_out is not None for session in sessions)
        trusts = policies.stands is None or _reads_alike(policies)
        asked = (advertisers, bool(wheres), frozenset(wheres), most <= 1, trusts)
        contracts = policies.may_have_contracts
        return cls(policies, askers, *asked, runs, watches, cyclic, access, judges, contracts, situations)

    def knowing(self, keys: decide.Keys) -> "Governing":
        """The same, with only those conditions that concern what was recorded, if it is known which they are."""
        if keys.wheres is None:
            return self
        # Which topics monitors publish on is not known.
        asks = self.asks_subjects and (self.may_run or bool(keys.wheres))
        return replace(self, asks_subjects=asks, wheres=keys.wheres, are_all_wheres=True)


def _reads_alike(policies: Policies) -> bool:
    """Whether all domains say the same about content."""
    rules = [standing.compiled().domain.content for standing in policies.by_digest.values()]
    return all(one == rules[0] for one in rules)


def _texts(conditions: list[Condition]) -> set[str]:
    """Each by itself, and if they are few all together."""
    together = {all_of(conditions).text} if 1 < len(conditions) <= MOST_BRANCHES else set()
    return {one.text for one in conditions} | together


def view(events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """The authorised views of the subjects, with the columns `VIEW`."""
    return given(events, policies, askers).withColumn("seq", F.col("arrival")).select(*VIEW)


def given(events: DataFrame, policies: Policies, askers: tuple[Asker, ...]) -> DataFrame:
    """What subjects are given, with all that is known of it: the columns `EVENT`, and what was decided."""
    governing = Governing.of(policies, askers)
    came = _came(events)
    keys = decide.Keys.of(came, policies, askers)
    governing = governing.knowing(keys)
    is_few = 0 < len(governing.wheres) <= (MOST_CONDITIONS if governing.are_all_wheres else MOST_BRANCHES)
    typed = typed_columns_of(events) if is_few and governing.trusts_types else ()
    came = came.select(*EVENT, *narrowed(came, typed, governing.wheres))
    return goes(_enters(keys.beside(came), governing), governing)


def comes(events: DataFrame, governing: Governing) -> DataFrame:
    """The stages before `match`, once for an event: what is let in, as monitors leave it."""
    came = _came(events).select(*EVENT)
    return _enters(decide.decide(came, governing.policies, governing.askers), governing)


def _came(events: DataFrame) -> DataFrame:
    """Without what was sent to somebody again: it has come before."""
    return events.filter(F.col("kind") != RETAINED)


def _enters(decided: DataFrame, governing: Governing) -> DataFrame:
    return enters(decided.withColumns({"passes": F.lit(True), "part": F.lit(0)}), governing)


def enters(rows: DataFrame, governing: Governing, sides: "Sides | None" = None) -> DataFrame:
    """The stages before `match` on rows that were decided; by their sides on a stream, if those are given."""
    names = stage_names()
    return _through(names[: names.index("match")], rows, governing, sides or SIDES)


def goes(rows: DataFrame, governing: Governing, sides: "Sides | None" = None) -> DataFrame:
    """The stages from `match` on, for each subject."""
    names, sides = stage_names(), sides or SIDES
    views = _through(names[names.index("match") :], rows, governing, sides)
    for name in names:
        on_views = sides[name].on_views
        if on_views is not None:
            views = on_views(views, rows, governing)
    return views


def _through(names: list[str], rows: DataFrame, governing: Governing, sides: "Sides") -> DataFrame:
    check_stages()
    for name in names:
        on_rows = sides[name].on_rows
        if on_rows is not None:
            rows = on_rows(rows, governing)
    return rows


def check_stages() -> None:
    """Raises `PipelineError` if the engine has a stage that has no side here: nothing may pass it unseen."""
    missing = [name for name in stage_names() if name not in SIDES]
    if missing:
        raise PipelineError(f"stage `{missing[0]}` is not known to the pipeline: nothing can be governed")


def stage_names() -> list[str]:
    """The stages of the engine, in its order."""
    return list(runner.names())


def _admit(rows: DataFrame, governing: Governing) -> DataFrame:
    """What the policy does not let a publisher say, or a node refused by token or trust; what monitors made is of
    something that was let in.
    """
    return rows.withColumn("passes", (F.col("kind") == OUTPUT) | (F.col("admitted") & ~was_refused()))


def _prune(rows: DataFrame, governing: Governing) -> DataFrame:
    """As it was decided then, or by the policy: what was taken out then was not recorded, and does not come back."""
    if not governing.policies.decide_again:
        return rows.withColumn("passes", F.col("passes") & ~_was_stopped_at("prune"))
    return pruned(rows, governing.policies) if governing.has_access else rows


def _was_stopped_at(*stages: str) -> Column:
    return (F.col("effect") == "suppress") & F.col("stage").isin(*stages)


def _conform(rows: DataFrame, governing: Governing) -> DataFrame:
    """As it was decided then, if that was by the same advertisements of the domain; else by those of the policy, and
    what the client's own stopped stays stopped.
    """
    if not governing.policies.decide_again:
        return rows.withColumn("passes", F.col("passes") & ~_was_stopped_at("conform"))
    now = F.coalesce(F.col("conforms"), F.lit(False))
    if governing.asks_advertisers:
        takes_back = F.col("retain") & (F.length("payload") == 0) & (F.size("conditions") > 0)
        asked = F.when(F.col("passes") & (F.size("conditions") > 0) & ~takes_back, F.concat_ws(SEPARATOR, "conditions"))
        rows = rows.withColumn("asked", one_holds(governing.policies, asked))
        now = F.coalesce(F.col("conforms"), F.col("asked"), takes_back, F.lit(False))
    # Contracts are asked after advertisements, and again if they are others.
    by_contract = conform.was_stopped() & ~conform.is_as_recorded(governing.policies)
    then = ~_was_stopped_at("conform") | by_contract
    is_known = F.col("is_trusted") & ~_was_stopped_at("admit", "prune")
    # A client's own advertisements are not recorded: that it was stopped by them is, for they are asked first.
    by_its_own = _was_stopped_at("conform") & (F.col("rule") == OWN)
    kept = F.when(is_known, then).otherwise(now & ~by_its_own)
    rows = rows.withColumn("passes", F.col("passes") & ((F.col("kind") == OUTPUT) | kept)).drop("asked")
    if not governing.has_contracts:
        return rows
    return conform.attached(rows, governing.policies, from_nodes=not governing.at_rest)


def _edit(rows: DataFrame, governing: Governing) -> DataFrame:
    """What monitors made then, if they are the same; else what those of the policy make, in order for each link."""
    is_arrival, is_output = F.col("kind") == ARRIVAL, F.col("kind") == OUTPUT
    recorded = is_output | ((~F.col("open") | _was_stopped_at("judge")) & ~_was_stopped_at("edit"))
    stays = F.when(F.col("edit") == AS_IT_CAME, is_arrival).otherwise((F.col("edit") == RECORDED) & recorded)
    if not governing.may_run:
        return rows.filter(F.col("passes") & stays)
    # A monitor that would have seen other events would be in another state: then it is run as well.
    reached = ~_was_stopped_at("admit", "prune", "conform")
    differs = (F.col("edit") == RUN) | (F.col("passes") != reached)
    watched = rows.filter(is_arrival & (F.col("edit") != AS_IT_CAME))
    links = watched.groupBy("node", "source").agg(F.max(differs).alias("runs"))
    links = links.select(F.col("node").alias("run_node"), F.col("source").alias("run_source"), "runs")
    same = (rows["node"] == links["run_node"]) & (rows["source"] == links["run_source"])
    marked = rows.join(links, same, "left").drop("run_node", "run_source")
    runs = F.coalesce(F.col("runs"), F.lit(False))
    kept = marked.filter(F.col("passes") & ~runs & stays).drop("runs")
    again = without(marked.filter(F.col("passes") & runs & is_arrival).drop("runs"), typed_columns_of(rows))
    ran = edited(again, governing.policies)
    if governing.has_contracts:
        ran = conform.made(ran, governing.policies)
    again = decide.decide_later(ran.select(*EVENT), governing.policies, governing.askers)
    again = again.withColumns({"passes": F.lit(True), "part": F.lit(0)})
    return kept.unionByName(again, allowMissingColumns=True)


def _match(rows: DataFrame, governing: Governing) -> DataFrame:
    """A row for each subject that may read the topic and whose condition holds, or whose monitors look on."""
    if len(governing.askers) == 1:
        rows = rows.withColumn("receiver", F.get("receivers", F.lit(0))).filter(F.col("receiver").isNotNull())
    else:
        rows = rows.withColumn("receiver", F.explode("receivers"))
    rows = rows.drop("receivers").select("*", "receiver.*").drop("receiver")
    if governing.judges:  # policies may come before matching: then they know what there is to match
        rows = rows.withColumn("is_judged", is_judged())
        rows = rows.withColumn("asks", F.when(F.col("is_judged"), F.col("where")))
        rows = rows.withColumn("where", F.when(~F.col("is_judged"), F.col("where")))
    else:  # what came with policies is not for a domain that has none
        rows = rows.filter(~(is_carrying() if governing.has_contracts else has_reserved()))
    rows = rows.drop("judged")
    if governing.has_contracts:  # conditions are asked of what is released
        asks = F.col("asks") if governing.judges else F.lit(None)
        rows = rows.withColumns(release.asked_later(governing.policies, asks))
    else:
        told = (SITUATION, CONSUMER)  # by nodes to each other
        rows = rows.filter(~F.col("topic").startswith(told[0]) & ~F.col("topic").startswith(told[1]))
    if not governing.asks_subjects:
        return rows.withColumn("wanted", F.col("reads")).filter(F.col("wanted") | F.col("looks_on"))
    typed = typed_columns_of(rows)
    conditions = TypedConditions(rows, typed, governing.wheres if typed else (), governing.are_all_wheres)
    if not conditions:
        return without(_asked(rows, governing), typed)
    # Two tables: what Spark can decide by itself is not sent to Python and back.
    easy, hard = conditions.split(conditions.beside(rows))
    wanted = F.col("reads") & (F.col("where").isNull() | conditions.holds())
    easy = easy.withColumn("wanted", wanted).filter(F.col("wanted") | F.col("looks_on"))
    return without(easy, typed).unionByName(_asked(without(hard, typed), governing))


def _asked(rows: DataFrame, governing: Governing) -> DataFrame:
    rows = rows.withColumn("holds", one_holds(governing.policies, F.col("where")))
    rows = rows.withColumn("wanted", F.col("reads") & F.coalesce(F.col("holds"), F.lit(True)))
    return rows.filter(F.col("wanted") | F.col("looks_on")).drop("holds")


def _judge(rows: DataFrame, governing: Governing) -> DataFrame:
    """What policy statements leave of events, and for whom. What they have no say in is not sent to Python and back."""
    if not governing.judges:
        return rows
    if governing.is_cyclic:
        rows = with_ways(rows)
    concerned, others = rows.filter("is_judged"), rows.filter(~F.col("is_judged"))
    judges = Judges(governing.policies, governing.askers, governing.at_rest, governing.has_contracts)
    return others.unionByName(judged(concerned, judges)).drop("is_judged", "asks")


def _emit(rows: DataFrame, governing: Governing) -> DataFrame:
    """Once, where an event came by several ways; then through the monitors on the link to the subject."""
    if governing.is_cyclic:
        said = "said" if governing.judges else "payload"
        first = F.min("arrival").over(Window.partitionBy("subject", "node", "id", "topic", said))
        rows = rows.withColumn("first", first)
        rows = rows.filter(F.col("id").isNull() | (F.col("first") == F.col("arrival"))).drop("first")
        if governing.judges:
            rows = rows.filter(~F.col("blocked")).drop("said", "blocked")
    if not governing.watches:
        return rows.filter(F.col("wanted"))
    seen = emitted(rows.filter(F.col("watched")), governing.policies, governing.askers)
    return rows.filter(~F.col("watched") & F.col("wanted")).unionByName(seen)


def _release(views: DataFrame, learnt: DataFrame, governing: Governing) -> DataFrame:
    """What contracts and privacy policies release. What they have no say in is not sent to Python and back."""
    views = with_times(views)
    if not governing.has_contracts:
        return views
    policies, at_rest = governing.policies, governing.at_rest
    opened = timeline(learnt, policies, at_rest) if governing.has_situations else NOTHING_OPEN
    asked = views.withColumn(release.CONCERNED, release.is_concerned(policies))
    concerned, others = asked.filter(release.CONCERNED), asked.filter(~F.col(release.CONCERNED))
    releases = Releases(policies, governing.askers, at_rest, opened)
    if at_rest:
        release.check_replay(policies)
    if not at_rest and release.may_wait(policies):
        made = means.released(concerned, releases, means.known(learnt))
    else:
        made = release.released(concerned, releases)
    return others.unionByName(made).drop(release.CONCERNED, "release_asks")


def _project(views: DataFrame, learnt: DataFrame, governing: Governing) -> DataFrame:
    """What of Sparkplug messages subjects may see, in the order of each edge node."""
    if not governing.has_access:
        return views
    return projected(views, learnt, governing.policies, governing.askers)


class Side(NamedTuple):
    """What the pipeline does at a stage: once for each key, for each row, and for what is about to go to subjects."""

    on_keys: Callable[..., object] | None
    on_rows: Callable[[DataFrame, Governing], DataFrame] | None
    on_views: Callable[[DataFrame, DataFrame, Governing], DataFrame] | None = None
    """Of what goes to subjects, and of all that goes through the nodes."""


Sides = dict[str, Side]

SIDES: Sides = {
    "admit": Side(decide.admit_key, _admit),
    "prune": Side(None, _prune),
    "conform": Side(decide.conform_key, _conform),
    "edit": Side(decide.edit_key, _edit),
    "match": Side(decide.match_key, _match),
    "route": Side(decide.route_key, None),
    "judge": Side(decide.judge_key, _judge),
    "release": Side(None, None, _release),
    "project": Side(None, None, _project),
    "emit": Side(None, _emit),
}
"""Every stage of the engine, by name."""
