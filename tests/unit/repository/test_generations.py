"""The ledger of a set, its state, and the removal of a backup as a whole."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.log.buffer import Buffer
from offsite.model.errors import (
    BackupExists,
    BackupNotFound,
    BadName,
    DamagedObject,
    RestoreTakenOver,
    StoreUnavailable,
)
from offsite.repository.backup import Backup
from offsite.repository.generation_sets.entry import (
    GENERATION_ENTRY,
    Founding,
    GenerationEntry,
    GenerationEntryKind,
    Instance,
)
from offsite.repository.generation_sets.generation_set import (
    GenerationPhase,
    GenerationSet,
)
from offsite.repository.generation_sets.ledger import SetLayout, parse_entry_key, set_ledger, set_names, set_of_backup
from offsite.repository.layout import BackupLayout
from offsite.repository.removal import KEPT_MS, SETTLED_MS, remove_backup, sweep, was_brought_back
from offsite.repository.repository import Repository
from offsite.stores.numbered_log import _FEW, EntryRefusedError
from offsite.stores.posix_store import open_folder
from offsite.stores.store import PutResult
from tests.backups import new_backup, run_once
from tests.faulty_store import Crash, FaultyStore
from tests.memory_store import MemoryStore

FOUNDING = Founding(cluster_id="c", include=("t",), exclude=(), internal=False, target="backup", place="")
A, B = Instance.A, Instance.B


class Book:
    """A ledger that is written by hand."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.ledger = set_ledger(self.store, "pair")
        self.state = GenerationSet(name="pair")

    def enter(
        self, kind: GenerationEntryKind, instance: Instance = A, generation: int = 0, **more: object
    ) -> GenerationSet:
        entry = self.entry(kind, instance, generation, **more)
        state = self.ledger.append(entry, to=self.state)
        assert state is not None
        self.state = state
        return state

    def entry(
        self, kind: GenerationEntryKind, instance: Instance, generation: int = 0, **more: object
    ) -> GenerationEntry:
        entry = GenerationEntry(
            seq=self.state.seq + 1,
            previous=self.state.head,
            kind=kind,
            instance=instance,
            word=f"word of {instance}",
            at_ms=self.store.now_ms(),
            generation=generation,
            partitions=2,
            founding=FOUNDING if kind is GenerationEntryKind.FOUNDED else None,
        )
        return replace(entry, **more)  # type: ignore[arg-type]

    def upto_switch(self) -> Book:
        for kind in (GenerationEntryKind.FOUNDED, GenerationEntryKind.JOINED):
            self.enter(kind)
        self.enter(GenerationEntryKind.JOINED, B)
        self.enter(GenerationEntryKind.BEGUN, A, 1)
        self.enter(GenerationEntryKind.COMPLETED, A, 1)
        self.enter(GenerationEntryKind.ASKED, A, 1)
        self.enter(GenerationEntryKind.BEGUN, B, 2)
        self.enter(GenerationEntryKind.SWITCHED, B, 2)
        return self


@pytest.fixture
def book() -> Book:
    return Book()


def test_the_state_of_a_cycle(book: Book) -> None:
    state = book.upto_switch().state
    assert (state.active, [each.phase for each in state.generations]) == (
        2,
        [GenerationPhase.RETIRED, GenerationPhase.COMPLETE],
    )
    assert state.restorable == state.generation(2)
    book.enter(GenerationEntryKind.SEALED, B, 1)
    book.enter(GenerationEntryKind.REMOVING, A, 1)
    book.enter(GenerationEntryKind.REMOVED, A, 1)
    assert book.ledger.read() == book.state
    assert set_names(book.store) == ("pair",)


@pytest.mark.parametrize(
    ("kind", "instance", "generation"),
    [
        (GenerationEntryKind.FOUNDED, A, 0),
        (GenerationEntryKind.BEGUN, A, 3),  # its first one is not removed
        (GenerationEntryKind.BEGUN, B, 3),  # nobody asked
        (GenerationEntryKind.COMPLETED, B, 2),
        (GenerationEntryKind.COMPLETED, A, 1),
        (GenerationEntryKind.ASKED, A, 1),
        (GenerationEntryKind.SWITCHED, A, 1),
        (GenerationEntryKind.SWITCHED, B, 2),
        (GenerationEntryKind.SEALED, A, 1),
        (GenerationEntryKind.SEALED, B, 2),
        (GenerationEntryKind.RELEASED, A, 2),
        (GenerationEntryKind.REMOVING, A, 1),  # not sealed
        (GenerationEntryKind.REMOVING, B, 2),
        (GenerationEntryKind.REMOVED, A, 1),
    ],
)
def test_what_may_not_follow_a_switch(
    book: Book, kind: GenerationEntryKind, instance: Instance, generation: int
) -> None:
    book.upto_switch()
    with pytest.raises(EntryRefusedError):
        book.enter(kind, instance, generation)


