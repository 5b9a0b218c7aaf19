"""E, the evaluation function of the trust paper (§II-C), which a deployment brings: is what a neighbour sent good?"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from penstock.model.content.content import Content
from penstock.model.errors import PolicyError
from penstock.policy.monitors.monitor import import_named


class Interaction(NamedTuple):
    """One event of the history with a neighbour: ⟨b, m, f⟩."""

    neighbour: str
    topic: str
    payload: bytes
    content: Content
    """What the payload says: `content.attributes()`."""


Evaluate = Callable[[Interaction], bool | None]
"""True: good. False: bad. None: no evidence."""


def load_evaluation(where: str, folder: Path | None) -> Evaluate:
    """The function that `module:function` names; raises `PolicyError`.

    A module is first looked for as a file in the folder (that of the domain file), then as Python imports it.
    """
    found = import_named(where, folder, "`trust.evidence.evaluate`", "function")
    if not callable(found):
        raise PolicyError(f"`trust.evidence.evaluate`: `{where}` is not a function")
    made: Evaluate = found
    return made


def evaluated(evaluate: Evaluate, interaction: Interaction) -> bool | str | None:
    """What the function says, or what went wrong: then there is no evidence."""
    try:
        found = evaluate(interaction)
    except Exception as error:  # the function is the user's
        return f"{type(error).__name__}: {error}"
    return found if found is None or isinstance(found, bool) else f"it returned `{found!r:.80}`"
