"""Every command of every page is run, as it stands there, and prints what the page shows.

A page's commands are typed into one shell, in a folder of its own. There are the files that the page shows, the
examples, and what `tests/cases/pages/<page>` has: files that the page takes for granted; in `before.sh` what its reader
has done by then, in `before-spark.sh` what jobs on Spark need besides. `told.yaml` has what commands must print.
"""

import re
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
import yaml

from penstock.cli.main import COMMANDS
from scripts.reference import FOLDER
from tests.support.page.blocks import ROOT, Block, Command, blocks
from tests.support.page.run import Printed, fork_server, run_page

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*/*.md")])
BESIDE = ROOT / "tests" / "cases" / "pages"
PATIENCE = (0.0, 1.0, 4.0)
"""How much longer than until all is quiet commands wait where the page says `sleep`: a slow machine needs more."""

LEFT_OUT = {
    r"make (demo|test)\b": "they run all demos, and these tests",
    r"python3 -m venv|export PATH=~/penstock": "installs from a package index, into the home folder",
    r"\.venv/bin/(pytest|py-spy|pyinstrument|penstock)": "are about the tests, and about profilers of `make bench`",
    r"python examples/factory/shift.py": "tests/examples/test_factory.py runs it, on ports of its own",
    r"scp ": "copies to another machine",
    r"docker ": "needs a Docker daemon",
    r".*/opt/penstock|.*systemctl |journalctl ": "install and run a service of the machine",
    r"penstock xacml conformance": "needs the public conformance cases, which are not ours to pass on",
}
"""Commands that are not run, by the pattern of their line, and why."""
SPARK = r"penstock (pipeline |trust apply tables)"
"""Jobs on Spark take from ten seconds to a minute: `make pipeline` runs the pages that have them, whole."""
TOLD = yaml.safe_load((BESIDE / "told.yaml").read_text(encoding="utf-8"))


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def page_blocks(page: Path) -> list[Block]:
    return blocks(page.read_text(encoding="utf-8"))


def has_commands(page: Path) -> bool:
    return any(block.commands for block in page_blocks(page))


def has_spark(page: Path) -> bool:
    return any(re.search(rf"^{SPARK}", one.text, re.MULTILINE) for block in page_blocks(page) for one in block.commands)


@pytest.fixture(scope="module")
def server() -> Iterator[Path]:
    with fork_server() as path:
        yield path


@pytest.mark.parametrize("page", [page for page in PAGES if has_commands(page)], ids=name_of)
def test_every_command_runs(page: Path, server: Path, tmp_path: Path) -> None:
    _try(page, server, tmp_path, [*LEFT_OUT, SPARK])


@pytest.mark.recorded
@pytest.mark.parametrize("page", [page for page in PAGES if has_spark(page)], ids=name_of)
def test_every_command_runs_with_those_on_spark(page: Path, server: Path, tmp_path: Path) -> None:
    _try(page, server, tmp_path, [*LEFT_OUT])


def _try(page: Path, server: Path, folder: Path, left_out: list[str]) -> None:
    for turn, patience in enumerate(PATIENCE, 1):
        try:
            _run(page, server, folder / str(turn), left_out, patience)
        except AssertionError:
            if turn == len(PATIENCE):
                raise
        else:
            return


def _run(page: Path, server: Path, folder: Path, left_out: list[str], patience: float) -> None:
    found = page_blocks(page)
    names = ["before.sh"] if SPARK in left_out else ["before.sh", "before-spark.sh"]
    before = [_beside(page) / name for name in names if (_beside(page) / name).exists()]
    commands = [
        *(Command(path.read_text(encoding="utf-8"), 0, None) for path in before),
        *(one for block in found for one in block.commands),
    ]

    def is_left_out(line: str) -> bool:
        return re.match("|".join(left_out), line) is not None

    printed = run_page(commands, _files(page, found), folder, server, patience, is_left_out)
    shown = [one for one in printed if one.command.shown is not None and not is_left_out(one.command.text)]
    for line, session in groupby(shown, key=lambda one: one.command.block):
        _compare(list(session), f"{name_of(page)}:{line}")
    everything = "".join(one.text for one in printed)
    assert "Traceback (most recent call last)" not in everything, everything
    told = TOLD.get(name_of(page), {})
    wanted = [*told.get("prints", ()), *(() if SPARK in left_out else told.get("jobs print", ()))]
    assert [one for one in wanted if not re.search(one, everything, re.MULTILINE)] == [], everything
    assert [one for one in told.get("never", ()) if re.search(one, everything, re.MULTILINE)] == [], everything


