from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets, offset_count, restrict_to_topics
from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.repository.layout import BackupLayout
from offsite.repository.snapshots.group_snapshot import (
    GoneGroup,
    GroupSnapshot,
    decode_groups,
    decode_snapshot,
    encode_groups,
    get_group_snapshot,
    put_group_snapshot,
)
from offsite.stores.open_store import open_store

LAYOUT = BackupLayout(backup="nightly")

NAMES = st.text(min_size=1, max_size=8)
ROWS = st.lists(
    st.builds(
        CommittedOffset,
        partition=st.integers(0, 2**31 - 1),
        offset=st.integers(-1, 2**63 - 1),
        leader_epoch=st.integers(-1, 2**31 - 1),
        metadata=st.text(max_size=5),
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda row: row.partition,
)


@st.composite
def tables(draw: st.DrawFn) -> dict[str, GroupOffsets]:
    names = draw(st.lists(NAMES, max_size=4, unique=True))
    return {name: draw(groups(name)) for name in sorted(names)}


@st.composite
def groups(draw: st.DrawFn, name: str) -> GroupOffsets:
    topics = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    return GroupOffsets(
        group=name,
        kind=draw(st.sampled_from(["", "classic", "consumer"])),
        state=draw(st.sampled_from(["Empty", "Stable"])),
        topics=tuple(TopicOffsets.of(topic, draw(ROWS), topic_id=f"id of {topic}") for topic in sorted(topics)),
    )


def one(group: str, topic: str = "orders", offset: int = 5) -> dict[str, GroupOffsets]:
    topics = (TopicOffsets.of(topic, [CommittedOffset(0, offset, 3, "m")], topic_id="id"),)
    return {group: GroupOffsets(group=group, kind="classic", state="Empty", topics=topics)}


@given(tables())
def test_what_is_encoded_is_decoded(table: dict[str, GroupOffsets]) -> None:
    data = encode_groups(table)
    assert decode_groups(data, key="k") == table
    assert encode_groups(dict(reversed(table.items()))) == data, "whatever the order they come in"


def test_a_snapshot_is_stored_once_under_the_number_of_its_commit(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    key = put_group_snapshot(store, LAYOUT, 7, one("billing"))
    assert key == put_group_snapshot(store, LAYOUT, 7, one("billing"))
    assert key.startswith("backups/nightly/groups/00000000000000000007-")
    assert get_group_snapshot(store, key) == one("billing")


def test_groups_that_are_gone_are_named_beside_the_rows() -> None:
    gone = (GoneGroup(group="old \u20ac", topic="orders", topic_id="id", since=7),)
    data = encode_groups(one("billing"), gone)
    assert decode_snapshot(data, key="k") == GroupSnapshot(groups=one("billing"), gone=gone)
    assert decode_groups(data, key="k") == one("billing"), "which earlier versions read"


def test_any_flipped_bit_is_damage(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    key = put_group_snapshot(store, LAYOUT, 7, one("billing"))
    whole = (tmp_path / key).read_bytes()
    for position in range(0, len(whole), 7):
        broken = bytearray(whole)
        broken[position] ^= 1
        (tmp_path / key).write_bytes(broken)
        with pytest.raises(DamagedObject, match="hash"):
            get_group_snapshot(store, key)
    (tmp_path / key).unlink()
    with pytest.raises(DamagedObject, match="missing"):
        get_group_snapshot(store, key)


def test_a_snapshot_that_is_none_is_damage_and_a_newer_one_says_so() -> None:
    import pyarrow as pa
    from pyarrow import parquet

    for data in (b"", b"PAR1", encode_groups(one("g"))[:-9]):
        with pytest.raises(DamagedObject):
            decode_groups(data, key="k")
    sink = pa.BufferOutputStream()
    about = {b"offsite.groups": b'{"format":3}'}
    parquet.write_table(pa.table({"group": ["g"]}).replace_schema_metadata(about), sink)
    with pytest.raises(FormatTooNew):
        decode_groups(sink.getvalue().to_pybytes(), key="k")


def test_only_offsets_on_the_topics_asked_for_are_kept() -> None:
    groups = one("b", "orders") | one("a", "orders") | one("c", "users")
    kept = restrict_to_topics(groups, {"orders": "id", "empty": "x"})
    assert list(kept) == ["a", "b"]
    assert kept["a"].topics[0].topic_id == "id"
    assert offset_count(kept) == 2


def test_offsets_on_another_topic_of_that_name_are_left_out() -> None:
    known = restrict_to_topics(one("a", "orders"), {"orders": ""})
    assert list(restrict_to_topics(known, {"orders": "id-new"})) == ["a"]  # nobody told which one they are on
    assert restrict_to_topics(one("a", "orders"), {"orders": "id-new"}) == {}


def test_columns_rise_by_partition_whatever_order_rows_come_in() -> None:
    topic = TopicOffsets.of("t", [CommittedOffset(2, 20), CommittedOffset(0, 5)])
    assert (topic.partitions, topic.by_partition()) == (array("i", [0, 2]), {0: 5, 2: 20})


def test_positions_of_share_groups_are_a_format_of_their_own_with_the_reset() -> None:
    """A reader that does not know them would commit them as offsets of a consumer group."""
    rows = [CommittedOffset(0, 40), CommittedOffset(1, -1)]
    topics = (TopicOffsets.of("jobs", rows, topic_id="id"),)
    workers = GroupOffsets(group="workers", kind="share", state="Empty", topics=topics, reset="earliest")
    stored = encode_groups({"workers": workers, **one("readers")})
    assert decode_groups(stored, key="k") == {"readers": one("readers")["readers"], "workers": workers}
    assert b'"format":2' in stored
    assert b'"format":1' in encode_groups(one("readers"))
