"""Which part of a multi-part checkpoint a file's row stands in: decided by its path alone.

Parts are not put in one step, and two writers of one version may each put some of them. Since either
would give a path to the same part, what they leave is a whole checkpoint whoever wrote which part.
Specification: "Multi-part checkpoint" of "Checkpoint Naming Scheme".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

# The step of a linear congruence, and its multiplicative finish: every bit of the sum counts.
_STEP = np.uint64(6364136223846793005)
_FINISH = np.uint64(0x9E3779B97F4A7C15)


def number_of_parts(actions: int, part_size: int | None) -> int:
    """How many parts ``actions`` file actions make, ``part_size`` in each of them on average."""
    return 1 if part_size is None else max(1, math.ceil(actions / part_size))


def part_of(paths: pa.Array, parts: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The part, from 0, of each path."""
    paths = pa.concat_arrays([paths.cast(pa.large_string())])
    offsets = np.frombuffer(paths.buffers()[1], np.int64)[paths.offset : paths.offset + len(paths) + 1]
    lengths = np.diff(offsets)
    data = paths.buffers()[2]
    text = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]].astype(np.uint64)
    place = np.arange(len(text)) - np.repeat(offsets[:-1] - offsets[0], lengths)
    weights = _weights(int(lengths.max(initial=0)))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum((text + np.uint64(1)) * weights[place])])
    found = (sums[offsets[1:] - offsets[0]] - sums[offsets[:-1] - offsets[0]]) * _FINISH
    out: np.ndarray[Any, np.dtype[np.int64]] = ((found >> np.uint64(33)) % np.uint64(parts)).astype(np.int64)
    return out


def split(values: pa.StructArray, parts: int) -> Iterator[tuple[int, pa.StructArray]]:
    """``values``, structs with a ``path``, by part; parts that get nothing are left out."""
    found = part_of(values.field("path"), parts)
    for part in np.unique(found):
        yield int(part), values.filter(pa.array(found == part))


def _weights(length: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """An odd factor for each place of a path; sums and products wrap, as they are meant to."""
    out: np.ndarray[Any, np.dtype[np.uint64]] = np.cumprod(np.full(length, _STEP, np.uint64)) | np.uint64(1)
    return out
