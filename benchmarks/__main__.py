"""`python -m benchmarks`: the benchmarks of the node, the only ones so far."""

import sys

from benchmarks.node import main

sys.exit(main())
