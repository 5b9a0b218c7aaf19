"""`python -m benchmarks xacml`: what a decision costs against the number of policies, and of attributes.

The policy is that of the contracts paper (Listing 2), each with another resource; the one that matches is the last, as
in the paper's Fig. 4. Figures are processor time, the least of several rounds.
"""

import argparse
import time
from collections.abc import Callable, Sequence

from penstock.policy.xacml import Pdp, RequestAttribute, RequestCategory, XacmlRequest
from penstock.policy.xacml.evaluation.reference import ReferenceEvaluator
from penstock.policy.xacml.names import ACTION, FUNCTION_1, RESOURCE, STRING, SUBJECT
from penstock.policy.xacml.request import Context
from penstock.policy.xacml.tree import (
    AnyOf,
    Designator,
    LiteralValue,
    TargetMatch,
    XacmlEffect,
    XacmlPolicy,
    XacmlPolicySet,
    XacmlRule,
)

_RULES = "urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:permit-overrides"
_POLICIES = "urn:oasis:names:tc:xacml:3.0:policy-combining-algorithm:permit-overrides"
_ROUNDS = 5


def _asks(category: str, name: str, value: str) -> AnyOf:
    designator = Designator(category, name, STRING, must_be_present=True)
    return ((TargetMatch(FUNCTION_1 + "string-equal", LiteralValue(STRING, value), designator),),)


def policy(resource: str, purposes: int = 1) -> XacmlPolicy:
    """The paper's policy for a resource; its target is the policy's, so that the set can find it."""
    target = (
        _asks(SUBJECT, "group", "INCOME"),
        *(_asks(SUBJECT, f"purpose-{at}", "health") for at in range(purposes)),
        _asks(RESOURCE, "resource-id", resource),
        _asks(ACTION, "action-id", "access"),
    )
    return XacmlPolicy(f"policy of {resource}", "1.0", _RULES, target, (XacmlRule("permit", XacmlEffect.PERMIT),))


def policy_set(policies: int, purposes: int = 1) -> XacmlPolicySet:
    """So many of them, of the resources `resource-0` on."""
    return XacmlPolicySet(
        "listing-2", "1.0", _POLICIES, (), tuple(policy(f"resource-{at}", purposes) for at in range(policies))
    )


def request(resource: str, purposes: int = 1) -> XacmlRequest:
    def attribute(name: str, value: str) -> RequestAttribute:
        return RequestAttribute(name, (LiteralValue(STRING, value),))

    subject = (attribute("group", "INCOME"), *(attribute(f"purpose-{at}", "health") for at in range(purposes)))
    return XacmlRequest(
        (
            RequestCategory(SUBJECT, subject),
            RequestCategory(RESOURCE, (attribute("resource-id", resource),)),
            RequestCategory(ACTION, (attribute("action-id", "access"),)),
        )
    )


def _micros(decide: Callable[[], object], times: int) -> float:
    """The least processor time of several rounds for one call."""
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.process_time()
        for _ in range(times):
            decide()
        best = min(best, (time.process_time() - start) / times)
    return best * 1e6


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks xacml", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer policies and rounds")
    options = parser.parse_args(arguments)
    counts = (10, 1_000) if options.quick else (1, 10, 100, 1_000, 10_000, 100_000)
    times = 200 if options.quick else 2_000
    print("XACML: one decision, microseconds")
    print(f"{'policies':>10} {'matching':>10} {'none':>10} {'reference':>12} {'load, s':>10}")
    for count in counts:
        policies = tuple(policy(f"r{at}") for at in range(count))
        start = time.process_time()
        pdp = Pdp([XacmlPolicySet("all", "1.0", _POLICIES, children=policies)])
        load = time.process_time() - start
        matching, other = request(f"r{count - 1}"), request("other")
        assert pdp.decide(matching, 0)[0].decision == "Permit"
        assert pdp.decide(other, 0)[0].decision == "NotApplicable"
        costs = [_decision(pdp, asks, times) for asks in (matching, other)]
        slow = _reference(pdp, matching) if count <= 1_000 else None
        shown = f"{slow:12.0f}" if slow is not None else f"{'-':>12}"
        print(f"{count:>10} {costs[0]:>10.1f} {costs[1]:>10.1f} {shown} {load:>10.2f}")
    print(f"\n{'attributes':>10} {'matching':>10}")
    for attributes in (4, 8) if options.quick else (4, 8, 16, 32):
        pdp = Pdp([policy("r", attributes - 3)])
        asks = request("r", attributes - 3)
        assert pdp.decide(asks, 0)[0].decision == "Permit"
        print(f"{attributes:>10} {_decision(pdp, asks, times):>10.1f}")
    return 0


def _decision(pdp: Pdp, asks: XacmlRequest, times: int) -> float:
    return _micros(lambda: pdp.decide(asks, 0), times)


def _reference(pdp: Pdp, asks: XacmlRequest) -> float:
    """The same by the evaluator that looks at every policy."""
    return _micros(lambda: ReferenceEvaluator(pdp.repository, Context(asks.categories, 0)).policy(pdp.root), 2)
