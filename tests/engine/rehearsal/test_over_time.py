"""Random plays over time: whatever changes while messages are on their way or wait, at the moment a message leaves, the
present domain allows it.

Domains of one to four nodes, in a line or a cycle, some with a foreign broker or with tokens; JSON and Sparkplug with
births that give aliases other meanings, at all qualities of service, retained and not, wills, for readers that come and
go, take their time, share subscriptions; and between them the domain changes, nodes are killed, links are cut. Every
third act aims (`tests/support/generators/aims.py`): a message that is allowed waits, and just what allows it changes.
`test_skipped_stages.py` shows that these plays find each stage that is skipped for what waits.
`tests/support/models/present_domain.py` is the oracle; `tests/pipeline/stages/test_over_time.py` governs such plays.
"""

import pytest

from tests.support.generators.aims import AimedPlay
from tests.support.generators.examples import some

CHUNK = 10
RUNS = some(170)
"""With those that are governed, 200."""
FAILED = {
    572: "a reader that was owed a value was given it back when its edge node might not write it any more",
    163: "what a contract had held back or released lost its publisher, whose advertisements were not asked again",
    2975: "a new contract delays what is in flight: it was sent again at once",
}
"""Plays that failed once. What they play changes with the engine; each has a named test too."""


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, RUNS, CHUNK))
def test_at_the_moment_a_message_leaves_the_present_domain_allows_it(first: int) -> None:
    for seed in range(first, first + CHUNK):
        AimedPlay(seed).play()


@pytest.mark.parametrize("seed", FAILED)
def test_a_play_that_failed_once_passes(seed: int) -> None:
    AimedPlay(seed).play()
