"""What stands for `sleep` in the shell of a page: waits until the commands in the background have nothing to do.

Pages say `sleep 1` so that a node is up, or a message there, before the next command. How long that takes depends on
the machine; that all is quiet does not. Arguments: the seconds, then the jobs of the shell. Like `shim.py` it imports
little.
"""

import os
import sys
import time

WINDOW = 0.1
"""Seconds in which next to nothing may happen."""
NOTHING = 2_000_000
"""Nanoseconds: what loops take that look whether there is something to do."""
MOST = 20.0
MARKS = os.environ["PAGE_PROCESSES"]


def processes(jobs: list[str]) -> tuple[set[str], bool]:
    """Those that work for the page, and whether all jobs of the shell are among them or are none of ours."""
    found, asked = set(), set()
    for process in os.listdir(MARKS):
        try:
            with open(f"{MARKS}/{process}") as mark:
                asked.add(mark.read())
        except OSError:  # it has ended
            continue
        found.add(process)
    return found | set(jobs), not any(job not in asked and is_starting(job) for job in jobs)


def is_starting(job: str) -> bool:
    """A shell that has yet to become the command, or a command that has yet to ask for a process."""
    try:
        with open(f"/proc/{job}/cmdline", "rb") as words:
            return words.read().split(b"\0")[0].endswith((b"bash", b"python"))
    except OSError:
        return False


def spent(process: str) -> int | None:
    """Nanoseconds that its threads have run or waited for a processor; None while one of them runs or waits."""
    total = 0
    for thread in os.listdir(f"/proc/{process}/task"):
        with open(f"/proc/{process}/task/{thread}/stat") as stat:
            if stat.read().rpartition(")")[2].split()[0] in "RD":
                return None
        with open(f"/proc/{process}/task/{thread}/schedstat") as ran:
            total += sum(map(int, ran.read().split()[:2]))
    return total


def children(process: str) -> list[str]:
    try:
        with open(f"/proc/{process}/task/{process}/children") as names:
            return names.read().split()
    except OSError:  # it has ended
        return []


def with_descendants(found: set[str]) -> set[str]:
    """Spark does not work in the process that was started."""
    known, left = set(found), list(found)
    while left:
        new = set(children(left.pop())) - known
        known |= new
        left += new
    return known


def at_work(jobs: list[str]) -> int | None:
    found, is_complete = processes(jobs)
    found = with_descendants(found)
    total = 0
    for process in found:
        try:
            one = spent(process)
        except OSError:  # it has ended
            continue
        if one is None:
            return None
        total += one
    return total if is_complete else None


seconds, *jobs = sys.argv[1:]
end = time.monotonic() + MOST
time.sleep(float(os.environ["PAGE_PATIENCE"]) * float(seconds))
before: int | None = None
while time.monotonic() < end:
    now = at_work(jobs)
    if before is not None and now is not None and abs(now - before) < NOTHING:
        break
    before = now
    time.sleep(WINDOW)
