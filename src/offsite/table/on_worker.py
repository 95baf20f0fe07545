"""What a worker of somebody's query reads from, without the credentials: nobody asked for them to travel."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from offsite.model.secret import Travel, secrets_travel

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OnWorker(Generic[T]):
    """`value`, whose secrets stay here when it is pickled: a worker takes those of its own environment or role. Spark
    pickles readers and partitions of a table by itself, and does not tell whether it encrypts."""

    value: T

    def __reduce__(self) -> tuple[Callable[[bytes], OnWorker[T]], tuple[bytes]]:
        with secrets_travel(Travel.READ_THERE):
            return _arrived, (pickle.dumps(self.value),)


def _arrived(pickled: bytes) -> OnWorker[T]:
    return OnWorker(pickle.loads(pickled))  # noqa: S301  # by the driver of this query
