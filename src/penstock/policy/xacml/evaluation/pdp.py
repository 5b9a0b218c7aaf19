"""The policy decision point: policies in, requests in, responses out."""

from collections.abc import Sequence

from penstock.policy.xacml.evaluation.algorithms import algorithm_named
from penstock.policy.xacml.evaluation.decision import XacmlOutcome
from penstock.policy.xacml.evaluation.evaluate import PolicyCompiler
from penstock.policy.xacml.evaluation.repository import Repository
from penstock.policy.xacml.names import PROCESSING_ERROR
from penstock.policy.xacml.request import Context, RequestAttribute, RequestCategory, Single, XacmlRequest, singles
from penstock.policy.xacml.response import XacmlResponse, XacmlResult
from penstock.policy.xacml.status import FINE, Status, XacmlError
from penstock.policy.xacml.tree import Root, XacmlPolicySet

INDETERMINATE = "Indeterminate"


class Pdp:
    """Decides by one policy, or by several that an algorithm combines."""

    def __init__(
        self, policies: Sequence[Root], referenced: Sequence[Root] = (), algorithm: str = "deny-overrides"
    ) -> None:
        """Policies decide; those that are only referenced do not by themselves. Raises `XacmlError`."""
        if len(policies) == 1:
            (self.root,) = policies
        else:
            identifier = algorithm_named(algorithm, "policy")
            self.root = XacmlPolicySet("urn:penstock:xacml:all", "1.0", identifier, children=tuple(policies))
        self.repository = Repository((self.root, *referenced))
        self._evaluate = PolicyCompiler(self.repository).unit(self.root).evaluate

    def evaluate(self, context: Context) -> XacmlOutcome:
        """What the policies come to; with the kind of Indeterminate."""
        return self._evaluate(context)

    def decide(self, request: XacmlRequest, now: int) -> XacmlResponse:
        """Return the answer to a request; `now` is the time in nanoseconds since 1970, in UTC. Never raises."""
        try:
            several = singles(request)
        except XacmlError as error:
            return (refused(error),)
        results = tuple(self._decide_single(single, request, now) for single in several)
        return (combined(results),) if request.is_combined else results

    def _decide_single(self, single: Single, request: XacmlRequest, now: int) -> XacmlResult:
        try:
            outcome = self._evaluate(Context(single, now))
        except RecursionError:
            return XacmlResult(INDETERMINATE, Status(PROCESSING_ERROR, "the policies are too deep"))
        return result_of(outcome, single, request)


def refused(error: XacmlError) -> XacmlResult:
    """Return the answer where the policies or the request are none."""
    return XacmlResult(INDETERMINATE, error.status)


def result_of(outcome: XacmlOutcome, single: Single, request: XacmlRequest) -> XacmlResult:
    """Return an outcome as a response says it."""
    return XacmlResult(
        outcome.decision.shown,
        outcome.status,
        outcome.obligations,
        outcome.advice,
        tuple(_included(single)),
        tuple(dict.fromkeys(outcome.policies)) if request.returns_policies else (),
    )


def _included(single: Single) -> list[RequestCategory]:
    """What the request wants to be repeated (5.46)."""
    found = []
    for category in single:
        attributes: tuple[RequestAttribute, ...] = tuple(one for one in category.attributes if one.include)
        if attributes:
            found.append(RequestCategory(category.name, attributes, id=category.id))
    return found


def combined(results: XacmlResponse) -> XacmlResult:
    """One answer for all: theirs if it is the same, without obligations (multiple decision profile, 3)."""
    decisions = {result.decision for result in results}
    has_duties = any(result.obligations or result.advice for result in results)
    if len(decisions) == 1 and not has_duties:
        return XacmlResult(decisions.pop(), next((one.status for one in results if one.status != FINE), FINE))
    why = "there are obligations or advice" if has_duties else "the decisions differ"
    return XacmlResult(INDETERMINATE, Status(PROCESSING_ERROR, f"they cannot be combined: {why}"))
