"""`python -m benchmarks.reproduce [PAPER] [ARGUMENTS]`: the experiments of one paper again, or of all."""

import sys

from benchmarks.reproduce.brokering.__main__ import main as brokering
from benchmarks.reproduce.contracts.__main__ import main as contracts
from benchmarks.reproduce.sparkplug.__main__ import main as sparkplug
from benchmarks.reproduce.statements.__main__ import main as statements
from benchmarks.reproduce.trust.__main__ import main as trust

PAPERS = {
    "brokering": brokering,
    "sparkplug": sparkplug,
    "statements": statements,
    "trust": trust,
    "contracts": contracts,
}


def main(arguments: list[str]) -> int:
    """Run what is asked for; the exit code of the first that fails."""
    if arguments and arguments[0] in PAPERS:
        return PAPERS[arguments[0]](arguments[1:])
    codes = [run(arguments) for run in PAPERS.values()]
    return next((code for code in codes if code), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
