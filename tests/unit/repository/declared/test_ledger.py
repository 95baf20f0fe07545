"""The ledger of a declared backup: who decided first has decided, and who slept decides nothing more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.model.errors import BadName, DamagedObject
from offsite.repository.declared.entry import (
    DECLARED_ENTRY,
    BackupSettings,
    DeclaredEntryKind,
    LastCommit,
    Origin,
    Predecessor,
    Release,
    TopicChoice,
)
from offsite.repository.declared.history import BackupPhase, DeclaredHistory, apply_entry
from offsite.repository.declared.layout import DeclaredLayout, owner_key
from offsite.repository.declared.ledger import claim_name, declared_uids, may_claim, owner_of
from offsite.repository.layout import BackupLayout
from offsite.stores.numbered_log import EntryRefusedError
from tests.memory_store import MemoryStore
from tests.unit.operator.work.declared import BEGINNING, SETTINGS, UID, Declared


@pytest.fixture
def declared() -> Declared:
    return Declared(MemoryStore())  # type: ignore[arg-type]


def phases(history: DeclaredHistory) -> list[BackupPhase]:
    return [each.phase for each in history.backups]


def test_a_life_is_read_as_it_was_decided(declared: Declared) -> None:
    declared.start("a")
    declared.decide(DeclaredEntryKind.PAUSED)
    declared.decide(DeclaredEntryKind.RESUMED)
    declared.decide(
        DeclaredEntryKind.MODIFIED, settings=BackupSettings(snapshot_duration="1d", parameters=(("interval", "5s"),))
    )
    declared.decide(DeclaredEntryKind.STOPPED)
    declared.start("b")
    declared.decide(DeclaredEntryKind.REMOVING, number=1)
    declared.decide(DeclaredEntryKind.REMOVED, number=1)
    history = declared.history
    assert phases(history) == [BackupPhase.REMOVED, BackupPhase.RUNNING]
    assert (history.backups[0].settings.parameters, history.seq) == ((("interval", "5s"),), 8)
    assert [each.beginning.backup for each in history.remaining] == ["b"]


def test_what_lay_in_its_place_and_what_it_took_the_place_of_is_told_with_its_beginning(declared: Declared) -> None:
    older = Predecessor(backup="a", word="w9", last=LastCommit(commit=4, hash="4" * 64))
    origin = Origin(last=LastCommit(commit=7, hash="7" * 64), predecessors=(older,))
    declared.start("b", origin=origin)
    assert (declared.history.backups[0].origin, declared.history.backups[0].word) == (origin, "w0")


def test_entries_without_an_origin_are_as_they_were(declared: Declared) -> None:
    declared.start("b")
    (data,) = (declared.store.get(info.key) for info in declared.store.list(declared.layout.ledger_prefix))
    assert data is not None
    assert b"origin" not in data
    assert b"release" not in data
    assert declared.history.backups[0].origin is None


def test_a_person_releases_what_is_stopped_and_only_that(declared: Declared) -> None:
    declared.start("b")
    release = Release(last=LastCommit(commit=7, hash="7" * 64), reason="looked at")
    with pytest.raises(EntryRefusedError):
        declared.decide(DeclaredEntryKind.RELEASED, release=release)
    declared.decide(DeclaredEntryKind.STOPPED)
    declared.decide(DeclaredEntryKind.RELEASED, release=release)
    assert declared.history.backups[0].release == release


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        (DeclaredEntryKind.RESUMED, []),
        (DeclaredEntryKind.PAUSED, [DeclaredEntryKind.PAUSED]),
        (DeclaredEntryKind.STOPPED, [DeclaredEntryKind.STOPPED]),
        (DeclaredEntryKind.MODIFIED, [DeclaredEntryKind.STOPPED]),
        (DeclaredEntryKind.REMOVING, []),
        (DeclaredEntryKind.REMOVED, [DeclaredEntryKind.STOPPED]),
    ],
)
def test_what_does_not_follow_is_refused(
    declared: Declared, kind: DeclaredEntryKind, before: list[DeclaredEntryKind]
) -> None:
    declared.start()
    for each in before:
        declared.decide(each)
    with pytest.raises(EntryRefusedError):
        declared.decide(kind, settings=SETTINGS)


def test_no_second_backup_begins_beside_one_that_is_live(declared: Declared) -> None:
    declared.start("a")
    with pytest.raises(EntryRefusedError, match="another one runs"):
        declared.start("b")


@pytest.mark.parametrize("late", [{"fence": 4}, {"generation": 6}])
def test_who_slept_with_an_older_lock_or_an_older_spec_is_refused(declared: Declared, late: dict[str, int]) -> None:
    declared.start()
    declared.decide(DeclaredEntryKind.PAUSED, fence=5, generation=7)
    now = declared.history
    entry = DECLARED_ENTRY.decode(declared.store.get(f"{declared.layout.ledger_prefix}{2:020d}.json") or b"", key="k")
    woken = replace(entry, seq=3, previous=now.head, kind=DeclaredEntryKind.RESUMED, **late)
    with pytest.raises(EntryRefusedError):
        declared.ledger.append(woken, to=now)
    with pytest.raises(EntryRefusedError):
        apply_entry(now, woken, head="h")


def test_of_two_on_the_same_look_one_decides(declared: Declared) -> None:
    declared.start()
    now = declared.history
    first = DECLARED_ENTRY.decode(declared.store.get(f"{declared.layout.ledger_prefix}{1:020d}.json") or b"", key="k")
    entries = [
        replace(first, seq=2, previous=now.head, kind=kind, word=kind.value, beginning=None, settings=None)
        for kind in (DeclaredEntryKind.PAUSED, DeclaredEntryKind.STOPPED)
    ]
    assert declared.ledger.append(entries[0], to=now) is not None
    assert declared.ledger.append(entries[0], to=now) is not None, "its own answer was lost"
    assert declared.ledger.append(entries[1], to=now) is None
    assert phases(declared.history) == [BackupPhase.PAUSED]


def test_a_missing_entry_or_a_changed_one_is_damage(declared: Declared) -> None:
    declared.start()
    declared.decide(DeclaredEntryKind.PAUSED)
    declared.decide(DeclaredEntryKind.STOPPED)
    second = f"{declared.layout.ledger_prefix}{2:020d}.json"
    kept = declared.store.get(second) or b""
    declared.store.delete(second)
    with pytest.raises(DamagedObject, match="is missing"):
        declared.ledger.read()
    changed = DECLARED_ENTRY.encode(replace(DECLARED_ENTRY.decode(kept, key=second), by="somebody else"))
    declared.store.put_if_absent(second, changed)
    with pytest.raises(DamagedObject, match="does not follow"):
        declared.ledger.read()


@pytest.mark.parametrize(
    "change",
    [
        {"beginning": replace(BEGINNING, backup="../x")},
        {"beginning": replace(BEGINNING, topics=())},
        {"beginning": replace(BEGINNING, topics=("regex:(",))},
        {"number": 7},
        {"beginning": None},
    ],
)
def test_what_a_stranger_wrote_there_is_damage_by_name(declared: Declared, change: dict[str, object]) -> None:
    declared.start()
    key = f"{declared.layout.ledger_prefix}{1:020d}.json"
    entry = DECLARED_ENTRY.decode(declared.store.get(key) or b"", key=key)
    declared.store.delete(key)
    declared.store.put_if_absent(key, DECLARED_ENTRY.encode(replace(entry, **change)))  # type: ignore[arg-type]
    with pytest.raises(DamagedObject):
        declared.ledger.read()


def test_a_name_belongs_to_whoever_claimed_it_first(declared: Declared) -> None:
    assert claim_name(declared.store, "shop", UID) == UID
    assert claim_name(declared.store, "shop", UID) == UID
    assert claim_name(declared.store, "shop", "other-uid-1") == UID
    with pytest.raises(BadName):
        owner_key("../x")


def test_a_name_is_free_again_once_all_that_its_owner_had_was_removed_long_ago(declared: Declared) -> None:
    store, layout = declared.store, BackupLayout(backup="shop")
    declared.start("shop")
    store.put_if_absent(layout.descriptor_key, b"{}")
    declared.decide(DeclaredEntryKind.STOPPED)
    assert claim_name(store, "shop", "other-uid-1") == UID
    declared.decide(DeclaredEntryKind.REMOVING)
    declared.decide(DeclaredEntryKind.REMOVED)
    store.put_if_absent(layout.removed_key, b"{}")
    assert claim_name(store, "shop", "other-uid-1") == UID, "somebody brought it back"
    store.delete(layout.descriptor_key)
    assert claim_name(store, "shop", "other-uid-1") == UID, "its mark says that this was not long ago"
    store.delete(layout.removed_key)
    store.put_if_absent(layout.commit_key(1), b"late")
    assert not may_claim(store, "shop", "other-uid-1"), "something came back"
    store.delete(layout.commit_key(1))
    assert may_claim(store, "shop", "other-uid-1")
    assert owner_of(store, "shop") == UID, "to ask claims nothing"
    assert claim_name(store, "shop", "other-uid-1") == "other-uid-1"
    for uid in (UID, "other-uid-2"):  # of several one has it, and the former owner none more
        assert claim_name(store, "shop", uid) == "other-uid-1"
        assert not may_claim(store, "shop", uid)


def test_topics_change_in_place_and_an_entry_without_them_is_what_it_was(declared: Declared) -> None:
    declared.start()
    declared.decide(DeclaredEntryKind.MODIFIED, settings=SETTINGS)
    before = declared.history.backups[0]
    assert (before.beginning.topics, before.chosen_ms) == (BEGINNING.topics, 0)
    declared.decide(
        DeclaredEntryKind.MODIFIED, settings=SETTINGS, chosen=TopicChoice(topics=("orders", "payments"), exclude=("x",))
    )
    (low,) = declared.history.backups
    assert (low.beginning.topics, low.beginning.exclude) == (("orders", "payments"), ("x",))
    assert low.chosen_ms > 0
    data = [declared.store.get(f"{declared.layout.ledger_prefix}{seq:020d}.json") or b"" for seq in (2, 3)]
    assert [b"chosen" in each for each in data] == [False, True]


def test_resources_are_found_by_their_ledgers(declared: Declared) -> None:
    declared.start()
    Declared(declared.store, uid="zzzz-1234-5678").start()
    declared.store.put_if_absent("declared/../odd", b"")
    declared.store.put_if_absent("declared/x", b"")
    assert declared_uids(declared.store) == (UID, "zzzz-1234-5678")
    with pytest.raises(BadName):
        DeclaredLayout(uid="../../x")