def test_the_active_one_is_released_while_the_next_is_read(book: Book) -> None:
    """Not before: nobody can agree to what will be missing in a generation that has not begun."""
    for kind in (GenerationEntryKind.FOUNDED, GenerationEntryKind.JOINED):
        book.enter(kind)
    book.enter(GenerationEntryKind.JOINED, B)
    book.enter(GenerationEntryKind.BEGUN, A, 1)
    book.enter(GenerationEntryKind.COMPLETED, A, 1)
    book.enter(GenerationEntryKind.ASKED, A, 1)
    with pytest.raises(EntryRefusedError, match="is being replaced"):
        book.enter(GenerationEntryKind.RELEASED, A, 1)
    book.enter(GenerationEntryKind.BEGUN, B, 2)
    with pytest.raises(EntryRefusedError):
        book.enter(GenerationEntryKind.RELEASED, A, 2)
    book.enter(GenerationEntryKind.RELEASED, A, 1)
    state = book.enter(GenerationEntryKind.SWITCHED, B, 2)
    assert [each.is_released for each in state.generations] == [True, False]


@pytest.mark.parametrize(
    ("field", "forged"),
    [
        ("include", ()),
        ("include", ("t", "regex:(")),
        ("exclude", ("regex:[",)),
        ("place", "s3://[bucket"),
    ],
)
def test_a_forged_founding_is_damage(book: Book, field: str, forged: object) -> None:
    entry = book.entry(GenerationEntryKind.FOUNDED, A, founding=replace(FOUNDING, **{field: forged}))
    book.store.put_if_absent(book.ledger.key(1), GENERATION_ENTRY.encode(entry))
    with pytest.raises(DamagedObject, match=f"{book.ledger.key(1)}.*{field}"):
        book.ledger.read()


def test_many_entries_are_read_side_by_side(book: Book) -> None:
    book.upto_switch()
    for number in range(_FEW):
        book.enter(GenerationEntryKind.JOINED, A, word=f"word {number}")
    assert book.ledger.read() == book.state
    book.store.delete(book.ledger.key(200))
    with pytest.raises(DamagedObject, match=r"0200.json is missing"):
        book.ledger.read()


def test_a_process_that_was_replaced_decides_nothing(book: Book) -> None:
    book.upto_switch()
    book.enter(GenerationEntryKind.JOINED, B, word="another")
    with pytest.raises(EntryRefusedError, match="does not run instance b"):
        book.enter(GenerationEntryKind.SEALED, B, 1)
    book.enter(GenerationEntryKind.SEALED, B, 1, word="another")


def test_of_two_that_decide_at_once_one_is_told(book: Book) -> None:
    book.upto_switch()
    mine, others = book.entry(GenerationEntryKind.SEALED, B, 1), book.entry(GenerationEntryKind.JOINED, A, word="new")
    state = book.state
    assert book.ledger.append(others, to=state) is not None
    assert book.ledger.append(mine, to=state) is None
    assert book.ledger.append(others, to=state) is not None, "its own answer was lost"


def test_a_missing_entry_is_damage_and_not_an_end(book: Book) -> None:
    book.upto_switch()
    book.store.delete(book.ledger.key(5))
    with pytest.raises(DamagedObject, match=r"0005.json is missing"):
        book.ledger.read()


def test_nothing_is_decided_behind_an_entry_that_is_gone(book: Book) -> None:
    """An older copy of the repository was put back under a process that knows the newest entry."""
    book.upto_switch()
    later = book.entry(GenerationEntryKind.SEALED, B, 1)
    for seq in (7, 8):
        book.store.delete(book.ledger.key(seq))
    with pytest.raises(DamagedObject, match=r"0008.json was read before and is missing now"):
        book.ledger.append(later, to=book.state)
    assert book.store.head(book.ledger.key(later.seq)) is None
    assert book.ledger.read().seq == 6


def test_a_forged_entry_is_damage(book: Book) -> None:
    book.upto_switch()
    forged = book.entry(GenerationEntryKind.REMOVING, A, 1)
    book.store.put_overwrite(book.ledger.key(forged.seq), GENERATION_ENTRY.encode(forged))
    with pytest.raises(DamagedObject, match="generation 1 is not sealed"):
        book.ledger.read()


