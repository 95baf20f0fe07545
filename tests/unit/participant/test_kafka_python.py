from __future__ import annotations

from typing import Any, NoReturn

import pytest

from offsite_participant.errors import ControlUnavailable
from offsite_participant.kafka_python import KafkaPythonControl


class GivenUpMeanwhile:
    """A producer that another thread closes while this one sends with it: what kafka-python raises then is none of its
    own errors."""

    patience_s = 1.0

    def __init__(self) -> None:
        self.given_up: list[object] = []

    def current(self) -> GivenUpMeanwhile:
        return self

    def send(self, *_: Any, **__: Any) -> NoReturn:
        raise RuntimeError("NetworkSelector closed!")

    def give_up(self, producer: object) -> None:
        self.given_up.append(producer)


def test_a_producer_that_another_thread_gave_up_is_an_outage_and_no_end() -> None:
    control, producer = object.__new__(KafkaPythonControl), GivenUpMeanwhile()
    control.topic = "control"
    control._producer = producer  # type: ignore[assignment]
    with pytest.raises(ControlUnavailable, match="closed"):
        control.append(b"beat")
    assert producer.given_up == [producer]
