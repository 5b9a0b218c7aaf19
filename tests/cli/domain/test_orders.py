"""`penstock test --orders`: the orderings under which the tests of the smart home hold."""

import json
import re
from pathlib import Path

import pytest

from penstock.cli.main import main

HOME = "examples/smart-home/domain.yaml"


def orders(ordering: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = main(["test", HOME, "--orders", ordering, *arguments])
    return code, capsys.readouterr().out.splitlines()


def test_the_normal_flow_needs_links_that_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    """Six events: an unlock that overtakes the grant on the way to the locks is suppressed there."""
    assert orders("in-order", "-k", "normal flow", capsys=capsys) == (
        0,
        ["ok    the normal flow: holds fifo, in-order (1 interleaving played)", "1 test, all hold"],
    )
    code, lines = orders("unordered", "-k", "normal flow", capsys=capsys)
    assert code == 4
    assert lines[0] == "FAIL  the normal flow: holds fifo, in-order, breaks unordered (3 interleavings played)"
    assert re.fullmatch(rf"      {HOME}:\d+: step 6, publish: lock", lines[1])
    assert lines[2:5] == [
        "        expected  DL_unlock",
        "        got       nothing",
        "        order      1 motion publishes MD_no_motion",
    ]
    unlock = next(
        at for at, line in enumerate(lines) if "locks gets DL_unlock from gateway, passes it to nobody" in line
    )
    assert "locks gets AC_grant from gateway" in lines[unlock + 1], "the interleaving that breaks it is shown"


def test_what_breaks_is_shown_in_an_order_that_the_ordering_allows(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = orders("fifo", "-k", "power failure", capsys=capsys)
    assert code == 4
    assert lines[0].startswith(
        "FAIL  policy 4: the history survives a power failure at the door: breaks fifo, in-order"
    )
    moves = [
        line.split(maxsplit=1)[1] for line in lines if re.match(r" +(order +)?\d+ ", line.removeprefix("        order"))
    ]
    published = [move for move in moves if " publishes " in move]
    assert published[-2:] == ["bell publishes DL_unlock", "phone publishes AC_grant"], "the unlock is there first"


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = orders("unordered", "-k", "normal flow", "--json", capsys=capsys)
    (test,) = json.loads("\n".join(lines))["tests"]
    assert (code, test["holds"], test["played"]) == (4, False, 3)
    assert {ordering: told["holds"] for ordering, told in test["orders"].items()} == {
        "fifo": True,
        "in-order": True,
        "unordered": False,
    }
    assert test["orders"]["unordered"]["failures"][0]["about"] == "lock"


def test_an_unknown_ordering_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["test", HOME, "--orders", "sorted"])
    assert ended.value.code == 2
    assert "'fifo', 'in-order', 'unordered'" in capsys.readouterr().err


def test_six_events_at_once_to_everybody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody waits for anybody, everybody hears everything: 105 kinds of interleavings in order, of millions."""
    file = tmp_path / "six.yaml"
    file.write_text(
        f"""
include: {Path(HOME).resolve()}
tests:
  six at once:
    - publish: {{motion: MD_no_motion, bell: [SC_request, AC_request, DL_unlock], camera: SC_send, phone: AC_grant}}
      expect: {{phone: {{any_order: [SC_request, AC_request, DL_unlock, SC_send]}}}}
""",
        "utf-8",
    )
    assert main(["test", str(file), "--orders", "in-order", "-k", "six at once"]) == 0
    assert "six at once: holds fifo, in-order (105 interleavings played)" in capsys.readouterr().out
