from __future__ import annotations

import pytest

from offsite.log.batch import scan, verify_crc
from offsite.log.records.batch_records import FILLER_KEY, FILLER_MAX_RECORDS, decode, filler_batch, is_filler
from offsite.log.records.record import Record
from offsite.model.errors import Bug


@pytest.mark.parametrize("count", [1, 63, 64, 8192, 20_000])
def test_filler_is_a_whole_batch_of_records_without_value_and_time(count: int) -> None:
    batch = filler_batch(count)
    (header,) = scan(batch)
    verify_crc(batch, [header])
    records = decode(batch, header)
    assert [record.offset for record in records] == list(range(count))
    assert {(record.timestamp_ms, record.value, record.headers) for record in records} == {(-1, None, ())}
    assert not any(map(is_filler, records))


def test_each_filler_batch_may_be_changed() -> None:
    first, second = filler_batch(5), filler_batch(5)
    first[0] = 1
    assert second[0] == 0


@pytest.mark.slow
def test_the_largest_filler_is_smaller_than_what_brokers_take_by_default() -> None:
    assert len(filler_batch(FILLER_MAX_RECORDS)) < 256 * 1024
    with pytest.raises(Bug):
        filler_batch(FILLER_MAX_RECORDS + 1)


def test_what_older_releases_filled_gaps_with_is_known() -> None:
    assert is_filler(Record(0, -1, 0, FILLER_KEY, None))


def test_a_tombstone_of_an_application_is_no_filler() -> None:
    assert not is_filler(Record(0, -1, 0, b"key", None))
