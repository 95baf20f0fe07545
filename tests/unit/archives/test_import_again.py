"""An import that goes on with an archive without an index: what was taken is read again, and compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from offsite.archives.formats import ReadOptions
from offsite.archives.import_run import ImportRequest, ImportResult, plan_import, run_import
from offsite.archives.inspection import open_source
from offsite.model.errors import UnfitArchive
from offsite.repository.commit import CommitChanges, RecordedHole
from tests.fake_cluster.site import Site


def lines(place: Path, first: int, end: int, *, name: int | None = None) -> None:
    folder = place / "topics/orders/partition=0"
    folder.mkdir(parents=True, exist_ok=True)
    fields: dict[str, Any] = {"topic": "orders", "partition": 0, "timestamp": 5, "key": None, "value": "v"}
    text = "".join(json.dumps({**fields, "offset": offset}) + "\n" for offset in range(first, end))
    (folder / f"orders+0-{first if name is None else name:020d}.jsonl").write_text(text)


def bring_in(site: Site, place: Path, *, skip_damaged: bool = False) -> ImportResult:
    source = open_source("jsonl", str(place), ReadOptions())
    wanted = ImportRequest(backup="imported", format="jsonl", place=source.place, skip_damaged=skip_damaged)
    plan = plan_import(site.repository, source.reader, wanted)
    return run_import(plan, repository=site.repository, reader=source.reader, runner=site.runner)


@pytest.mark.parametrize(("first", "end", "where"), [(0, 5, "offset 0"), (20, 25, "offsets 10 to 34"), (35, 36, "")])
def test_records_that_come_later_among_those_that_were_taken_are_refused(
    site: Site, tmp_path: Path, first: int, end: int, where: str
) -> None:
    lines(tmp_path, 10, 20)
    lines(tmp_path, 30, 35)
    assert bring_in(site, tmp_path).records == 15
    lines(tmp_path, first, end)
    lines(tmp_path, 40, 50)
    if not where:
        assert bring_in(site, tmp_path).records == 11
        return
    for skip in (False, True):
        with pytest.raises(UnfitArchive, match=f"orders/0: at {where} the archive has records"):
            bring_in(site, tmp_path, skip_damaged=skip)
    assert site.repository.backup("imported").state().seq == 1


def test_an_archive_that_grew_or_lost_what_was_taken_goes_on(site: Site, tmp_path: Path) -> None:
    lines(tmp_path, 0, 10)
    bring_in(site, tmp_path)
    lines(tmp_path, 10, 20)
    assert (bring_in(site, tmp_path).records, bring_in(site, tmp_path).records) == (10, 0)
    lines(tmp_path, 5, 10, name=0)
    lines(tmp_path, 20, 30)
    assert bring_in(site, tmp_path).records == 10


def test_what_damage_took_says_nothing_of_the_archive(site: Site, tmp_path: Path) -> None:
    lines(tmp_path, 0, 10)
    lines(tmp_path, 12, 20)
    (tmp_path / f"topics/orders/partition=0/orders+0-{10:020d}.jsonl").write_text("{")
    assert len(bring_in(site, tmp_path, skip_damaged=True).holes) == 1
    lines(tmp_path, 10, 12)
    lines(tmp_path, 20, 21)
    assert bring_in(site, tmp_path).records == 1


def test_what_was_let_go_says_nothing_of_the_archive(site: Site, tmp_path: Path) -> None:
    lines(tmp_path, 0, 10)
    bring_in(site, tmp_path)
    lines(tmp_path, 10, 20)
    bring_in(site, tmp_path)
    backup = site.repository.backup("imported")
    state = backup.state()
    (known,) = state.positions
    oldest = next(iter(state.all_segments()))
    hole = RecordedHole(partition_id=known, start=0, end=10, reason="removed")
    backup.commit(CommitChanges(removed=(oldest.key,), holes=(hole,)), base=state, writer="somebody")
    lines(tmp_path, 20, 30)
    assert bring_in(site, tmp_path).records == 10
