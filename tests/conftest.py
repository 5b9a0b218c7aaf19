"""Settings for every test.

`make test` takes the same examples each time, so that it says something about what was changed; `make fuzz` sets
HYPOTHESIS_PROFILE=long for many more, each time others.
"""

import ast
import os
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer  # type: ignore[import-untyped]
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

# No deadline: a busy CI machine makes any single example slow, and no test here is about time.
_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", _ANY_TIME, max_examples=50, derandomize=True, database=None)
settings.register_profile("long", _ANY_TIME, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "short"))

TESTS = Path(__file__).parent
LONGEST = ("pipeline", "console", "docs", "examples", "broker", "conformance")
"""Folders whose tests take long, the longest first."""
SESSIONS = {"spark", "interpreted"}
"""The fixtures of `tests/pipeline/conftest.py` that are the session of Spark."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that neither process waits long for the other at the end."""
    items.sort(key=lambda item: _place(item.path.relative_to(TESTS.parent)))


def _place(file: Path) -> tuple[int, bool]:
    name = file.parts[1]
    return LONGEST.index(name) if name in LONGEST else len(LONGEST), not _needs_spark(str(file))


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]  # the library has no types
    """Tests of a file run in one process, so that what they share is made once; and all files that need Spark in one,
    so that there is one session.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return "spark" if _needs_spark(file) else file


@cache
def _needs_spark(file: str) -> bool:
    """Return whether a test or a fixture of a file asks for the session, unless it is for `make pipeline` alone."""
    if not file.startswith("tests/pipeline/"):
        return False
    tree = ast.parse((TESTS.parent / file).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    asking = [function for function in functions if SESSIONS & _named(function)]
    return any("pytest.mark.recorded" not in map(ast.unparse, function.decorator_list) for function in asking)


def _named(function: ast.FunctionDef) -> set[object]:
    """Return the names of a function's arguments, and the texts in its decorators."""
    decorated = (part for decorator in function.decorator_list for part in ast.walk(decorator))
    texts: set[object] = {part.value for part in decorated if isinstance(part, ast.Constant)}
    return texts | {argument.arg for argument in function.args.args}


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    return _ByFile(config, log)
