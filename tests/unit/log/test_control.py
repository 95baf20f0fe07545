"""Transaction markers are read as brokers write them."""

from __future__ import annotations

import struct

import pytest

from offsite.log.batch import scan
from offsite.log.markers import ControlMarker, parse_control_marker
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.errors import DamagedBatch


def control_batch(key: bytes | None, value: bytes | None) -> bytearray:
    return encode([Record(5, 0, 0, key, value)], producer_id=1, is_transactional=True)


def read(batch: bytearray) -> ControlMarker | None:
    return parse_control_marker(batch, scan(batch)[0])


def test_commit_and_abort_are_told_apart() -> None:
    value = struct.pack(">hi", 0, 42)
    commit = control_batch(struct.pack(">hh", 0, 1), value)
    abort = control_batch(struct.pack(">hh", 0, 0), value)
    assert read(commit) == ControlMarker(kind="commit", coordinator_epoch=42)
    assert read(abort) == ControlMarker(kind="abort", coordinator_epoch=42)


def test_fields_that_a_newer_version_appends_are_ignored() -> None:
    newer = control_batch(struct.pack(">hhi", 1, 1, 7), struct.pack(">hiq", 1, 42, 7))
    assert read(newer) == ControlMarker(kind="commit", coordinator_epoch=42)


def test_other_control_records_are_no_marker() -> None:
    assert read(control_batch(struct.pack(">hh", 0, 2), b"")) is None


@pytest.mark.parametrize(("key", "value"), [(None, None), (b"\0\0\0", b""), (struct.pack(">hh", 0, 1), None)])
def test_a_marker_cut_short_is_damage(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DamagedBatch, match="offset 5"):
        read(control_batch(key, value))
