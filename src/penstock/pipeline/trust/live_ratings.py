"""What live nodes hold of their neighbours, asked for by HTTP, beside what was worked out again."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from penstock.client.admin import AdminClient, AdminError
from penstock.model.errors import PolicyError
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jobs.trust import Fleet, NeighbourRating
from penstock.policy.trust.rating import Evidence, Weights


class RatingDifference(NamedTuple):
    """What a node holds of a neighbour, and what its journal makes of it, as of the same time; None: nothing."""

    node: str
    neighbour: str
    held: Evidence | None
    recorded: Evidence | None
    held_rating: float | None
    recorded_rating: float | None

    def exceeds(self, tolerance: float) -> bool:
        """Return whether the two differ by more than a tolerance, in r, in s or in the rating."""
        if self.held is None or self.recorded is None or self.held_rating is None or self.recorded_rating is None:
            return True
        apart = (
            self.held.good - self.recorded.good,
            self.held.bad - self.recorded.bad,
            self.held_rating - self.recorded_rating,
        )
        return any(abs(distance) > tolerance for distance in apart)


def ask(url: str) -> tuple[str, dict[str, Evidence]]:
    """Return the name of a node, and what it holds of each neighbour; raises `PipelineError`."""
    if not url.startswith(("http://", "https://")):
        raise PipelineError(f"`{url}` is not the address of a node's admin HTTP: expected http://HOST:PORT")
    try:
        answer = AdminClient(url).get("/api/trust")
        if answer["trust"] is None:
            raise PipelineError(f"node `{answer['node']}` has no trust: its domain has no `trust` section")
        return str(answer["node"]), dict(_held(answer))
    except AdminError as error:
        raise PipelineError(f"`{url}` cannot be asked for the ratings of its node: {error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, PolicyError) as error:
        raise PipelineError(f"`{url}` did not answer with the ratings of a node: {error}") from None


def _held(answer: Mapping[str, Any]) -> Iterator[tuple[str, Evidence]]:
    for name, evidence in answer["trust"]["neighbours"].items():
        yield str(name), Evidence(float(evidence["good"]), float(evidence["bad"]), float(evidence["at"]))


def compare(fleet: Fleet, node: str, held: Mapping[str, Evidence]) -> list[RatingDifference]:
    """Return the evidence that a node holds beside what was worked out, for every neighbour that either knows."""
    known = {rating.neighbour: rating for rating in fleet.ratings if rating.node == node}
    return [_beside(node, name, held.get(name), known.get(name), fleet) for name in sorted(held.keys() | known.keys())]


def _beside(
    node: str, name: str, held: Evidence | None, rated: NeighbourRating | None, fleet: Fleet
) -> RatingDifference:
    recorded = None if rated is None else rated.evidence
    # What nobody has seen anything of is not dated, and does not age.
    ends = max((evidence.at for evidence in (held, recorded) if evidence is not None), default=0.0)
    held, recorded = (_aged(evidence, fleet.weights, ends) for evidence in (held, recorded))
    now = max(ends, fleet.at)
    ratings = [None if evidence is None else _aged(evidence, fleet.weights, now) for evidence in (held, recorded)]
    values = [None if evidence is None else evidence.opinion.rating(fleet.weights.base_rate) for evidence in ratings]
    return RatingDifference(node, name, held, recorded, *values)


def _aged(evidence: Evidence | None, weights: Weights, at: float) -> Evidence | None:
    if evidence is None or evidence.at == 0.0:
        return evidence
    return evidence.aged(weights, at)
