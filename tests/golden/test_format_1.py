from __future__ import annotations

from pathlib import Path

import pytest

from offsite.repository.backup import Backup
from offsite.repository.fold import fold
from offsite.repository.repository import Repository
from offsite.repository.segments.reader import SegmentReader
from offsite.repository.segments.segment import Compression
from offsite.repository.snapshots.group_snapshot import get_group_snapshot
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder
from tests.backups import content
from tests.golden.make_format_1 import (
    CHECKPOINT,
    FIRST,
    FIRST_LOG,
    GROUPS,
    HOLE,
    SECOND,
    SECOND_LOG,
    SHAPE,
    TRANSACTION,
)


@pytest.fixture(scope="module", params=["format-1", "format-1-digests"])
def backup(request: pytest.FixtureRequest) -> Backup:
    repository = Repository.open(open_folder(Path(__file__).parent / request.param))
    assert repository.backups() == ("nightly",)
    return repository.backup("nightly")


def test_the_golden_repository_opens(backup: Backup) -> None:
    state = backup.state()
    assert (tuple(state.topics.values()), state.holes) == ((SHAPE,), (HOLE,))
    assert state.checkpoints == (CHECKPOINT,)
    assert state.groups is not None
    assert get_group_snapshot(backup.store, state.groups) == GROUPS
    assert {known: position.end for known, position in state.positions.items()} == {FIRST: 131, SECOND: 600}
    assert backup.descriptor.selection.exclude == ("orders-dlq",)


def test_its_catalog_says_what_its_commits_say(backup: Backup) -> None:
    assert backup.catalog.read(1) == fold(BackupState(backup="nightly"), backup.log.read(after=0, upto=1))


def test_its_segments_hold_the_batches_they_were_given(backup: Backup) -> None:
    state = backup.state()
    assert content(backup.store, state) == {FIRST: FIRST_LOG + TRANSACTION, SECOND: SECOND_LOG}
    assert [segment.compression for segment in state.segments[FIRST]] == [Compression.ZSTD, Compression.NONE]
    markers = SegmentReader(store=backup.store, segment=state.segments[FIRST][1]).index().markers
    assert [(marker.offset, marker.committed) for marker in markers] == [(130, True)]
