"""Rows that are alike, in Arrow batches."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]


def distinct(rows: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Return where each combination of values is for the first time, and for each row which of these it is."""
    at: Numbers = np.zeros(rows.num_rows, np.int64)
    count = min(1, rows.num_rows)
    for column in rows.columns:
        codes = column.dictionary_encode(null_encoding="encode")
        if len(codes.dictionary) > 1:
            if count > 1:
                codes = pa.array(at * len(codes.dictionary) + codes.indices.to_numpy()).dictionary_encode()
            at, count = codes.indices.to_numpy().astype(np.int64), len(codes.dictionary)
    firsts: Numbers = np.empty(count, np.int64)
    firsts[at[::-1]] = np.arange(len(at) - 1, -1, -1)  # of several, the last that is written stays
    return firsts, at
