"""Objects for a worker of somebody's query, without credentials: nobody asked for credentials to travel."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from offsite.model.secret import SecretHandling, handle_secrets

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WithoutSecrets(Generic[T]):
    """Pickles `value` without secrets: a worker uses the credentials of its own environment or role. Spark pickles
    readers and partitions of a table by itself, and does not tell whether the network is encrypted."""

    value: T

    def __reduce__(self) -> tuple[Callable[[bytes], WithoutSecrets[T]], tuple[bytes]]:
        with handle_secrets(SecretHandling.READ_THERE):
            return _arrived, (pickle.dumps(self.value),)


def _arrived(pickled: bytes) -> WithoutSecrets[T]:
    return WithoutSecrets(pickle.loads(pickled))  # noqa: S301  # pickled by the driver of this query
