"""A producer of kafka-python that survives a given-up record.

kafka-python 3.0 gives up its producer id when a retried batch expires, and never asks for a new id: from that moment
nothing is sent, and no record is ever reported. Any error as long as the delivery time causes the problem, such as a
recreated topic. After a given-up record a new producer is therefore made, and no wait is without a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

_MARGIN_S = 5.0
"""Seconds beyond the delivery time after which an unreported record counts as given up."""
_ENDS_WITHIN_S = 1.0


class RenewableProducer:
    """Usable from several threads. `config` as in kafka-python. Raises the errors of making a producer."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        from kafka import KafkaProducer

        limits_ms = {**KafkaProducer.DEFAULT_CONFIG, **config}
        self._config = config
        self._lock = threading.Lock()
        self._current: KafkaProducer | None = KafkaProducer(**config)
        self.patience_s = limits_ms["delivery_timeout_ms"] / 1000 + _MARGIN_S

    def current(self) -> KafkaProducer:
        """The producer to send with. Raises `KafkaError` where a new producer is needed and no broker answers."""
        from kafka import KafkaProducer

        with self._lock:
            if self._current is None:
                self._current = KafkaProducer(**self._config)
            return self._current

    def give_up(self, producer: KafkaProducer) -> None:
        """Never send with the producer again. Its unsent records are never sent."""
        with self._lock:
            if self._current is not producer:
                return  # another thread was faster
            self._current = None
        _end(producer)

    def close(self) -> None:
        if self._current is not None:
            self._current.close(timeout=self.patience_s)


def _end(producer: KafkaProducer) -> None:
    """End at once: all records are reported as given up. A regular close would wait for the records for ever."""
    from kafka.errors import KafkaError  # type: ignore[import-untyped]

    with suppress(AttributeError):  # it began to end by itself
        producer._sender.force_close()  # noqa: SLF001 - there is no public way that does not wait
    with suppress(KafkaError):
        producer.close(timeout=_ENDS_WITHIN_S)
