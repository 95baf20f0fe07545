"""`offsite generations` as people and scripts see it, without Spark and without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.cli.app import app
from offsite.generations.decision import AppendEntry, CompletedEffect, CopyGeneration, ReadTopic, Rest
from offsite.generations.status import line_of
from offsite.model.errors import BackupNotFound, GenerationRefused
from offsite.repository.generation_sets.entry import Founding, GenerationEntry, GenerationEntryKind, Instance
from offsite.repository.generation_sets.generation_set import GenerationSet
from offsite.repository.generation_sets.ledger import KeptGeneration, SetLayout, put_kept, set_ledger
from offsite.repository.repository import Repository
from offsite.repository.snapshots.audit_record import Deletion, note_deletions
from offsite.stores.posix_store import open_folder

STEPS = (
    (GenerationEntryKind.FOUNDED, Instance.A, 0),
    (GenerationEntryKind.JOINED, Instance.A, 0),
    (GenerationEntryKind.JOINED, Instance.B, 0),
    (GenerationEntryKind.BEGUN, Instance.A, 1),
    (GenerationEntryKind.COMPLETED, Instance.A, 1),
    (GenerationEntryKind.ASKED, Instance.A, 1),
    (GenerationEntryKind.BEGUN, Instance.B, 2),
    (GenerationEntryKind.SWITCHED, Instance.B, 2),
)


@pytest.fixture
def place(tmp_path: Path) -> str:
    store = open_folder(tmp_path / "repository")
    Repository.init(store)
    ledger, state = set_ledger(store, "pair"), GenerationSet(name="pair")
    founding = Founding(cluster_id="c", include=("t",), exclude=(), internal=False, target="backup", place="")
    for kind, instance, generation in STEPS:
        entry = GenerationEntry(
            seq=state.seq + 1,
            previous=state.head,
            kind=kind,
            instance=instance,
            word=instance,
            at_ms=1_700_000_000_000 + state.seq,
            generation=generation,
            partitions=1,
            by=f"process of {instance}",
            founding=founding if kind is GenerationEntryKind.FOUNDED else None,
        )
        found = ledger.append(entry, to=state)
        assert found is not None
        state = found
    return str(tmp_path / "repository")


def test_the_status_for_people_names_what_to_restore_from(place: str) -> None:
    shown = CliRunner().invoke(app, ["generations", "status", "--repo", place]).stdout
    assert "active, complete" in shown
    assert "retired" in shown
    assert "next: offsite restore plan --backup pair.gen-2" in shown
    assert "instance b: last run by process of b" in shown


def test_the_status_for_scripts(place: str) -> None:
    (found,) = json.loads(CliRunner().invoke(app, ["generations", "status", "--repo", place, "-o", "json"]).stdout)
    assert (found["restore_from"], found["is_archive"]) == ("pair.gen-2", False)
    assert [(each["number"], each["phase"]) for each in found["generations"]] == [(1, "retired"), (2, "complete")]


def test_the_status_shows_what_was_removed_and_takes_no_forgery_for_it(place: str) -> None:
    store, layout = open_folder(Path(place)), SetLayout(name="pair")
    lines = [
        Deletion(kind="generation", what=f"pair.gen-{number}", rule=f"why\x1b[31m{number}", bytes=2048)
        for number in range(12)
    ]
    note_deletions(store, layout, lines, by="generations", commit=7)
    store.put_if_absent(layout.audit_key(8, "0" * 8), b'{"format":1}\n')
    shown = CliRunner().invoke(app, ["generations", "status", "--repo", place]).stdout
    assert "pair.gen-11 (2.0 KiB): why" in shown
    assert "cannot be read" in shown
    assert "pair.gen-1 (" not in shown, "the last ten"
    assert "\x1b" not in shown
    (found,) = json.loads(CliRunner().invoke(app, ["generations", "status", "--repo", place, "-o", "json"]).stdout)
    assert [each["generation"] for each in found["removals"][:-1]] == [f"pair.gen-{number}" for number in range(3, 12)]
    assert all(each["who"] and each["at_ms"] for each in found["removals"][:-1])
    assert found["removals"][-1]["problem"]


def test_why_a_generation_stays_is_shown_with_what_to_do(place: str) -> None:
    store, layout = open_folder(Path(place)), SetLayout(name="pair")
    put_kept(store, layout, KeptGeneration(generation=1, successor=2, why="generation 2 lacks t/0: 7 keys"))
    shown = " ".join(CliRunner().invoke(app, ["generations", "status", "--repo", place]).stdout.split())
    assert "generation 1 is kept: generation 2 lacks t/0: 7 keys" in shown
    assert "offsite generations release --name pair --generation 1" in shown
    store.put_overwrite(layout.kept_key, b"garbage")
    assert "stays" not in CliRunner().invoke(app, ["generations", "status", "--repo", place]).stdout


def test_a_repository_without_generations(tmp_path: Path) -> None:
    Repository.init(open_folder(tmp_path / "empty"))
    done = CliRunner().invoke(app, ["generations", "status", "--repo", str(tmp_path / "empty")])
    assert "no generations" in done.stdout
    done = CliRunner().invoke(app, ["generations", "status", "--repo", str(tmp_path / "empty"), "--name", "x"])
    assert isinstance(done.exception, BackupNotFound)


def test_what_another_one_replaced_is_released(place: str) -> None:
    arguments = ["generations", "release", "--repo", place, "--name", "pair", "--yes", "--generation"]
    assert isinstance(CliRunner().invoke(app, [*arguments, "2"]).exception, GenerationRefused)
    shown = CliRunner().invoke(app, [*arguments, "1"])
    assert shown.exit_code == 0
    assert "retired, released" in shown.stdout
    assert "generation 1 was released: 20" in shown.stdout
    refused = CliRunner().invoke(app, [*arguments, "1", "--refuse"])
    assert refused.exit_code == 0
    assert "in the name of process" in refused.stdout
    assert isinstance(CliRunner().invoke(app, [*arguments, "2", "--refuse"]).exception, GenerationRefused)


def test_lines_of_what_goes_on() -> None:
    state = GenerationSet(name="pair")
    line = line_of(CompletedEffect(effect=AppendEntry(kind=GenerationEntryKind.SWITCHED, generation=2), state=state))
    assert line is not None
    assert (line.text, line.lasts) == ("generation 2 has reached the end, and is the active one", False)
    assert line_of(CompletedEffect(effect=ReadTopic(), state=state)) is None
    for effect in (CopyGeneration(generation=1), Rest(why="passive")):
        line = line_of(CompletedEffect(effect=effect, state=state))
        assert line is not None
        assert line.lasts