def _files(page: Path, found: list[Block]) -> dict[str, str]:
    """By name, all that is in the folder when the page begins."""
    beside = _beside(page)
    given = [path for folder in (ROOT / "examples", beside) for path in folder.rglob("*") if path.is_file()]
    files = {
        str(path.relative_to(beside if beside in path.parents else ROOT)): path.read_text(encoding="utf-8")
        for path in given
        if path.suffix not in (".pyc", ".db", ".sh")
    }
    return files | {block.file: block.text for block in found if block.file is not None}


def _beside(page: Path) -> Path:
    return BESIDE / page.relative_to(ROOT).with_suffix("")


def _compare(session: list[Printed], where: str) -> None:
    """Hold what a block shows against what its commands printed; who prints in the background may be a command late.

    `...` stands for anything within a line, and on a line of its own for any lines.
    """
    shown = "".join(one.command.shown or "" for one in session)
    printed = "".join(one.text for one in session)
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.rstrip().split("..."))) + r"[ ]*\n"
        for line in shown.splitlines()
        if line.strip()
    )
    lines = "".join(f"{line}\n" for line in printed.splitlines() if line.strip())
    assert re.fullmatch(pattern, lines) is not None, f"{where}: shows\n{shown}\nand the commands print\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_are_told_as_commands(page: Path) -> None:
    """In a block that says so, `sh` or `console`: what stands in others is not run."""
    looks_so = re.compile(rf"^(\$ |penstock ({'|'.join(COMMANDS)}) |curl |make [a-z]|pip |mosquitto_)", re.MULTILINE)
    others = [block for block in page_blocks(page) if block.language in ("", "text", "bash", "shell")]
    assert [f"{name_of(page)}:{block.line}" for block in others if looks_so.search(block.text)] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_within_sentences_are_there(page: Path) -> None:
    """Of `penstock COMMAND --option` in a text, the command and the option exist."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"))
    named = [shell_words(span) for span in re.findall(r"`penstock ([a-z][^`]*)`", text)]
    assert [" ".join(words) for words in named if not is_known(words)] == []


def shell_words(text: str) -> list[str]:
    return text.replace("'", "").split()


def is_known(words: list[str]) -> bool:
    command, options = words[0], {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-z].*", word)}
    if command not in COMMANDS:
        return False
    return options <= known_options(command) | {"--help"}


@cache
def known_options(command: str) -> frozenset[str]:
    page = (FOLDER / "commands.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## penstock {command}\n")[2].partition("\n## ")[0]
    return frozenset(re.findall(r"`(--?[\w-]+)", section))


def test_what_is_left_out_is_there() -> None:
    lines = [
        line
        for page in PAGES
        for block in page_blocks(page)
        for one in block.commands
        for line in one.text.splitlines()
    ]
    assert [pattern for pattern in LEFT_OUT if not any(re.match(pattern, line) for line in lines)] == []


@pytest.mark.parametrize(
    "line", ["docker volume create x", "systemctl stop x", "cp x /etc/y", "rm -r ~", "cat x > /etc/y"]
)
def test_what_could_change_the_machine_is_never_run(line: str, server: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="neither run nor left out"):
        run_page([Command(f"{line}\n", 1, None)], {}, tmp_path / "1", server, 0.0, lambda line: False)


def test_no_file_of_a_page_is_outside_of_its_folder(server: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="reader's folder"):
        run_page([], {"/tmp/elsewhere.yaml": ""}, tmp_path / "1", server, 0.0, lambda line: False)
