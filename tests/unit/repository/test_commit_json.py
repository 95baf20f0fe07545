from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.batch import LastBatch
from offsite.log.range import PartitionId
from offsite.model.errors import DamagedCommit, FormatTooNew
from offsite.model.untrusted.bounded_json import with_digest
from offsite.repository.commit import (
    Checkpoint,
    Commit,
    CommitChanges,
    CompactedRange,
    CutBack,
    ExpiredRange,
    LateRead,
    Pin,
    Position,
    RecordedHole,
    SnapshotRef,
    TopicShape,
)
from offsite.repository.commit_log import commit_hash, decode_commit, encode_commit
from offsite.repository.json_form import NEWEST_FORMAT, encode_canonical, encode_object
from offsite.repository.layout import BackupLayout, index_key
from offsite.repository.segments.part import SegmentPart
from offsite.repository.segments.segment import Compression, Segment

KEY = "backups/b/commits/1.json"
LAYOUT = BackupLayout(backup="b")
PARTITION = PartitionId(topic="t", topic_id="", partition=0)
PLACE = {"topic": "t", "topic_id": "", "partition": 0}
SHAPE = {"topic": "t", "topic_id": "", "partitions": 1, "replication_factor": 1, "configs": {}}


def undigested(commit: Commit) -> dict[str, Any]:
    """The fields of a stored commit, to be stored again."""
    fields: dict[str, Any] = json.loads(encode_commit(commit))
    fields.pop("digest")
    return fields


offsets = st.integers(0, 2**62)
clock_times = st.integers(0, 253_402_300_799_999)
counts = st.integers(0, 2**40)
times = st.integers(-1, 2**62)
topics = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,20}", fullmatch=True)
texts = st.text(max_size=20)
attempts = st.from_regex(r"[0-9a-f]{8}", fullmatch=True)
partitions = st.builds(PartitionId, topic=topics, topic_id=texts, partition=st.integers(0, 10**6 - 1))


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    topic, partition, start = draw(topics), draw(st.integers(0, 10**6 - 1)), draw(offsets)
    compression = draw(st.sampled_from(Compression))
    key = LAYOUT.segment_key(
        topic=topic,
        partition=partition,
        start=start,
        attempt=draw(attempts),
        compressed=compression is Compression.ZSTD,
    )
    indexed = draw(st.booleans())
    made: dict[str, Any] = {name: draw(counts) for name in Segment.__dataclass_fields__}
    largest_batch_bytes = draw(st.integers(1, 2**31))
    made |= {
        "largest_batch_bytes": largest_batch_bytes,
        "raw_bytes": largest_batch_bytes + draw(counts),
        "stored_bytes": 1 + draw(counts),
        "key": key,
        "topic": topic,
        "topic_id": draw(texts),
        "partition": partition,
        "start": start,
        "end": start + 100,
        "first_offset": start + draw(st.integers(0, 99)),
        "last_offset": start + 100 + draw(counts),
        "compression": compression,
        "base_timestamp_min_ms": draw(times),
        "timestamp_max_ms": draw(times),
        "timestamp_types": tuple(draw(st.sets(st.integers(0, 1)))),
        "leader_epochs": tuple(draw(st.lists(st.integers(-1, 2**31), max_size=4))),
        "has_transactions": draw(st.booleans()),
        "hash": draw(texts),
        "index_key": index_key(key) if indexed else None,
        "index_hash": draw(texts) if indexed else None,
        "pack": LAYOUT.pack_key(draw(counts), draw(attempts)) if draw(st.booleans()) else None,
        "whole": None,
    }
    if made["pack"] is None:
        made |= {"position": 0, "index_position": 0, "index_bytes": 0}
    return Segment(**made)


@st.composite
def parts(draw: st.DrawFn) -> SegmentPart:
    segment = draw(segments())
    return SegmentPart(**{field.name: getattr(segment, field.name) for field in fields(SegmentPart)})


