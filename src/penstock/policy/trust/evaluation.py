"""E, the evaluation function of the trust paper (§II-C), which a deployment supplies: is a neighbour's message good?"""

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
    """The content of the payload: `content.attributes`."""


Evaluate = Callable[[Interaction], bool | None]
"""True: good. False: bad. None: no evidence."""


def load_evaluation(where: str, folder: Path | None) -> Evaluate:
    """Return the function that `module:function` names; raises `PolicyError`.

    A module is first looked for as a file in the folder (that of the domain file), then as Python imports it.
    """
    function = import_named(where, folder, "`trust.evidence.evaluate`", "function")
    if not callable(function):
        raise PolicyError(f"`trust.evidence.evaluate`: `{where}` is not a function")
    evaluate: Evaluate = function
    return evaluate


def evaluated(evaluate: Evaluate, interaction: Interaction) -> bool | str | None:
    """Return the result of the function, or the text of its error: then there is no evidence."""
    try:
        result = evaluate(interaction)
    except Exception as error:  # the function is the user's
        return f"{type(error).__name__}: {error}"
    return result if result is None or isinstance(result, bool) else f"it returned `{result!r:.80}`"
