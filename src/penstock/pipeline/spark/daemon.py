"""What Spark forks its Python workers from, on this machine: it has imported once what each of them needs.

Spark starts a worker for each function over Arrow batches that is at work at a time; without this, each of them
imports everything by itself, which takes longer than most of them work.
"""

import gc

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    gc.freeze()  # workers look for garbage after each task: not among what is here
    manager()