spans = st.tuples(offsets, st.integers(1, 2**30)).map(lambda each: (each[0], each[0] + each[1]))
commits = st.builds(
    Commit,
    backup=st.just("b"),
    catalog=st.none() | texts,
    seq=offsets,
    previous=texts,
    writer=texts,
    committed_at_ms=clock_times,
    changes=st.builds(
        CommitChanges,
        segments=st.lists(segments(), max_size=3).map(tuple),
        removed=st.lists(texts, max_size=3).map(tuple),
        holes=st.lists(
            st.builds(
                lambda span, **rest: RecordedHole(start=span[0], end=span[1], **rest),
                span=spans,
                partition_id=partitions,
                reason=texts,
            ),
            max_size=2,
        ).map(tuple),
        cut_back=st.lists(
            st.builds(
                lambda span, epochs, **rest: CutBack(
                    at=span[0], end=span[1], epoch=epochs[0], leader_epoch=sum(epochs), **rest
                ),
                span=spans,
                epochs=st.tuples(st.integers(0, 2**30), st.integers(1, 2**30)),
                partition_id=partitions,
                below=st.none() | parts(),
                above=st.none() | parts(),
            ),
            max_size=2,
        ).map(tuple),
        positions=st.lists(
            st.builds(
                Position,
                partition_id=partitions,
                log_start=offsets,
                end=offsets,
                leader_epoch=st.integers(-1, 2**31 - 1),
                last_batch=st.none() | st.builds(LastBatch, last_offset=offsets, crc=st.integers(0, 2**32 - 1)),
            ),
            max_size=3,
        ).map(tuple),
        topics=st.lists(
            st.builds(
                TopicShape,
                topic=topics,
                topic_id=texts,
                partitions=st.integers(0, 10**6 - 1),
                replication_factor=counts,
                configs=st.dictionaries(texts, texts, max_size=3).map(lambda found: tuple(sorted(found.items()))),
                holds_schemas=st.booleans(),
                was_compacted=st.booleans(),
                configs_unread=st.booleans(),
                late=st.none()
                | st.builds(LateRead, since_ms=clock_times, until_ms=clock_times, partitions=counts, times=counts),
                read_ms=clock_times,
            ),
            max_size=2,
        ).map(tuple),
        forgotten=st.lists(st.tuples(offsets, offsets), max_size=2).map(tuple),
        expired=st.lists(
            spans.flatmap(
                lambda span: st.builds(
                    ExpiredRange, partition_id=partitions, start=st.just(span[0]), end=st.just(span[1]), branch=counts
                )
            ),
            max_size=2,
        ).map(tuple),
        compacted=st.lists(
            spans.flatmap(
                lambda span: st.builds(
                    CompactedRange, partition_id=partitions, start=st.just(span[0]), end=st.just(span[1])
                )
            ),
            max_size=2,
        ).map(tuple),
        pinned=st.lists(st.builds(Pin, seq=offsets, reason=texts, until_ms=offsets), max_size=2).map(tuple),
        unpinned=st.lists(offsets, max_size=2).map(tuple),
        read_ago_ms=counts,
        groups=st.none() | st.builds(LAYOUT.groups_key, offsets, attempts),
        metadata=st.none() | st.builds(SnapshotRef, key=st.builds(LAYOUT.metadata_key, offsets, attempts), hash=texts),
        cut=st.none() | st.builds(SnapshotRef, key=st.builds(LAYOUT.cuts_key, offsets, attempts), hash=texts),
        checkpoint=st.none()
        | st.builds(
            Checkpoint,
            id=offsets,
            taken_at_ms=offsets,
            ends=st.lists(st.tuples(partitions, offsets), max_size=2).map(tuple),
            classes=st.dictionaries(texts, texts, max_size=2).map(lambda found: tuple(sorted(found.items()))),
        ),
    ),
)


@given(commits)
def test_a_commit_reads_back_as_written_and_always_as_the_same_bytes(commit: Commit) -> None:
    data = encode_commit(commit)
    assert decode_commit(data, key=KEY) == commit
    assert encode_commit(decode_commit(data, key=KEY)) == data
    assert commit_hash(data) == commit_hash(bytes(data))


