"""Policy tests of contracts: who gets what, which rule released it, and what a client brings."""

from pathlib import Path

import pytest

from penstock.cli.main import main

DOMAIN = """
nodes: {a: {listen: 127.0.0.1:0, store: memory}}
clients: {bob: {node: a}, doctor: {node: a}}
contracts:
  bring: doctor
  producers:
    bob:
      producer: bob
      filter: bob/#
      rules:
        coarse: {purpose: health, degrade: [{step: {attribute: lat, size: 10}}]}
tests:
  the doctor says what for:
    subscribe: {doctor: [{filter: bob/#, contract: {purpose: health}}]}
    steps:
      - publish: {bob: {topic: bob/location, payload: '{"lat":48.9}'}}
        expect:
          doctor: [{topic: bob/location, payload: '{"lat":LAT}'}]
        verdicts:
          - {at: a, to: doctor, stage: release, effect: replace, rule: bob.coarse}
  the doctor does not:
    subscribe: {doctor: ["bob/#"]}
    steps:
      - publish: {bob: {topic: bob/location, payload: '{"lat":48.9}'}}
        expect: {doctor: []}
"""


@pytest.mark.parametrize(("lat", "code"), [("45.0", 0), ("48.9", 4)])
def test_contracts_are_tried_out(lat: str, code: int, tmp_path: Path) -> None:
    file = tmp_path / "domain.yaml"
    file.write_text(DOMAIN.replace("LAT", lat), "utf-8")
    assert main(["test", str(file)]) == code
