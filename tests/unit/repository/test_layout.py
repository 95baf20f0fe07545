from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.errors import BadName, Bug
from offsite.repository.layout import (
    BackupLayout,
    index_key,
    parse_catalog_key,
    parse_commit_key,
    parse_segment_key,
    parse_snapshot_key,
)
from offsite.stores.store import check_key

TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in {".", ".."})
LAYOUT = BackupLayout(backup="b")


@given(
    topic=TOPICS,
    partition=st.integers(0, 2**31 - 1),
    start=st.integers(0, 2**63 - 1),
    attempt=st.from_regex(r"[0-9a-f]{8}", fullmatch=True),
    compressed=st.booleans(),
)
def test_a_segment_key_says_what_it_was_made_of(
    topic: str, partition: int, start: int, attempt: str, compressed: bool
) -> None:
    key = LAYOUT.segment_key(topic=topic, partition=partition, start=start, attempt=attempt, compressed=compressed)
    assert check_key(key) == key
    assert max(len(part) for part in key.split("/")) <= 255
    name = parse_segment_key(key)
    assert name is not None
    assert (name.backup, name.topic, name.partition, name.start, name.attempt) == (
        "b",
        topic,
        partition,
        start,
        attempt,
    )
    assert name.suffix == ("log.zst" if compressed else "log")
    sidecar = parse_segment_key(index_key(key))
    assert sidecar is not None
    assert (sidecar.topic, sidecar.start, sidecar.attempt, sidecar.suffix) == (topic, start, attempt, "idx")


def test_keys_are_those_of_the_format_page() -> None:
    assert LAYOUT.descriptor_key == "backups/b/backup.json"
    assert LAYOUT.commit_key(7) == "backups/b/commits/00000000000000000007.json"
    assert LAYOUT.groups_key(7, "0123abcd") == "backups/b/groups/00000000000000000007-0123abcd.parquet"
    assert (
        LAYOUT.verify_key("deep", "20260101-000000-0123abcd") == "backups/b/verifies/deep/20260101-000000-0123abcd.json"
    )
    assert LAYOUT.metadata_key(7, "0123abcd") == "backups/b/metadata/00000000000000000007-0123abcd.json"
    assert (
        LAYOUT.segment_key(topic="t", partition=3, start=99, attempt="0123abcd", compressed=True)
        == "backups/b/topics/t/partition=3/t+3-00000000000000000099-0123abcd.log.zst"
    )


def test_keys_sort_as_their_numbers() -> None:
    numbers = [0, 1, 9, 10, 99, 10**6, 10**18]
    assert sorted(map(LAYOUT.commit_key, numbers)) == list(map(LAYOUT.commit_key, numbers))
    assert [parse_commit_key(LAYOUT.commit_key(n)) for n in numbers] == numbers
    assert [parse_catalog_key(LAYOUT.seal_key(n)) for n in numbers] == numbers
    assert parse_snapshot_key(LAYOUT.groups_key(7, "0123abcd")) == 7
    assert parse_snapshot_key(LAYOUT.metadata_key(7, "0123abcd")) == 7
    assert parse_snapshot_key(LAYOUT.cuts_key(7, "0123abcd")) == 7


@pytest.mark.parametrize("key", ["", "backups/b/commits/1.json", "backups/b/commits/x", "backups/b/catalog/hint.json"])
def test_other_keys_are_nothing_of_ours(key: str) -> None:
    assert (parse_segment_key(key), parse_commit_key(key), parse_catalog_key(key), parse_snapshot_key(key)) == (
        None,
    ) * 4


def test_names_that_could_leave_their_place_are_refused() -> None:
    with pytest.raises(BadName):
        BackupLayout(backup="../x")
    with pytest.raises(BadName):
        LAYOUT.segment_key(topic="..", partition=0, start=0, attempt="0123abcd", compressed=False)
    with pytest.raises(Bug):
        LAYOUT.segment_key(topic="t", partition=0, start=0, attempt="../../xx", compressed=False)
    with pytest.raises(BadName):
        LAYOUT.restores_prefix("..")
