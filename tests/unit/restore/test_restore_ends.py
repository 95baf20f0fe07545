"""A restore that goes on behind one that was killed looks at what the log really holds at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from offsite.kafka.log_writer import LogWriter
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import TargetNotEmpty
from tests.batches import FIRST_TIME_MS, make_batch
from tests.fake_cluster.site import Site, open_site
from tests.unit.restore.test_bundles_of_a_run import TOPIC, KilledError, refuse_once

SINGLES, LARGE = 20, 20
BEATS = 12
BATCHES, WRITTEN = 60, 20


@pytest.fixture
def site(tmp_path: Path) -> Any:
    with open_site(tmp_path) as site:
        yield site


def die(*_: object) -> None:
    raise KilledError


def killed_as_it_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch, *, at: int) -> None:
    """The leader refuses the batch at that offset, once, and takes in its place what was sent behind it."""
    refuse_once(monkeypatch, site, at=at)
    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "_fail", die)
        with pytest.raises(KilledError):
            site.restore(offsets="preserve", verify=False)


def put(
    log: Any, producer: int, sequence: int, values: list[bytes], *, transactional: bool, alike: bool = False
) -> None:
    at = log.end
    records = [Record(at + n, FIRST_TIME_MS + (0 if alike else at + n), 0, b"k", v) for n, v in enumerate(values)]
    log.put(
        bytes(
            encode(
                records,
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                is_transactional=transactional,
            )
        )
    )


@pytest.mark.parametrize("transactional", [False, True])
def test_a_large_batch_does_not_hide_that_those_before_it_are_missing(
    site: Site, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    """It begins in front of all that is compared, and reaches over it."""
    log = site.source.make_topic(TOPIC, retention_ms="-1").partitions[0]
    large, small = site.source.next_producer_id(), site.source.next_producer_id()
    put(log, large, 0, [b"v0"], transactional=True)
    for n in range(SINGLES + 1):
        put(log, small, n, [b"v%d" % log.end], transactional=transactional)
    put(log, large, 1, [b"v%d" % (log.end + n) for n in range(LARGE)], transactional=True)
    for producer in (small, large) if transactional else (large,):
        log.end_transaction(producer, 0, committed=True)
    site.source.write(TOPIC, [b"last"])
    site.back_up("*")
    killed_as_it_is_refused(site, monkeypatch, at=2)
    site.restore(offsets="preserve", verify=False)
    assert site.target.values(TOPIC) == site.source.values(TOPIC)


@pytest.mark.parametrize("value", [b"v2", b"beat"])
@pytest.mark.parametrize("transactional", [False, True])
def test_batches_that_are_alike_are_not_taken_for_one_another(
    site: Site, monkeypatch: pytest.MonkeyPatch, value: bytes, transactional: bool
) -> None:
    """The same record again and again, within a millisecond, and another producer's amid them: of another value, or of
    the same, which is then in a transaction of its own, or in none."""
    log = site.source.make_topic(TOPIC, retention_ms="-1").partitions[0]
    beating, other = site.source.next_producer_id(), site.source.next_producer_id()
    put(log, beating, 0, [b"beat"], transactional=True, alike=True)
    put(log, other, 0, [b"v1"], transactional=transactional, alike=True)
    put(log, other, 1, [value], transactional=transactional, alike=True)
    for n in range(BEATS):
        put(log, beating, n + 1, [b"beat"], transactional=True, alike=True)
    log.end_transaction(beating, 0, committed=False)
    if transactional:
        log.end_transaction(other, 0, committed=True)
    site.back_up("*")
    killed_as_it_is_refused(site, monkeypatch, at=2)
    assert site.restore(offsets="preserve").verified
    assert site.target.values(TOPIC) == site.source.values(TOPIC)


@pytest.mark.parametrize("records", [5, 30])
@pytest.mark.parametrize("offsets", ["translate", "preserve"])
def test_a_batch_of_a_stranger_is_seen_however_large(
    site: Site, monkeypatch: pytest.MonkeyPatch, offsets: str, records: int
) -> None:
    site.source.make_topic(TOPIC, retention_ms="-1")
    for n in range(BATCHES):
        site.source.write(TOPIC, [b"v%d" % n])
    site.back_up("*")
    batch = LogWriter.send_batch

    def dying(self: LogWriter, *given: Any) -> None:
        if self.at == WRITTEN:
            self.flush()
            raise KilledError
        batch(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(LogWriter, "send_batch", dying)
        with pytest.raises(KilledError):
            site.restore(offsets=offsets, verify=False)
    assert len(site.target.values(TOPIC)) == WRITTEN
    site.target.topics[TOPIC].partitions[0].put(bytes(make_batch(0, value=b"STRANGER", records=records)))
    with pytest.raises(TargetNotEmpty):
        site.restore(offsets=offsets, verify=False)
