"""Completion: the answers, and the scripts in the shells that are here."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.cli.completion import completions
from penstock.cli.main import COMMANDS, main
from penstock.cli.shells import INSTALLED, SCRIPTS
from tests.support.processes.commands import PATIENCE

DOMAIN = """
domain: test
nodes: {gateway: {listen: 127.0.0.1:1883}, cloud: {listen: 127.0.0.1:1884}}
clients: {phone: {node: cloud}, lamp: {node: gateway}}
"""

CASES: dict[str, tuple[str, list[str]]] = {
    "commands": ("che", ["check"]),
    "options of a command": ("check --e", ["--expand"]),
    "domain files and folders": ("check ", ["deep/", "home.yaml"]),
    "below a folder": ("check deep/", ["deep/more.yml"]),
    "every file where any will do": ("passwd ", ["deep/", "home.yaml", "notes.txt"]),
    "after the file nothing more": ("check home.yaml ", []),
    "nodes of the file": ("run home.yaml --node ", ["gateway", "cloud"]),
    "subjects of the file": ("flows home.yaml --from ", ["phone", "lamp", "gateway", "cloud"]),
    "as far as the name is there": ("explain home.yaml --to l", ["lamp"]),
    "commands of a command": ("token iss", ["issue"]),
    "its options": ("token issue --aud", ["--audience"]),
    "choices": ("statement --to c", ["compact"]),
    "jobs": ("pipeline gov", ["govern"]),
    "options of a job": ("pipeline govern --dom", ["--domain"]),
    "Mosquitto's options": ("sub --wher", ["--where"]),
    "files of Mosquitto's options": ("pub --cafile n", ["notes.txt"]),
    "a value that cannot be known": ("pub -m ", []),
    "no such command": ("chekc ", []),
    "a file that is no domain": ("run notes.txt --node ", []),
    "a file that cannot be read": ("run deep/more.yml --node ", []),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "home.yaml").write_text(DOMAIN)
    (tmp_path / "notes.txt").write_text("nodes: {a: 1}")
    (tmp_path / ".hidden.yaml").write_text("")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "more.yml").write_text("nodes: [\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("line", "expected"), CASES.values(), ids=CASES.keys())
def test_answers(line: str, expected: list[str], folder: Path) -> None:
    assert [value for value, _ in completions(line.split(" "))] == expected


def test_every_command_answers(folder: Path) -> None:
    silent = [name for name in COMMANDS if name not in ("schema", "pipeline") and not completions([name, "-"])]
    assert silent == []


def test_answers_say_what_they_mean() -> None:
    assert dict(completions([""]))["check"] == COMMANDS["check"]
    assert dict(completions(["run", "--n"])) == {"--node": "run only this node of the file"}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`penstock` on the path, of this source."""
    command = tmp_path / "bin" / "penstock"
    command.parent.mkdir()
    code = "import sys; from penstock.cli.main import main; sys.exit(main())"
    command.write_text(f"#!/bin/sh\nexec '{sys.executable}' -c '{code}' \"$@\"\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")


_ASK = {
    "bash": """
        source /dev/stdin <<< "$(penstock completion bash)"
        COMP_WORDS=(penstock run home.yaml --node g) COMP_CWORD=4
        _penstock
        printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        autoload -U compinit; compinit -u; eval "$(penstock completion zsh)"
        compadd() { print -l -- "$@" }; _describe() { print -l -- "${(@P)argv[-1]}" }
        words=(penstock run home.yaml --node g) CURRENT=5
        _penstock | sed 's/:.*//'
    """,
    "fish": "penstock completion fish | source; complete -C 'penstock run home.yaml --node g' | string split -f 1 \\t",
}


@pytest.mark.usefixtures("command")
@pytest.mark.parametrize("shell", SCRIPTS)
def test_shells_complete(shell: str, folder: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([shell, "-c", _ASK[shell]], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.stdout.split(), done.stderr) == (["gateway"], "")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_script_is_shown_and_installed(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    assert main(["--show-completion"]) == 0
    shown = capsys.readouterr().out
    assert shown == SCRIPTS[shell]
    assert main(["--install-completion", shell]) == 0
    assert (tmp_path / INSTALLED[shell]).read_text() == shown


def test_an_unknown_shell_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    with pytest.raises(SystemExit) as ended:
        main(["completion"])
    assert ended.value.code == 2
    assert "`tcsh` is none of them" in capsys.readouterr().err