@given(commits)
def test_keys_of_a_later_minor_version_are_ignored(commit: Commit) -> None:
    found = undigested(commit) | {"shiny": {"new": 1}}
    assert decode_commit(encode_object(found), key=KEY) == commit


@given(commits)
def test_a_commit_of_an_earlier_version_has_no_digest_and_says_nothing_of_catalogs(commit: Commit) -> None:
    changes = replace(
        commit.changes, cut_back=(), cut=None, expired=(), compacted=(), pinned=(), unpinned=(), read_ago_ms=0
    )
    found = undigested(replace(commit, catalog=None, changes=changes))
    commit = replace(commit, changes=changes)
    assert decode_commit(encode_canonical(found), key=KEY) == replace(commit, catalog=None)


def test_no_flipped_bit_in_a_commit_goes_unseen() -> None:
    data = encode_commit(Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1))
    for index in range(len(data)):
        for bit in range(8):
            with pytest.raises(DamagedCommit):
                decode_commit(bytes([*data[:index], data[index] ^ 1 << bit, *data[index + 1 :]]), key=KEY)


def test_a_later_major_version_is_refused() -> None:
    commit = Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1)
    with pytest.raises(FormatTooNew):
        decode_commit(encode_object(undigested(commit) | {"format": NEWEST_FORMAT + 1}), key=KEY)


@given(commits, st.data())
def test_a_field_of_another_type_is_named(commit: Commit, data: st.DataObject) -> None:
    found = undigested(commit)
    name = data.draw(st.sampled_from(sorted(found)))
    found[name] = {"records": "1"}.get(name, [None])
    with pytest.raises(DamagedCommit) as caught:
        decode_commit(encode_object(found), key=KEY)
    assert name in caught.value.message
    assert KEY in caught.value.message


@given(segments(), st.sampled_from(["topic", "partition", "start", "end", "first_offset", "compression", "records"]))
def test_a_segment_that_contradicts_itself_is_damage(segment: Segment, name: str) -> None:
    commit = Commit(
        backup="b", seq=1, previous="", writer="w", committed_at_ms=1, changes=CommitChanges(segments=(segment,))
    )
    found = undigested(commit)
    broken = {"topic": segment.topic + "x", "compression": "rar", "end": segment.start, "first_offset": -1}
    found["segments"][0][name] = broken.get(name, getattr(segment, name) if name in broken else 10**15)
    with pytest.raises(DamagedCommit):
        decode_commit(encode_object(found), key=KEY)


PART = {field.name: 1 for field in fields(SegmentPart)} | {
    "key": "k",
    "start": 0,
    "timestamp_types": [],
    "leader_epochs": [],
    "has_transactions": False,
}
CUT = {**PLACE, "at": 1, "end": 2, "epoch": 0, "leader_epoch": 1}
HOSTILE: dict[str, tuple[str, Any]] = {
    "a number beyond 64 bits": ("seq", 10**30),
    "a partition beyond Kafka": ("positions", [{**PLACE, "partition": 10**9, "log_start": 0, "end": 1}]),
    "an offset below 0": ("positions", [{**PLACE, "log_start": -1, "end": 1}]),
    "fewer than no partitions": ("topics", [{**SHAPE, "partitions": -5}]),
    "a thousand million partitions": ("topics", [{**SHAPE, "partitions": 10**9}]),
    "a topic with a cursor in its name": ("topics", [{**SHAPE, "topic": "a\x1b[2Jb"}]),
    "half a surrogate pair": ("writer", "\ud800"),
    "half a surrogate pair as a name": ("topics", [{**SHAPE, "configs": {"\ud800": "a"}}]),
    "a time that no clock shows": ("committed_at_ms", 10**18),
    "a hole that ends before it begins": ("holes", [{**PLACE, "start": 2, "end": 1, "reason": "retention"}]),
    "a log that was cut back to behind its end": ("cut_back", [{**CUT, "at": 3}]),
    "an epoch of more than 32 bits": ("positions", [{**PLACE, "log_start": 0, "end": 1, "leader_epoch": 1 << 31}]),
    "an epoch before the first": ("positions", [{**PLACE, "log_start": 0, "end": 1, "leader_epoch": -2}]),
    "a log that was cut back by a leader of more than 32 bits": ("cut_back", [{**CUT, "leader_epoch": 1 << 31}]),
    "a log that was cut back by no later leader": ("cut_back", [{**CUT, "leader_epoch": 0}]),
    "a part of a segment that ends before it begins": ("cut_back", [{**CUT, "below": {**PART, "end": 0}}]),
    "a snapshot elsewhere": ("groups", "../../../etc/passwd"),
    "a snapshot of another backup": ("groups", "backups/other/groups/00000000000000000001-0123abcd.parquet"),
    "settings elsewhere": ("metadata", {"key": "/etc/passwd", "hash": "x"}),
    "a cut elsewhere": ("cut", {"key": "backups/other/cuts/00000000000000000001-00000000.json", "hash": "x"}),
    "a backup with another name": ("backup", "../b"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_stranger_wrote_is_damage_that_is_named(case: str) -> None:
    name, value = HOSTILE[case]
    commit = Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1)
    with pytest.raises(DamagedCommit):
        decode_commit(encode_object(undigested(commit) | {name: value}), key=KEY)


@pytest.mark.parametrize("number", ["9" * 5000, "1e999", "NaN", "-Infinity"])
def test_what_is_no_number_of_kafka_is_damage(number: str) -> None:
    data = encode_commit(Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1))
    with pytest.raises(DamagedCommit):
        decode_commit(with_digest(data[:-85].replace(b'"seq":1', f'"seq":{number}'.encode()) + b"}\n"), key=KEY)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"format": "1"}', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_commit_is_damage(data: bytes) -> None:
    with pytest.raises(DamagedCommit):
        decode_commit(data, key=KEY)


