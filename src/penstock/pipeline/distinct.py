"""Rows that are alike, in Arrow batches."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]


def distinct(rows: pa.RecordBatch) -> tuple[Numbers, Numbers]:
    """Where each combination of values is for the first time, and for each row which of these it is."""
    at: Numbers = np.zeros(rows.num_rows, np.int64)
    firsts: Numbers = at[:1]
    for column in rows.columns:
        codes = column.dictionary_encode(null_encoding="encode")
        if len(codes.dictionary) > 1:
            both = at * len(codes.dictionary) + codes.indices.to_numpy()
            _, firsts, at = np.unique(both, return_index=True, return_inverse=True)
    return firsts, at
