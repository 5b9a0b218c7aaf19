from penstock.policy.evaluation import Interaction


def good(seen: Interaction) -> bool:
    return len(seen.payload) < 1000
