"""The smart home looks back at what its nodes recorded, on Spark.

What may two of its devices have of it, and what would a draft of its policies have let out?

Run by `make demo`, last. Exit code 1 if anything did not happen as told.
"""

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # for what the examples share

import pyarrow.dataset as ds
from play import Home

from examples.narration import Account
from examples.nodes import penstock

JOURNAL = "\njournal: {folder: journal}\n"
BARRIER = "deny: [{from: sensitive, to: internet}]"


def the_home_records(account: Account, home: Home) -> None:
    account.scene("The home as before, but now its nodes keep a journal")
    account.quote("to the domain file is added:")
    account.quote(f"    {JOURNAL.strip()}")
    with home.file.open("a", encoding="utf-8") as file:
        file.write(JOURNAL)
    for node in home.nodes:
        home.start(node, account)
    for device in home.devices:
        device.arrive(home.cloud.port(device.usual_port))
    account.check("the devices find each other", home.phone.knows_of(home.bell) and home.lock.knows_of(home.bell))
    account.check("nobody is at home", home.motion_is(False))
    home.bell.press("aunt")
    account.check("somebody rings, and the phone shows a picture", home.phone.shows("picture of aunt"))
    home.phone.decide(let_in=True)
    account.check("the owner lets her in", home.opens(1))
    account.check("somebody is at home", home.motion_is(True))
    for device in home.devices:
        device.leave()
    account.check("the nodes end", [node.stop() for node in home.nodes], [0, 0, 0])


def two_of_them_may_have(account: Account, home: Home) -> None:
    account.scene("What may the phone and the bell have of all that was recorded?")
    command = ("pipeline", "govern", "--from", "journal", "--to", "tables", "--subject", "phone", "--subject", "bell")
    account.quote(f"$ penstock {' '.join(command)}")
    code, lines = penstock(home.folder, *command, "--master", "local[2]")
    for line in lines:
        account.quote(line)
    account.check("the views are written", code, 0)
    rows = ds.dataset(home.folder / "tables" / "view", partitioning="hive").to_table(["subject", "topic"]).to_pylist()
    topics = {name: sorted({row["topic"] for row in rows if row["subject"] == name}) for name in ("phone", "bell")}
    for name, several in topics.items():
        account.quote(f"{name}: {', '.join(several)}")
    account.check("the bell's has motion", {"MD_motion", "MD_no_motion"} <= set(topics["bell"]))
    account.check("the phone's has none", [topic for topic in topics["phone"] if topic.startswith("MD_")], [])
    account.check("but it has what the phone was asked", "AC_request" in topics["phone"])


def a_draft_would_leak(account: Account, home: Home) -> None:
    account.scene("Somebody has drafted other policies. What would they have done to this traffic?")
    text = home.file.read_text(encoding="utf-8")
    assert BARRIER in text
    (home.folder / "draft.yaml").write_text(text.replace(BARRIER, "deny: []"), "utf-8")
    command = ("pipeline", "replay", "--from", "journal", "--domain", "draft.yaml", "--html", "replay.html")
    account.quote(f"$ penstock {' '.join(command)}     # without the rule of Policy 2")
    code, lines = penstock(home.folder, *command, "--master", "local[2]")
    for line in lines:
        account.quote(line)
    account.check("motion would have come to the phone: caught, with exit code 1", code, 1)
    account.check("an assertion says so", any("`never: motion to phone by routes` fails" in line for line in lines))
    account.check("there is a report with plots", "<svg" in (home.folder / "replay.html").read_text(encoding="utf-8"))


SCENES = (the_home_records, two_of_them_may_have, a_draft_would_leak)


def main() -> int:
    account = Account("The smart home looks back: journal and pipeline")
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder:
        home = Home(Path(folder))
        try:
            for scene in SCENES:
                scene(account, home)
        finally:
            home.close()
    return account.close()


if __name__ == "__main__":
    sys.exit(main())
