"""aiokafka's Cython codec, imported by the thread that needs it first.

Its modules import each other in circles: of two threads that import them at once, one sees a module half imported. The
import takes 0.3 s, which only who decodes pays.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

_IMPORTING = Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class CythonCodec:
    """The reader and the builder of batches, the error of the reader, and the reader of zigzag numbers."""

    batch: Any
    builder: Any
    corrupt: type[Exception]
    decode_varint: Any


@cache
def cython_codec() -> CythonCodec:
    """Cached: a look-up per batch would cost 20 records."""
    with _IMPORTING:
        from aiokafka.errors import CorruptRecordException  # type: ignore[import-untyped]
        from aiokafka.record.default_records import (  # type: ignore[import-untyped]
            DefaultRecordBatch,
            DefaultRecordBatchBuilder,
        )
        from aiokafka.record.util import decode_varint  # type: ignore[import-untyped]
    return CythonCodec(
        batch=DefaultRecordBatch,
        builder=DefaultRecordBatchBuilder,
        corrupt=CorruptRecordException,
        decode_varint=decode_varint,
    )
