"""The policy decision point: policies in, requests in, responses out."""

from collections.abc import Sequence

from penstock.policy.xacml.evaluation.algorithms import algorithm_named
from penstock.policy.xacml.evaluation.decision import XacmlOutcome
from penstock.policy.xacml.evaluation.evaluate import PolicyCompiler
from penstock.policy.xacml.evaluation.repository import Repository
from penstock.policy.xacml.names import PROCESSING_ERROR
from penstock.policy.xacml.request import Context, RequestCategory, Single, XacmlRequest, singles
from penstock.policy.xacml.response import XacmlResponse, XacmlResult
from penstock.policy.xacml.status import FINE, Status, XacmlError
from penstock.policy.xacml.tree import Root, XacmlPolicySet

INDETERMINATE = "Indeterminate"


class Pdp:
    """A policy decision point of one policy, or of several that an algorithm combines."""

    def __init__(
        self, policies: Sequence[Root], referenced: Sequence[Root] = (), algorithm: str = "deny-overrides"
    ) -> None:
        """Compile the policies; those that are only `referenced` do not decide by themselves. Raises `XacmlError`."""
        if len(policies) == 1:
            (self.root,) = policies
        else:
            identifier = algorithm_named(algorithm, "policy")
            self.root = XacmlPolicySet("urn:penstock:xacml:all", "1.0", identifier, children=tuple(policies))
        self.repository = Repository((self.root, *referenced))
        self.evaluate = PolicyCompiler(self.repository).unit(self.root).evaluate
        """The outcome of the policies in a context, with the kind of Indeterminate."""

    def decide(self, request: XacmlRequest, now: int) -> XacmlResponse:
        """Decide a request; `now` is the time in nanoseconds since 1970, in UTC. Never raises."""
        try:
            single_requests = singles(request)
        except XacmlError as error:
            return (refused(error),)
        results = tuple(self._decide_single(single, request, now) for single in single_requests)
        return (combined(results),) if request.is_combined else results

    def _decide_single(self, single: Single, request: XacmlRequest, now: int) -> XacmlResult:
        try:
            outcome = self.evaluate(Context(single, now))
        except RecursionError:
            return XacmlResult(INDETERMINATE, Status(PROCESSING_ERROR, "the policies are too deep"))
        return result_of(outcome, single, request)


def refused(error: XacmlError) -> XacmlResult:
    """Return the answer to invalid policies or an invalid request."""
    return XacmlResult(INDETERMINATE, error.status)


def result_of(outcome: XacmlOutcome, single: Single, request: XacmlRequest) -> XacmlResult:
    """Return an outcome as a result of a response."""
    return XacmlResult(
        outcome.decision.shown,
        outcome.status,
        outcome.obligations,
        outcome.advice,
        _included(single),
        tuple(dict.fromkeys(outcome.policies)) if request.returns_policies else (),
    )


def _included(single: Single) -> tuple[RequestCategory, ...]:
    """Return the attributes that the request wants to be repeated (5.46)."""
    included = ((category, tuple(item for item in category.attributes if item.include)) for category in single)
    return tuple(RequestCategory(category.name, items, id=category.id) for category, items in included if items)


def combined(results: XacmlResponse) -> XacmlResult:
    """Return one answer for all, if they are the same and without obligations (multiple decision profile, 3)."""
    decisions = {result.decision for result in results}
    has_duties = any(result.obligations or result.advice for result in results)
    if len(decisions) == 1 and not has_duties:
        return XacmlResult(decisions.pop(), next((result.status for result in results if result.status != FINE), FINE))
    why = "there are obligations or advice" if has_duties else "the decisions differ"
    return XacmlResult(INDETERMINATE, Status(PROCESSING_ERROR, f"they cannot be combined: {why}"))
