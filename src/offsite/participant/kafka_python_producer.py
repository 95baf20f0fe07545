"""A producer of kafka-python that goes on after a record was given up.

kafka-python 3.0 gives up its producer id when a batch expires that it had tried before, and never asks for another one:
from then on it sends nothing, and no record is ever reported. Any error that lasts as long as the time of delivery does
it, such as a topic that is made anew. So whoever is told that a record was given up begins with a new producer, and
nothing is waited for without a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

_MARGIN_S = 5.0
"""Seconds beyond the time of delivery until a record counts as given up that was reported neither way."""
_ENDS_WITHIN_S = 1.0


class RenewableProducer:
    """For several threads. `config` as kafka-python takes it. Raises what making a producer raises."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from kafka import KafkaProducer

        limits_ms = {**KafkaProducer.DEFAULT_CONFIG, **config}
        self._config = config
        self._lock = threading.Lock()
        self._current: KafkaProducer | None = KafkaProducer(**config)
        self.patience_s = limits_ms["delivery_timeout_ms"] / 1000 + _MARGIN_S

    def current(self) -> KafkaProducer:
        """The producer to send with. Raises `KafkaError` where a new one is to be made, and no broker answers."""
        from kafka import KafkaProducer

        with self._lock:
            if self._current is None:
                self._current = KafkaProducer(**self._config)
            return self._current

    def give_up(self, producer: KafkaProducer) -> None:
        """Never send with it again. What it has not sent is never sent."""
        with self._lock:
            if self._current is not producer:
                return  # another thread was faster
            self._current = None
        _end(producer)

    def close(self) -> None:
        if self._current is not None:
            self._current.close(timeout=self.patience_s)


def _end(producer: KafkaProducer) -> None:
    """At once: its records are reported as given up. To close it in the usual way would wait for them for ever."""
    from kafka.errors import KafkaError  # type: ignore[import-untyped]

    with suppress(AttributeError):  # it began to end by itself
        producer._sender.force_close()  # noqa: SLF001 - there is no public way that does not wait
    with suppress(KafkaError):
        producer.close(timeout=_ENDS_WITHIN_S)
