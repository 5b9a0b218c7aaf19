"""`penstock trust apply`: set a node's evidence about its neighbours to the result of `penstock pipeline trust`."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from paho.mqtt.reasoncodes import ReasonCode

from penstock.cli.client import broker_options as broker
from penstock.cli.client.publisher import PublishConnection
from penstock.cli.options import UsageError, option
from penstock.cli.table import print_table
from penstock.engine.trust.feedback import EVIDENCE
from penstock.model.errors import PolicyError
from penstock.policy.trust.rating import Evidence

SYNOPSIS = """\
Usage: penstock trust apply {TABLES | FILE.json} --node NAME [-h HOST] [-p PORT] [-u USER] [-P PASSWORD] [OPTION ...]

Set a node's evidence about its neighbours to the result of `penstock pipeline trust`: the folder that it wrote with
--to, or its output with --json. The client must be one of the domain's `trust.operators`. A neighbour without recorded
evidence is left as it is. The node's answer for each neighbour is printed.

Exit code: 0, 1 if the node refuses one of them, 2 for bad arguments, 7 if the connection is lost."""
_PATIENCE = 30.0


class NeighbourEvidence(NamedTuple):
    """The evidence to set about one neighbour."""

    neighbour: str
    evidence: Evidence

    @property
    def payload(self) -> bytes:
        good, bad, at = self.evidence.good, self.evidence.bad, self.evidence.at
        return json.dumps({"neighbour": self.neighbour, "good": good, "bad": bad, "at": at}).encode()


@dataclass(frozen=True)
class ApplyOptions(broker.ClientOptions):
    """The command line of `penstock trust apply`, but for its first word."""

    node: str = option("--node NAME", "the node whose ratings are set: that of the address", default="")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.node:
            raise UsageError("--node is needed: the name of the node at this address")

    @property
    def version(self) -> int:
        return 5  # otherwise the node cannot give its reason


def main(argv: Sequence[str]) -> int:
    """Run `penstock trust apply` with these arguments; return the exit code."""
    if argv and not argv[0].startswith("-"):
        return broker.run(ApplyOptions, lambda options: apply(Path(argv[0]), options), SYNOPSIS, argv[1:])
    if "--help" in argv:
        return broker.run(ApplyOptions, lambda options: 0, SYNOPSIS, ["--help"])
    print(f"Error: expected TABLES or FILE.json first\n{SYNOPSIS.splitlines()[0]}", file=sys.stderr)
    return broker.EXIT_USAGE


def apply(source: Path, options: ApplyOptions) -> int:
    """Set the recorded evidence at the node; raise `CommandFailure`."""
    evidence = _recorded_by(options.node, source)
    answers: list[tuple[bool, str]] = []

    def note(_: int, reason: ReasonCode, words: str) -> None:
        answers.append((not reason.is_failure, words))

    with PublishConnection(options, note, patience=_PATIENCE) as publisher:
        for item in evidence:
            publisher.send(EVIDENCE, item.payload, 1)
            publisher.wait_for_all()
    rows = [
        (item.neighbour, f"{item.evidence.good:.3f}", f"{item.evidence.bad:.3f}", words)
        for item, (_, words) in zip(evidence, answers, strict=True)
    ]
    print_table(("neighbour", "good", "bad", f"{options.node} says"), rows)
    return 0 if all(is_taken for is_taken, _ in answers) else broker.EXIT_FAILURE


def _recorded_by(node: str, source: Path) -> list[NeighbourEvidence]:
    """Return the evidence that a node recorded, without what the domain gave it to begin with."""
    try:
        rows = _table(source) if source.is_dir() else json.loads(source.read_text(encoding="utf-8"))["ratings"]
        evidence = [
            NeighbourEvidence(str(row["neighbour"]), Evidence(float(row["good"]), float(row["bad"]), float(row["at"])))
            for row in rows
            if row["node"] == node and row["at"] is not None
        ]
    except ImportError:
        raise broker.CommandFailure("tables need pyarrow: `pip install 'penstock[journal]'`, or give JSON") from None
    except OSError as error:
        raise broker.CommandFailure(f"cannot read `{source}`: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, PolicyError) as error:
        why = f"`{source}` has no ratings as `penstock pipeline trust` tells them: {error}"
        raise broker.CommandFailure(why) from None
    if not evidence:
        raise broker.CommandFailure(f"`{source}` has nothing that node `{node}` recorded of a neighbour")
    return evidence


def _table(source: Path) -> list[dict[str, Any]]:
    import pyarrow as pa  # JSON is read without it
    import pyarrow.parquet as pq

    folder = source / "ratings" if (source / "ratings").is_dir() else source
    if not any(folder.rglob("*.parquet")):
        what = "has no table `ratings`: expected the folder that `penstock pipeline trust` wrote with `--to`"
        raise broker.CommandFailure(f"`{source}` {what}")
    try:
        return list(pq.read_table(folder).to_pylist())
    except pa.ArrowException:
        raise broker.CommandFailure(f"`{folder}` is no table: a file in it is damaged, or not Parquet") from None
