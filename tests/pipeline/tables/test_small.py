"""Whether a job is set for few rows or for many goes by what it is to read."""

from argparse import Namespace
from pathlib import Path

import pytest

from penstock.cli.pipeline import shared
from penstock.pipeline.spark.session import SMALL
from tests.support.scenes.smart_home import recorded_home


def test_by_the_size_of_what_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    list(recorded_home(tmp_path))
    options = Namespace(journal=tmp_path, node=None, since=None, until=None)
    assert shared.settings_for(options) is SMALL
    largest = max(path.stat().st_size for path in tmp_path.glob("node=*/date=*/*.arrow"))
    monkeypatch.setattr(shared, "_SMALL_BYTES", largest)
    assert not shared.settings_for(options), "three nodes together are more than one"
    options.node = ["locks"]
    assert shared.settings_for(options) is SMALL
