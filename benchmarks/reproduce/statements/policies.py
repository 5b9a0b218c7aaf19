"""The paper's policies that the experiments use."""

from __future__ import annotations

NOTHING = "PolicyStatement { On(Forward, Publication) { If {} Then {} } }"
"""All of the framework's work, and no action."""
TRACING = "PolicyStatement { On(Forward, Publication) { If {} Then {AugmentBrokerLoadIndex(Attributes)} } }"
"""The policy of Fig. 6 with the attribute of §6: a broker performance attribute."""
FLOODING = """PolicyStatement {
  On(Forward, Advertisement) { @broker: Ingress, Routing If {} Then {BlockMessage()} }
  On(Forward, Subscription) { @broker: Ingress, Routing If {} Then {FloodMessage()} }
}"""
"""Fig. 8."""
FIREWALL = "PolicyStatement { On(Forward, Publication) { @broker: Routing If {StrictMatch()} Then {BlockMessage()} } }"
"""Fig. 22."""

EVERYTHING = {"to": "*", "set": ["publication", "subscription", "advertisement"], "elements": "*"}
"""Anybody may set any policy."""


def removing(names: list[str]) -> str:
    """A notification policy as of Fig. 4 that takes these attributes out."""
    action = f"RemoveAttributes({', '.join(names)})" if names else ""
    return f"PolicyStatement {{ On(Forward, Publication) {{ @broker: Egress If {{}} Then {{{action}}} }} }}"


def authenticating(groups: list[str]) -> str:
    """Return the policy of Fig. 14: the sending node must be in all these trust groups."""
    calls = " && ".join(f"AuthenticateSender({group})" for group in groups)
    clauses = f"If {{{calls}}} Then {{}} Elseif {{}} Then {{BlockMessage()}}" if groups else "If {} Then {}"
    return f"PolicyStatement {{ On(Forward, Publication) {{ @broker: Egress {clauses} }} }}"
