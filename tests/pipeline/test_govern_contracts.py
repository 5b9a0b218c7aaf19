"""Contracts on Spark: what govern gives a consumer is what nodes delivered to it, byte for byte."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline import tables
from penstock.pipeline.govern import view
from penstock.pipeline.policies import Asker, as_it_stood, judged_by
from tests.support.contracted import SUBJECTS, paris_domain, played
from tests.support.recorded import differences, viewed

ASKERS = tuple(map(Asker, SUBJECTS))


@pytest.mark.parametrize(("scope", "want"), [("global", "global"), ("local", "global"), ("global", "local")])
def test_as_it_stood(spark: SparkSession, tmp_path: Path, scope: str, want: str) -> None:
    journal, delivered = played(paris_domain(scope, want), tmp_path)
    events = tables.events(spark, journal).cache()
    assert len(delivered["free-air", "b2"]) > 4, delivered
    assert not differences(viewed(view(events, as_it_stood(journal), ASKERS)), delivered)
