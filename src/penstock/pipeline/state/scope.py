"""By which policies, and for which subjects, events are governed."""

from dataclasses import dataclass, replace

from penstock.language.condition import Condition, all_of
from penstock.pipeline.conditions.typed import MAX_BRANCHES
from penstock.pipeline.spark.policies import Asker, Policies


@dataclass(frozen=True)
class Scope:
    """By which policies events are judged and for which subjects; and what these policies have."""

    policies: Policies
    askers: tuple[Asker, ...]
    has_advertised_conditions: bool
    """Whether conform may have conditions to ask."""
    has_conditions: bool
    """Whether match may have some."""
    wheres: frozenset[str]
    """Those that match may have to ask of typed content."""
    are_all_wheres: bool
    """Whether there are no others; else a topic to which several apply may have some."""
    trusts_types: bool
    """Whether typed content is as the policies read it."""
    may_run_monitors: bool
    """Whether monitors on links into nodes may have to be run."""
    has_monitors_out: bool
    """Whether there are monitors on links to the subjects."""
    is_cyclic: bool
    has_access: bool
    """Whether there are access policies."""
    has_statements: bool
    """Whether there are policy statements, or may be."""
    has_contracts: bool
    """Whether there are contracts, or were."""
    has_situations: bool
    """Whether some of their rules may depend on situations."""
    at_rest: bool = False
    """What was not recorded is as at a node that has nothing to do, whose neighbours have proven what the domain says
    of them, and announced all policies that it gives. It is so where the question is what could be; a view assumes
    nothing."""

    @classmethod
    def of(cls, policies: Policies, askers: tuple[Asker, ...]) -> "Scope":
        """Look through the policies; raises what compiling a domain raises, before any job is started."""
        advertised = runs = watches = cyclic = access = statements = situations = False
        wheres, max_wheres = set[str](), 0
        for policy in policies.judging:
            whole = policy.ensemble
            cyclic |= whole.is_cyclic
            access |= whole.access is not None
            statements |= bool(whole.statements.given or whole.statements.grants)
            situations |= whole.contracts is not None and bool(whole.contracts.situations)
            runs |= policies.decide_again and any(
                whole.monitors(link) for link in whole.links.values() if link.target in whole.nodes
            )
            for name in whole.nodes:
                runs |= policies.decide_again and bool(policy.monitors("", name))
                advertisements = [advertisement for entry in whole.listed(name) for advertisement in entry.advertises]
                advertised |= policies.decide_again and any(advertisement.condition for advertisement in advertisements)
                node = policy.new_node(name)
                sessions = [session for asker in askers if (session := policy.session(node, asker)) is not None]
                for session in sessions:
                    wheres |= _texts([condition for _, condition in session.place.where])
                    max_wheres = max(max_wheres, len(session.place.where))
                watches |= any(session.place.watch_out is not None for session in sessions)
        return cls(
            policies,
            askers,
            has_advertised_conditions=advertised,
            has_conditions=bool(wheres),
            wheres=frozenset(wheres),
            are_all_wheres=max_wheres <= 1,
            trusts_types=policies.stands is None or _reads_alike(policies),
            may_run_monitors=runs,
            has_monitors_out=watches,
            is_cyclic=cyclic,
            has_access=access,
            has_statements=statements,
            has_contracts=policies.may_have_contracts,
            has_situations=situations,
        )

    def asking(self, wheres: frozenset[str] | None) -> "Scope":
        """Return the scope with only the conditions that concern what was recorded; None: they are not known."""
        if wheres is None:
            return self
        # Which topics monitors publish on is not known.
        asks = self.has_conditions and (self.may_run_monitors or bool(wheres))
        return replace(self, has_conditions=asks, wheres=wheres, are_all_wheres=True)


def _reads_alike(policies: Policies) -> bool:
    """Return whether all domains say the same about content."""
    rules = [standing.compiled().domain.content for standing in policies.by_digest.values()]
    return all(rule == rules[0] for rule in rules)


def _texts(conditions: list[Condition]) -> set[str]:
    """Return the text of each condition, and if they are few that of all together."""
    together = {all_of(conditions).text} if 1 < len(conditions) <= MAX_BRANCHES else set()
    return {condition.text for condition in conditions} | together
