"""What a stranger wrote into a catalog or a commit, with every hash made anew, is named damage and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from offsite.model.bounds import MAX_OFFSET
from offsite.model.errors import DamagedCommit, DamagedObject
from offsite.model.untrusted.json_object import JsonObject
from offsite.points.incarnations import IncarnationCriteria, find_incarnations
from offsite.repository.catalogs.seal import CatalogSeal, HistoryRef, decode_seal, encode_seal
from offsite.repository.commit import damaged_commit
from offsite.repository.commit_history import LINES_PER_CHUNK, PartRef
from offsite.repository.layout import BackupLayout, parse_commit_key, parse_pack_key
from offsite.repository.segments.part import SegmentPart, read_part, write_part
from tests.backups import new_backup, run_once
from tests.fake_cluster.site import Site, open_site
from tests.memory_store import MemoryStore

LAYOUT = BackupLayout(backup="nightly")
PART = SegmentPart(
    key="backups/nightly/topics/orders/partition=0/orders+0-00000000000000000000-422df86d.log",
    start=0,
    end=3,
    first_offset=0,
    last_offset=2,
    records=3,
    control_batches=0,
    batches=3,
    largest_batch_bytes=70,
    raw_bytes=210,
    base_timestamp_min_ms=0,
    timestamp_max_ms=0,
    timestamp_types=(0,),
    leader_epochs=(0,),
    has_transactions=False,
)


@pytest.mark.parametrize(
    "figures",
    [
        {"first_offset": 3, "last_offset": 3},
        {"first_offset": 1 << 62, "last_offset": 1 << 62},
        {"first_offset": 2, "last_offset": 1},
        {"start": 3, "end": 3, "last_offset": 4},
        {"start": 2, "last_offset": 1},
    ],
)
def test_figures_of_a_part_that_contradict_each_other_are_damage(figures: dict[str, Any]) -> None:
    told = {**write_part(PART), **figures}
    with pytest.raises(DamagedCommit):
        read_part(JsonObject(fields=told, damaged=damaged_commit))


@pytest.mark.parametrize(
    ("rows", "first", "last"),
    [(LINES_PER_CHUNK + 1, 1, 1 << 62), (1 << 62, 1, 1 << 62), (3, 1, 2), (1, 2, 1)],
)
def test_a_chunk_of_the_history_with_more_lines_than_it_can_have_is_damage(rows: int, first: int, last: int) -> None:
    ref = PartRef(key=LAYOUT.part_key(7, "90e5e29b"), hash="blake3:x", rows=rows)
    seal = CatalogSeal(
        partitions="", tail="", segments=(), history=(HistoryRef(ref=ref, first=(first, 0), last=(last, 0)),)
    )
    with pytest.raises(DamagedObject):
        decode_seal(encode_seal(seal), key=LAYOUT.seal_key(7), layout=LAYOUT)


def test_an_incarnation_that_no_commit_saw_is_damage(tmp_path: Any) -> None:
    with open_site(tmp_path) as site:
        state = _backed_up(site)
        shape = replace(state.topics[next(iter(state.topics))], topic_id="strange")
        strange = replace(state, topics={**state.topics, shape.incarnation: shape})
        with pytest.raises(DamagedCommit, match="saw topic orders"):
            find_incarnations(site.backup, strange, ["orders"], IncarnationCriteria())


def _backed_up(site: Site) -> Any:
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    site.back_up("*")
    return site.backup.state()


@pytest.mark.parametrize("kind", ["commits", "catalog"])
def test_a_number_above_all_numbers_of_commits_names_nothing(kind: str) -> None:
    """Whoever may create objects could close a backup without a catalog to everybody, with "a bug in offsite"."""
    store = MemoryStore()
    backup = new_backup(store)
    run_once(backup)
    store.put_if_absent(f"{backup.layout.prefix}{kind}/{'9' * 20}.json", b"{}")
    for _ in range(2):
        assert [result for _, result in backup.log.try_read(after=1)] == []
        assert backup.sound_state().unreadable == ""
        run_once(backup)
        store.objects.pop(backup.layout.commit_key(2))
    assert parse_pack_key(f"backups/b/packs/{'9' * 20}-0123abcd.pack") is None
    assert parse_commit_key(backup.layout.commit_key(MAX_OFFSET - 1)) == MAX_OFFSET - 1
