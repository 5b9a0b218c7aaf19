"""The commands of a page, run by a shell as a reader would type them."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.page.blocks import ROOT, Command
from tests.support.page.ports import DEFAULT, Ports

PATIENCE = 900.0
_MARK = "\x1e"
_PRELUDE = """\
sleep() { settle "$1" $(jobs -p); }
# Started, left until there is nothing more to do, then interrupted, as a reader ends what does not end by itself.
briefly() {
  "$@" & local job=$! code=0; sleep 1
  if jobs -rp | grep -qx $job; then kill -INT $job; wait $job || true; else wait $job || code=$?; fi
  return $code
}
tell() { case $BASH_COMMAND in wait*|kill*|'return $before') ;; *) echo "$2 $1" >> "$PAGE_ERRORS" ;; esac; }
mark() { local before=$?; printf '\036%s\n' "$1"; return $before; }
trap 'tell $? $LINENO' ERR
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
"""
_PROGRAMS = r"penstock sleep kill wait cp mkdir echo printf cat grep sed touch curl mosquitto \w+_pub \w+_sub"
_SYNTAX = r"$|#|\(umask 077; |(?:for|do|done)\b|[A-Z_]+=|eval \"\$\(penstock "
_OUTSIDE = r"(?!.*[ =>]/(?!dev/))"  # an absolute path
_HARMLESS = re.compile(rf"\s*(?:{_SYNTAX}|(?:{'|'.join(_PROGRAMS.split())})\b{_OUTSIDE})")
_MAY_FAIL = re.compile(r"#.*\b(?:refused|fails)\b")
_ENDLESS = re.compile(
    r"penstock (?:run|journal tail|pipeline (?:stream|capsules)(?!.*--once)|sub(?!.* -[CWE]\b))"
    r"(?!.*&\s*(?:\w+=\$!)?\s*(?:#.*)?$)"
)


@dataclass(frozen=True)
class Printed:
    """What one command, or one block of commands, printed until the next began."""

    command: Command
    text: str


class CommandFailed(AssertionError):
    pass


@contextmanager
def fork_server() -> Iterator[Path]:
    """The socket of a server that runs `penstock` for shells."""
    with tempfile.TemporaryDirectory(prefix="page-") as name:
        path = Path(name, "server")
        words = [sys.executable, "-m", "tests.support.page.server", str(path)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, cwd=ROOT, env=_environment()) as process:
            try:
                end = time.monotonic() + PATIENCE
                while not path.exists():
                    assert process.poll() is None
                    assert time.monotonic() < end
                    time.sleep(0.02)
                yield path
            finally:
                process.communicate()


def run_page(
    commands: list[Command],
    files: Mapping[str, str],
    folder: Path,
    server: Path,
    patience: float,
    is_left_out: Callable[[str], bool],
) -> list[Printed]:
    """Run all commands of a page in one shell, in `folder`, with files in it; raises `CommandFailed`."""
    ports = Ports()
    work, tools, processes = folder / "work", folder / "bin", folder / "processes"
    for made in (work, tools, processes, folder / "home"):
        made.mkdir(parents=True)
    _make_tools(tools)
    for name, text in files.items():
        assert (work / name).resolve().is_relative_to(work.resolve()), f"`{name}` is not in the reader's folder"
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(ports.put(text), encoding="utf-8")
    _check_programs(commands, is_left_out)
    script, lines = _script(commands, ports, is_left_out)
    (folder / "script").write_text(script, encoding="utf-8")
    environment = {
        **_environment(),
        "HOME": str(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder / "home"),
        "SHELL": "/bin/bash",
        "PATH": f"{tools}:{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin",
        "PAGE_SERVER": str(server),
        "PAGE_PROCESSES": str(processes),
        "PAGE_ERRORS": str(folder / "errors"),
        "PAGE_PORT": ports[DEFAULT],
        "PAGE_PORTS": json.dumps(ports.usual()),
        "PAGE_PATIENCE": str(patience),
        **({"PAGE_KILLS": "yes"} if "kill -9" in script else {}),
    }
    try:
        done = subprocess.run(
            ["bash", str(folder / "script")],
            cwd=work,
            env=environment,
            input="\n" * 100,  # who is asked takes what stands there
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
        )
    finally:
        _end(processes)
    out = ports.back(done.stdout)
    _check_codes(folder / "errors", lines, out)
    parts = re.split(rf"{_MARK}(\d+)\n", out)[1:]
    return [Printed(commands[int(number)], text) for number, text in zip(parts[::2], parts[1::2], strict=True)]


def _check_programs(commands: list[Command], is_left_out: Callable[[str], bool]) -> None:
    """Nothing is run that is not known to be harmless here: pages also say what to do to a machine."""
    lines = [line for one in commands for line in _whole_lines(one.text) if not is_left_out(line)]
    unknown = [line for line in lines if not _HARMLESS.match(line)]
    assert unknown == [], f"neither run nor left out with a reason: {unknown}"


def _script(commands: list[Command], ports: Ports, is_left_out: Callable[[str], bool]) -> tuple[str, dict[int, str]]:
    """The script of all commands, and where its lines come from."""
    script, lines = _PRELUDE, {}
    for number, command in enumerate(commands):
        script += f"mark {number}\n"
        at = script.count("\n") + 1
        kept = "".join(_kept(part, is_left_out) for part in _whole_lines(command.text))
        for offset, line in enumerate(kept.splitlines()):
            lines[at + offset] = (
                f"line {command.line + offset}: {line}{' # fails, as is shown' if command.shown else ''}"
            )
        script += ports.put(kept)
    return script, lines


def _whole_lines(text: str) -> list[str]:
    """Lines, with those that a backslash continues."""
    return re.findall(r"(?:[^\n]*\\\n)*[^\n]*\n", text)


def _kept(line: str, is_left_out: Callable[[str], bool]) -> str:
    if is_left_out(line):
        return ":\n" * line.count("\n")
    return f"briefly {line}" if _ENDLESS.match(line) else line


def _check_codes(errors: Path, lines: Mapping[int, str], out: str) -> None:
    """Every command of a block without output ends well, unless its comment says that it does not."""
    told = errors.read_text(encoding="utf-8").splitlines() if errors.exists() else []
    for one in told:
        number, code = map(int, one.split())
        where = lines.get(number, f"line {number} of the script")
        if not _MAY_FAIL.search(where):
            raise CommandFailed(f"exit code {code}: {where}\n{out}")


def _make_tools(folder: Path) -> None:
    for name, module in (("penstock", "shim"), ("settle", "settle")):
        source = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        (folder / name).write_text(f"#!{sys.executable} -IS\n{source}", encoding="utf-8")
        (folder / name).chmod(0o755)


def _end(processes: Path) -> None:
    """No command outlives its page."""
    for mark in processes.iterdir():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(mark.name), signal.SIGKILL)


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "PENSTOCK_"))}
    return {**kept, "PYTHONPATH": path, "COLUMNS": "200", "TERM": "dumb"}