def test_an_entry_reads_back_and_a_flipped_bit_shows(book: Book) -> None:
    entry = book.entry(GenerationEntryKind.FOUNDED, A, by="process 1 of me")
    data = GENERATION_ENTRY.encode(entry)
    assert GENERATION_ENTRY.decode(data, key="k") == entry
    for position in range(0, len(data), 7):
        flipped = bytes([*data[:position], data[position] ^ 4, *data[position + 1 :]])
        with pytest.raises(DamagedObject):
            GENERATION_ENTRY.decode(flipped, key="k")


def test_names() -> None:
    assert set_of_backup("a.gen-1.gen-12") == ("a.gen-1", 12)
    assert set_of_backup("a.gen-0") is None
    assert parse_entry_key(f"{SetLayout(name='a').ledger_prefix}{7:020d}.json") == 7
    for name in ("../x", "a/b", "x" * 120):
        with pytest.raises(BadName):
            SetLayout(name=name)


@pytest.fixture
def repository() -> Repository:
    store = MemoryStore()
    new_backup(store, "pair.gen-1")
    repository = Repository.open(store)
    repository.create_backup(
        "pair.gen-10", cluster_id="c", selection=repository.backup("pair.gen-1").descriptor.selection
    )
    return repository


def filled(repository: Repository) -> Backup:
    backup = repository.backup("pair.gen-1")
    for _ in range(3):
        run_once(backup)
    return backup


def test_a_removal_that_dies_anywhere_is_never_half_a_backup(repository: Repository) -> None:
    store = repository.store
    assert isinstance(store, MemoryStore)
    backup = filled(repository)
    whole = dict(store.objects)
    for step in range(1000):
        store.objects = dict(whole)
        try:
            remove_backup(
                FaultyStore(store, fails_at=step), backup.layout, is_read=lambda: False, announce=lambda _: None
            )
            break
        except Crash:
            assert_whole_or_gone(repository)
            remove_backup(store, backup.layout, is_read=lambda: False, announce=lambda _: None)
        assert [key for key in store.objects if key.startswith(backup.layout.prefix)] == [backup.layout.removed_key]
        assert "backups/pair.gen-10/backup.json" in store.objects, "another one's name begins the same"
    assert step > 10


def assert_whole_or_gone(repository: Repository) -> None:
    try:
        found = repository.backup("pair.gen-1").state().seq
    except BackupNotFound:
        assert "pair.gen-1" not in repository.backups()
    else:
        assert found == 3


def test_what_is_read_stays_whole_and_can_be_read_again(repository: Repository) -> None:
    backup = filled(repository)
    before = [info.key for info in repository.store.list(backup.layout.prefix)]
    assert not remove_backup(repository.store, backup.layout, is_read=lambda: True, announce=lambda _: None)
    assert repository.backup("pair.gen-1").state().seq == 3
    assert [info.key for info in repository.store.list(backup.layout.prefix)] == before


def test_while_it_is_asked_who_reads_nothing_begins_and_a_crash_then_loses_nothing(repository: Repository) -> None:
    backup, store = filled(repository), repository.store

    def unreachable() -> bool:
        assert store.head(backup.layout.removing_key) is not None
        raise StoreUnavailable("the store does not answer")

    with pytest.raises(StoreUnavailable):
        remove_backup(store, backup.layout, is_read=unreachable, announce=lambda _: None)
    assert repository.backup("pair.gen-1").state().seq == 3
    assert not was_brought_back(store, backup.layout)
    assert remove_backup(store, backup.layout, is_read=lambda: False, announce=lambda _: None)
    assert [info.key for info in store.list(backup.layout.prefix)] == [backup.layout.removed_key]


def test_a_removal_that_slept_takes_nothing_that_was_brought_back(repository: Repository) -> None:
    backup, store = filled(repository), repository.store
    assert isinstance(store, MemoryStore)
    for _ in range(6):
        run_once(backup)
    whole = dict(store.objects)

    class Slept(FaultyStore):
        deleted = 0

        def delete(self, key: str) -> None:
            super().delete(key)
            self.deleted += 1
            if self.deleted == 21:  # the descriptor, and the first few
                store.objects |= whole

    slept = Slept(store)
    assert not remove_backup(slept, backup.layout, is_read=lambda: False, announce=lambda _: None)
    assert slept.deleted == 21
    assert repository.backup("pair.gen-1").state().seq == 9
    assert whole.items() <= store.objects.items()


