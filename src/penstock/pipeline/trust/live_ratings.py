"""What live nodes hold of their neighbours, asked for by HTTP, beside what was worked out again."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock.client.admin import AdminClient, AdminError
from penstock.model.errors import PolicyError
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.trust import Fleet, Rated
from penstock.policy.trust.rating import Evidence, Weights


class Difference(NamedTuple):
    """What a node holds of a neighbour, and what its journal makes of it, as of the same time; None: nothing."""

    node: str
    neighbour: str
    held: Evidence | None
    recorded: Evidence | None
    held_rating: float | None
    recorded_rating: float | None

    def exceeds(self, tolerance: float) -> bool:
        """Whether they differ by more than that, in r, in s or in the rating."""
        if self.held is None or self.recorded is None or self.held_rating is None or self.recorded_rating is None:
            return True
        apart = (
            self.held.good - self.recorded.good,
            self.held.bad - self.recorded.bad,
            self.held_rating - self.recorded_rating,
        )
        return any(abs(one) > tolerance for one in apart)


def ask(url: str) -> tuple[str, dict[str, Evidence]]:
    """The name of a node, and what it holds of each neighbour; raises `PipelineError`."""
    if not url.startswith(("http://", "https://")):
        raise PipelineError(f"`{url}` is not the address of a node's admin HTTP: expected http://HOST:PORT")
    try:
        told = AdminClient(url).get("/api/trust")
        if told["trust"] is None:
            raise PipelineError(f"node `{told['node']}` has no trust: its domain says nothing of it")
        return str(told["node"]), dict(_held(told))
    except AdminError as error:
        raise PipelineError(f"`{url}` does not say what its node holds: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, PolicyError) as error:
        raise PipelineError(f"`{url}` says something else than what its node holds: {error}") from None


def _held(told: Mapping[str, Any]) -> Iterator[tuple[str, Evidence]]:
    for name, one in told["trust"]["neighbours"].items():
        yield str(name), Evidence(float(one["good"]), float(one["bad"]), float(one["at"]))


def compare(fleet: Fleet, node: str, held: Mapping[str, Evidence]) -> list[Difference]:
    """What a node holds beside what was worked out, for every neighbour that one of them knows."""
    known = {one.neighbour: one for one in fleet.ratings if one.node == node}
    return [_beside(node, name, held.get(name), known.get(name), fleet) for name in sorted(held.keys() | known.keys())]


def _beside(node: str, name: str, held: Evidence | None, rated: Rated | None, fleet: Fleet) -> Difference:
    recorded = None if rated is None else rated.evidence
    # What nobody has seen anything of is not dated, and does not age.
    ends = max((one.at for one in (held, recorded) if one is not None), default=0.0)
    held, recorded = (_aged(one, fleet.weights, ends) for one in (held, recorded))
    now = max(ends, fleet.at)
    ratings = [None if one is None else _aged(one, fleet.weights, now) for one in (held, recorded)]
    told = [None if one is None else one.opinion.rating(fleet.weights.base_rate) for one in ratings]
    return Difference(node, name, held, recorded, *told)


def _aged(evidence: Evidence | None, weights: Weights, at: float) -> Evidence | None:
    if evidence is None or evidence.at == 0.0:
        return evidence
    return evidence.aged(weights, at)
