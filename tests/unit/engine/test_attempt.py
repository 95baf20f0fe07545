from __future__ import annotations

import pickle
import traceback

import pytest

from offsite.engine.runner import Done, Failed
from offsite.engine.task_attempt import AttemptFailed, Envelope, attempt
from offsite.model.errors import KafkaUnreachable, OffsiteError, SparkFailed, TargetNotEmpty
from tests.spark_tasks import divide_by_zero, double

QUOTED = "hunter2"


def refuse(_: int) -> None:
    raise TargetNotEmpty("not empty", hint="--overwrite")


def lose_the_broker(_: int) -> None:
    raise KafkaUnreachable("gone", hint="")


def quote_a_password(_: int) -> None:
    raise ValueError(f"cannot use {QUOTED}")


def wrap_a_quote(_: int) -> None:
    try:
        quote_a_password(0)
    except ValueError as error:
        raise KafkaUnreachable("gone", hint="") from error


def only_error(envelope: Envelope[None]) -> OffsiteError:
    assert isinstance(envelope.outcome, Failed)
    return envelope.outcome.error


def test_a_result_comes_back_under_its_number() -> None:
    envelope = attempt(7, 21, double, is_last_attempt=False)
    assert (envelope.index, envelope.outcome) == (7, Done(value=42))
    assert envelope.peak_rss_bytes > 1 << 20


def test_what_another_attempt_meets_again_comes_back_at_once() -> None:
    assert isinstance(only_error(attempt(0, 1, refuse, is_last_attempt=False)), TargetNotEmpty)


def test_what_may_pass_is_raised_for_another_attempt() -> None:
    with pytest.raises(AttemptFailed, match="KafkaUnreachable: gone"):
        attempt(0, 1, lose_the_broker, is_last_attempt=False)


def test_what_spark_writes_of_a_failed_attempt_quotes_no_foreign_error() -> None:
    """Spark prints the whole chain: into logs of executors, the event log, its pages."""
    for error in (quote_a_password, wrap_a_quote):
        with pytest.raises(AttemptFailed) as raised:
            attempt(0, 1, error, is_last_attempt=False)
        told = "".join(traceback.format_exception(raised.value))
        assert QUOTED not in told
        assert error.__name__ in told


def test_the_last_attempt_raises_nothing() -> None:
    assert isinstance(only_error(attempt(0, 1, lose_the_broker, is_last_attempt=True)), KafkaUnreachable)


def test_a_foreign_error_becomes_ours_and_keeps_its_traceback() -> None:
    envelope = attempt(0, 1, divide_by_zero, is_last_attempt=True)
    assert isinstance(envelope.outcome, Failed)
    assert isinstance(envelope.outcome.error, SparkFailed)
    assert "divide_by_zero" in envelope.outcome.trace


def test_an_envelope_survives_the_way_home() -> None:
    envelope = pickle.loads(pickle.dumps(attempt(0, 1, refuse, is_last_attempt=False)))
    assert only_error(envelope).hint == "--overwrite"