def test_equal_commits_of_two_writers_differ() -> None:
    commit = Commit(backup="b", seq=1, previous="", writer="one", committed_at_ms=1)
    assert encode_commit(commit) != encode_commit(replace(commit, writer="two"))


def commit_of(segment: Segment) -> Commit:
    return Commit(
        backup="b", seq=1, previous="", writer="w", committed_at_ms=1, changes=CommitChanges(segments=(segment,))
    )


@given(segments())
def test_only_a_commit_with_a_packed_segment_needs_the_newer_format(segment: Segment) -> None:
    assert undigested(commit_of(segment))["format"] == (1 if segment.pack is None else 2)


ELSEWHERE = ("offsite.json", f"backups/other/packs/{0:020}-00000000.pack", "backups/b/packs/../packs/x.pack", "")


@given(segments(), st.sampled_from(ELSEWHERE))
def test_a_pack_of_another_place_is_damage(segment: Segment, pack: str) -> None:
    fields = undigested(commit_of(segment))
    fields["segments"][0] |= {"pack": pack, "position": 0, "index_position": 0, "index_bytes": 0}
    with pytest.raises(DamagedCommit, match="pack"):
        decode_commit(encode_object(fields), key=KEY)


def test_a_commit_of_a_log_that_was_cut_back_is_refused_by_versions_that_would_mix_its_histories() -> None:
    known = PartitionId(topic="t", topic_id="i", partition=0)
    cut = CutBack(partition_id=known, at=5, end=9, epoch=0, leader_epoch=1)
    commit = Commit(
        backup="b", seq=1, previous="", writer="w", committed_at_ms=1, changes=CommitChanges(cut_back=(cut,))
    )
    assert undigested(commit)["format"] == 2


@pytest.mark.parametrize(
    "changes",
    [
        CommitChanges(expired=(ExpiredRange(partition_id=PARTITION, start=0, end=1),)),
        CommitChanges(compacted=(CompactedRange(partition_id=PARTITION, start=0, end=1),)),
        CommitChanges(pinned=(Pin(seq=1, reason="r"),)),
        CommitChanges(unpinned=(1,)),
    ],
)
def test_a_commit_that_takes_something_away_is_refused_by_versions_that_know_nothing_of_it(
    changes: CommitChanges,
) -> None:
    commit = Commit(backup="b", seq=1, previous="", writer="w", committed_at_ms=1, changes=changes)
    assert undigested(commit)["format"] == 3