def removed(repository: Repository) -> tuple[MemoryStore, BackupLayout]:
    backup, store = filled(repository), repository.store
    assert isinstance(store, MemoryStore)
    remove_backup(store, backup.layout, is_read=lambda: False, announce=lambda _: None)
    return store, backup.layout


def below(store: MemoryStore, layout: BackupLayout) -> list[str]:
    return [info.key for info in store.list(layout.prefix)]


def test_what_came_back_is_swept_and_the_mark_goes_after_a_month(repository: Repository) -> None:
    backup = filled(repository)
    store = repository.store
    assert isinstance(store, MemoryStore)
    there = sum(info.size_bytes for info in store.list(backup.layout.prefix))
    announced: list[int] = []
    remove_backup(store, backup.layout, is_read=lambda: False, announce=announced.append)
    remove_backup(store, backup.layout, is_read=lambda: False, announce=announced.append)
    assert announced == [there], "nothing was left to say anything of"
    store.put_if_absent(backup.layout.commit_key(4), b"late")
    store.put_if_absent(f"{backup.layout.topics_prefix}t/partition=0/t+0-{1:020}-0123abcd.log", b"late")
    assert repository.backups() == ("pair.gen-10",)
    now_ms = store.now_ms()
    store.pass_time(SETTLED_MS)
    sweep(store, backup.layout, removed_ms=now_ms, announce=announced.append)
    assert announced == [there, 8]
    assert below(store, backup.layout) == [backup.layout.removed_key]
    sweep(store, backup.layout, removed_ms=now_ms - KEPT_MS - 10_000, announce=announced.append)
    assert announced == [there, 8]
    assert below(store, backup.layout) == []


def test_a_sweep_takes_nothing_that_was_written_lately_and_leaves_the_mark_to_it(repository: Repository) -> None:
    store, layout = removed(repository)
    key = layout.commit_key(1)
    store.put_if_absent(key, b"a copy that is being brought back")
    sweep(store, layout, removed_ms=store.now_ms() - KEPT_MS - 10_000, announce=lambda _: None)
    assert below(store, layout) == [key, layout.removed_key]


@pytest.mark.parametrize("has_mark", [False, True])
def test_whatever_has_a_descriptor_is_no_rest_of_a_removed_backup(repository: Repository, *, has_mark: bool) -> None:
    store, layout = removed(repository)
    other = repository.backup("pair.gen-10").layout
    store.put_if_absent(layout.descriptor_key, store.objects[other.descriptor_key])
    store.put_if_absent(layout.commit_key(1), b"commit")
    if not has_mark:
        store.delete(layout.removed_key)
    before = below(store, layout)
    store.pass_time(SETTLED_MS)
    sweep(store, layout, removed_ms=store.now_ms() - KEPT_MS - 10_000, announce=lambda _: None)
    assert below(store, layout) == before


def test_nothing_goes_from_a_name_without_the_mark_of_a_removal(repository: Repository) -> None:
    store, layout = removed(repository)
    store.put_if_absent(layout.commit_key(1), b"commit")
    store.delete(layout.removed_key)
    store.pass_time(SETTLED_MS)
    sweep(store, layout, removed_ms=store.now_ms() - KEPT_MS - 10_000, announce=lambda _: None)
    assert below(store, layout) == [layout.commit_key(1)]


def test_what_somebody_is_writing_for_days_is_not_swept(repository: Repository) -> None:
    """A first import has no descriptor until its end, and whoever may create objects can put the mark of a removal."""
    store, layout = removed(repository)
    first, second = (f"{layout.topics_prefix}t/partition=0/t+0-{nr:020}-0123abcd.log" for nr in (1, 2))
    store.put_if_absent(first, b"segment")
    store.pass_time(SETTLED_MS)
    store.put_if_absent(second, b"segment")
    sweep(store, layout, removed_ms=store.now_ms(), announce=lambda _: None)
    assert below(store, layout) == [layout.removed_key, first, second]
    store.pass_time(SETTLED_MS)
    sweep(store, layout, removed_ms=store.now_ms(), announce=lambda _: None)
    assert below(store, layout) == [layout.removed_key]


