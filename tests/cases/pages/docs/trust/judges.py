from penstock.policy.trust.evaluation import Interaction


def good(seen: Interaction) -> bool:
    return len(seen.payload) < 1000
