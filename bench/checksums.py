"""What checking costs without anything around it: one core, data that is warm."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping

from blake3 import blake3
from crc32c import crc32c

from bench.samples import Samples
from offsite.model.units import MIB

_DATA = bytes(range(256)) * (16 * MIB // 256)
_PASSES = 5

WAYS: Mapping[str, Callable[[bytes], object]] = {
    "crc32c_gb_s": crc32c,
    "sha256_gb_s": lambda data: hashlib.sha256(data).digest(),
    "blake3_gb_s": lambda data: blake3(data).digest(),
}


def measure_checksums(samples: Samples) -> None:
    for name, way in WAYS.items():
        for _ in range(_PASSES):
            start_s = time.perf_counter()
            way(_DATA)
            samples.add(**{name: len(_DATA) / 1e9 / (time.perf_counter() - start_s)})