def test_a_copy_that_keeps_its_times_is_not_swept_while_it_arrives(tmp_path: Path) -> None:
    """As `cp -a`, `rsync -a` and `tar` bring it back, in any order: its objects look old from the first moment."""
    store = open_folder(tmp_path / "repository")
    backup = new_backup(store)
    place, copy, long_ago_s = tmp_path / "repository/backups/b", tmp_path / "copy", time.time() - 10 * 86_400
    for _ in range(3):
        run_once(backup)
    for path in place.rglob("*"):
        os.utime(path, (long_ago_s, long_ago_s))
    shutil.copytree(place, copy)
    remove_backup(store, backup.layout, is_read=lambda: False, announce=lambda _: None)
    shutil.copytree(copy / "topics", place / "topics", dirs_exist_ok=True)
    arrived = sorted(path.name for path in place.rglob("*") if path.is_file())
    sweep(store, backup.layout, removed_ms=store.now_ms(), announce=lambda _: None)
    assert sorted(path.name for path in place.rglob("*") if path.is_file()) == arrived
    assert len(arrived) == 10, "nine segments, and the mark of the removal"


def test_a_sweep_stops_at_a_descriptor_that_appears_meanwhile(repository: Repository) -> None:
    store, layout = removed(repository)
    store.put_if_absent(layout.commit_key(1), b"commit")
    store.pass_time(SETTLED_MS)
    sweep(
        store,
        layout,
        removed_ms=store.now_ms() - KEPT_MS - 10_000,
        announce=lambda _: store.put_overwrite(layout.descriptor_key, b"brought back"),
    )
    assert below(store, layout) == [layout.descriptor_key, layout.commit_key(1), layout.removed_key]


def test_the_fence_is_asked_before_every_few_deletes(repository: Repository) -> None:
    store, layout = removed(repository)
    for nr in range(50):
        store.put_if_absent(f"{layout.topics_prefix}t/partition=0/t+0-{nr:020}-0123abcd.log", b"late")
    store.pass_time(SETTLED_MS)
    left: list[int] = []

    def fence() -> None:
        left.append(len(below(store, layout)) - 1)
        if left[-1] < 50:
            raise RestoreTakenOver("taken over")

    with pytest.raises(RestoreTakenOver):
        sweep(store, layout, removed_ms=store.now_ms(), announce=lambda _: None, fence=fence)
    assert left == [50, 50, 30]
    assert len(below(store, layout)) - 1 == 30, "and nothing more"


def test_no_backup_begins_under_the_name_of_a_removed_one(repository: Repository) -> None:
    store, layout = removed(repository)
    selection = repository.backup("pair.gen-10").descriptor.selection
    with pytest.raises(BackupExists, match="was removed recently"):
        repository.create_backup("pair.gen-1", cluster_id="c", selection=selection)
    assert below(store, layout) == [layout.removed_key]
    store.pass_time(KEPT_MS)
    late = f"{layout.topics_prefix}t/partition=0/t+0-{1:020}-0123abcd.log"
    store.put_if_absent(late, b"late")
    with pytest.raises(BackupExists, match="was removed recently"):
        repository.create_backup("pair.gen-1", cluster_id="c", selection=selection)
    store.delete(late)
    assert repository.create_backup("pair.gen-1", cluster_id="c", selection=selection).state().seq == 0
    assert below(store, layout) == [layout.descriptor_key, layout.collected_key]


def test_a_backup_that_is_removed_while_one_begins_there_gets_no_descriptor(repository: Repository) -> None:
    backup, selection = filled(repository), repository.backup("pair.gen-10").descriptor.selection

    class Slow(FaultyStore):
        def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
            if key == backup.layout.descriptor_key:  # the look for the mark was before
                remove_backup(repository.store, backup.layout, is_read=lambda: False, announce=lambda _: None)
            return super().put_if_absent(key, data)

    with pytest.raises(BackupExists, match="was removed recently"):
        replace(repository, store=Slow(repository.store)).create_backup(
            "pair.gen-1", cluster_id="c", selection=selection
        )
    assert [info.key for info in repository.store.list(backup.layout.prefix)] == [backup.layout.removed_key]


def test_a_backup_that_was_brought_back_beside_its_mark_goes_on(repository: Repository) -> None:
    backup = filled(repository)
    backup.store.put_if_absent(backup.layout.removed_key, b"{}")
    found = repository.create_backup(
        "pair.gen-1", cluster_id=backup.descriptor.cluster_id, selection=backup.descriptor.selection
    )
    assert found.state().seq == 3


def test_files_of_others_beside_the_sets_are_none() -> None:
    store = MemoryStore()
    set_ledger(store, "pair").append(  # type: ignore[arg-type]
        Book().entry(GenerationEntryKind.FOUNDED, A), to=GenerationSet(name="pair")
    )
    for key in ("generations/.DS_Store", "generations/README.txt", "generations/-/ledger/1", "generations/pair"):
        store.put_if_absent(key, b"")
    assert set_names(store) == ("pair",)  # type: ignore[arg-type]
