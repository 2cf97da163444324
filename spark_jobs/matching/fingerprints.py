"""Fingerprints of sequences: computes Spark's hash `xxhash64` of whole numbers without Spark."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SEED = np.uint64(42)
"""The seed of Spark's function `xxhash64`."""


def xxhash64(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns, for each of `values`, the hash that Spark's function `xxhash64` returns for this value in a column of
    type bigint."""
    with np.errstate(over="ignore"):
        mixed = _rotated(values.astype(np.uint64) * _P2, 31) * _P1
        hashed = _rotated((_SEED + _P5 + np.uint64(8)) ^ mixed, 27) * _P1 + _P4
        hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
        hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
        return (hashed ^ (hashed >> np.uint64(32))).astype(np.int64)


def sums(first: int, last: int) -> tuple[int, int]:
    """Returns two sums over the hashes of all numbers from `first` to `last`: the sum of their lower 32 bits, and the
    sum of their upper 32 bits."""
    hashes = xxhash64(np.arange(first, last + 1, dtype=np.int64))
    return int((hashes & np.int64(0xFFFFFFFF)).sum()), int((hashes >> np.int64(32)).sum())


def _rotated(values: NDArray[np.uint64], bits: int) -> NDArray[np.uint64]:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
