"""What is deleted whole goes on evidence: compared with what took its place, which was read, while nobody reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from offsite.model.clock import SystemClock
from offsite.model.errors import BackupGoing, BadOption, ExpiryNotDone, PlanChanged, ResourceConflict
from offsite.operator.decide import desired
from offsite.operator.decide.observed import ObservedAgents
from offsite.operator.work import expire as job
from offsite.operator.work.expire import ExpiryRequest, ExpiryResult, expire
from offsite.operator.work.release import plan_release, refuse_release, release
from offsite.operator.world.backups import last_commit
from offsite.operator.world.observe import Observer, RepositoryFacts, observe_backup
from offsite.repository import catalog, local_memory, removal
from offsite.repository.backup import Backup, seal_backup
from offsite.repository.commit import LIVE, CommitChanges, ExpiredRange, Position, TopicShape
from offsite.repository.declared.entry import DeclaredEntryKind, LastCommit, Origin, Predecessor, Release
from offsite.repository.declared.history import BackupPhase
from offsite.repository.declared.ledger import ProposedEntry, enter
from offsite.repository.declared.notes import get_kept_backups
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import ProcessIdentity
from offsite.repository.local_memory import LetGoMemory
from offsite.repository.removal import begin_removal
from offsite.repository.repository import Repository
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreOutcome, RestoreRecord, put_outcome, put_record
from offsite.restore.lease import hold_restore_lease
from offsite.stores.posix_store import PosixStore, open_folder
from offsite.upkeep.retention.pins import pin_point, unpin_point
from offsite.upkeep.retention.policy import RetentionPolicy
from tests.backups import SELECTION, write_segment
from tests.unit.operator.work.declared import UID, Declared
from tests.worlds.operator.world import identity

ORDERS = TopicShape(topic="orders", topic_id="id-orders", partitions=2, replication_factor=1)
USERS = TopicShape(topic="users", topic_id="id-users", partitions=1, replication_factor=1)
BOTH = {ORDERS: ((0, 40), (0, 40)), USERS: ((0, 40),)}

Ranges = dict[TopicShape, tuple[tuple[int, int], ...]]


class Place:
    """A repository with backups of the resource."""

    def __init__(self, folder: Path, word: str, *, new: bool = True) -> None:
        self.folder = folder
        store = open_folder(folder)
        self.repository = Repository.init(store) if new else Repository.open(store)
        self.declared = Declared(store, word=word)

    def begin(self, name: str, *older: tuple[Place, str], topics: tuple[str, ...] = ("*",)) -> None:
        """As an operator does it: `older` are there."""
        predecessors = tuple(
            Predecessor(backup=backup, word=place.word_of(backup), last=last_commit(place.repository.store, backup))
            for place, backup in older
        )
        last = last_commit(self.repository.store, name)
        self.declared.start(name, topics=topics, origin=Origin(last=last, predecessors=predecessors))

    def word_of(self, name: str) -> str:
        lows = (low for low in self.declared.history.backups if low.beginning.backup == name)
        return list(lows)[-1].word

    def backup(self, name: str, *, plain: bool = False) -> Backup:
        """As an agent makes it, or as a plain run does."""
        uid = "" if plain else self.declared.layout.uid
        return self.repository.create_backup(name, cluster_id="cluster", selection=SELECTION, declared_by=uid)

    def copy(self, name: str, ranges: Ranges, *, passes: int = 2) -> None:
        """Passes over the source, the first of which copies these ranges."""
        backup = self.backup(name)
        for number in range(passes):
            state, segments, positions = backup.state(), [], []
            while backup.store.now_ms() <= state.committed_at_ms:
                pass
            for shape, spans in ranges.items():
                for partition, (start, end) in zip(shape.partition_ids, spans, strict=False):
                    if not number and start < end:
                        segments.append(write_segment(backup.store, backup, partition, start, end))
                    positions.append(Position(partition_id=partition, log_start=start, end=end))
            changes = CommitChanges(segments=tuple(segments), positions=tuple(positions), topics=tuple(ranges))
            backup.commit(changes, base=state, writer=f"w{number}")

    def stop(self, name: str) -> None:
        self.declared.decide(DeclaredEntryKind.STOPPED)
        if self.is_there(name):
            seal_backup(self.repository.backup(name))
        self.declared.decide(DeclaredEntryKind.SEALED)

    def is_there(self, name: str) -> bool:
        return (self.folder / "backups" / name / "backup.json").exists()


def run(
    *places: Place, minimum_ms: int = 1, is_deletion: bool = False, policy: RetentionPolicy | None = None
) -> ExpiryResult:
    repositories = [place.repository for place in places]
    asked = ExpiryRequest(
        uid=UID, repositories=repositories, policy=policy, minimum_ms=minimum_ms, is_deletion=is_deletion
    )
    return expire(asked, clock=SystemClock())


def why(done: ExpiryResult) -> str:
    (kept,) = done.kept
    return str(kept)


@pytest.fixture
def one(tmp_path: Path) -> Place:
    return Place(tmp_path / "A", "a")


@pytest.fixture
def other(tmp_path: Path) -> Place:
    return Place(tmp_path / "B", "b")


@pytest.fixture
def moved(one: Place, other: Place) -> tuple[Place, Place]:
    """`old` in one repository, stopped, and `new` in another one, which holds all of it and more."""
    one.begin("old")
    one.copy("old", BOTH)
    one.stop("old")
    other.begin("new", (one, "old"))
    other.copy("new", {ORDERS: ((20, 60), (20, 60)), USERS: ((0, 60),)})
    return one, other


def test_what_was_compared_and_is_covered_goes(moved: tuple[Place, Place]) -> None:
    one, other = moved
    assert run(one, other).removed == ("old",)
    assert (one.is_there("old"), other.is_there("new")) == (False, True)
    assert [info.key for info in other.repository.store.list(other.declared.layout.read_prefix(1))] == []


# B 1 ------------------------------------------------------------------------------------------------------------------


def test_a_backup_that_went_there_and_back_is_judged_by_what_it_copied_since(one: Place, other: Place) -> None:
    one.begin("shop")
    one.copy("shop", {ORDERS: ((0, 40), (0, 40))})
    one.stop("shop")
    other.begin("shop", (one, "shop"))
    other.copy("shop", {ORDERS: ((0, 90), (0, 90))})
    other.stop("shop")
    one.begin("shop", (one, "shop"), (other, "shop"))
    assert why(run(one, other)) == "shop: shop has not completed a full copy since it began"
    assert other.is_there("shop")


def test_what_lay_in_its_place_before_makes_no_backup_whole(one: Place) -> None:
    one.begin("shop")
    one.copy("shop", {ORDERS: ((0, 40), (0, 40))})
    one.stop("shop")
    one.begin("shop", (one, "shop"))
    store = one.repository.store
    agents = SimpleNamespace(observe=lambda _: ObservedAgents())
    eyes = Observer(open_store=lambda _: store, facts=RepositoryFacts(), agents=agents, identity=identity("x"))  # type: ignore[arg-type]
    place = desired.RepositoryPlace(account="main", repository=store.url)
    assert [each.is_whole for each in observe_backup(eyes, UID, [place]).backups] == [True, False]
    one.copy("shop", {ORDERS: ((40, 60), (40, 60))})
    assert [each.is_whole for each in observe_backup(eyes, UID, [place]).backups] == [True, True]


def test_a_stale_copy_of_a_repository_takes_no_place(one: Place, tmp_path: Path) -> None:
    one.begin("shop")
    one.copy("shop", {ORDERS: ((0, 40), (0, 40))})
    shutil.copytree(one.folder, tmp_path / "copy")
    copy = Place(tmp_path / "copy", "c", new=False)
    backup = one.repository.backup("shop")
    partition = next(ORDERS.partition_ids)
    segment = write_segment(backup.store, backup, partition, 40, 90)
    moved_on = CommitChanges(segments=(segment,), positions=(Position(partition_id=partition, log_start=0, end=90),))
    backup.commit(moved_on, base=backup.state(), writer="w")
    one.declared.decide(DeclaredEntryKind.STOPPED)
    assert why(run(one, copy)) == "shop: no ledger shows whether it is older than shop"
    assert one.is_there("shop")


def test_what_began_behind_something_else_than_what_lies_there_takes_no_place(moved: tuple[Place, Place]) -> None:
    one, other = moved
    other.stop("new")
    older = Predecessor(backup="old", word=one.word_of("old"))
    other.declared.start("new", origin=Origin(last=LastCommit(commit=9, hash="x" * 64), predecessors=(older,)))
    assert "does not have commit 9, after which it began" in why(run(one, other))


# B 2 ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "lacks"),
    [
        ({ORDERS: ((0, 60), (0, 60))}, "new does not have topic users"),
        ({ORDERS: ((0, 60),), USERS: ((0, 60),)}, "new does not have partition orders/1"),
        ({ORDERS: ((0, 60), (60, 60)), USERS: ((0, 60),)}, "new has no records of orders/1"),
        (
            {ORDERS: ((0, 60), (50, 60)), USERS: ((0, 60),)},
            "new begins at offset 50 of orders/1, but the older backup ends at 40",
        ),
        ({ORDERS: ((0, 60), (0, 30)), USERS: ((0, 60),)}, "new does not have offsets 30 to 40 of orders/1"),
    ],
)
def test_what_lacks_something_takes_no_place_and_it_is_named(
    one: Place, other: Place, ranges: Ranges, lacks: str
) -> None:
    one.begin("old")
    one.copy("old", BOTH)
    one.stop("old")
    other.begin("new", (one, "old"))
    other.copy("new", ranges)
    assert why(run(one, other)) == f"old: {lacks}"
    assert one.is_there("old")


def test_a_topic_that_is_declared_and_missing_is_named(one: Place) -> None:
    one.begin("old")
    one.copy("old", {ORDERS: ((0, 40), (0, 40))})
    one.stop("old")
    one.begin("new", (one, "old"), topics=("orders", "order"))
    one.copy("new", {ORDERS: ((0, 40), (0, 40))})
    assert why(run(one)) == "old: new does not have declared topics: order"


def test_what_cannot_be_read_takes_no_place(moved: tuple[Place, Place]) -> None:
    one, other = moved
    victim = next((other.folder / "backups/new/topics").rglob("*.log*"))
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.chmod(0o644)
    victim.write_bytes(data)
    assert why(run(one, other)).startswith("old: new is damaged: ")
    victim.unlink()
    assert why(run(one, other)).startswith("old: new is damaged: ")
    assert one.is_there("old")


# B 3 ------------------------------------------------------------------------------------------------------------------


def test_clocks_tell_nothing_of_which_is_the_last(one: Place, other: Place) -> None:
    other.declared.start("new")  # by an earlier version, on a store whose clock is behind
    other.copy("new", {ORDERS: ((0, 90), (0, 90)), USERS: ((0, 90),)})
    other.stop("new")
    one.declared.start("old")
    one.copy("old", BOTH)
    one.stop("old")
    done = run(one, other)
    assert sorted(map(str, done.kept)) == [
        f"{name}: it is unknown which backup is the last one" for name in ("new", "old")
    ]


def test_a_stopped_one_is_the_last_by_its_ledger(moved: tuple[Place, Place]) -> None:
    one, other = moved
    other.stop("new")
    assert run(other, one).removed == ("old",)
    assert other.is_there("new")


# B 6 ------------------------------------------------------------------------------------------------------------------


def begun_restore(place: Place, name: str) -> RestoreRecord:
    record = RestoreRecord(
        restore="20260101-000000-aaaa",
        commit=1,
        cluster_id="c",
        request=(("a", "b"),),
        isolation="read_committed",
        offsets="preserve",
        created_at_ms=1,
        topics=(("orders", "orders"),),
        created=(),
    )
    layout = RestoreLayout(backup=BackupLayout(backup=name), restore=record.restore)
    put_record(place.repository.store, layout, record)
    return record


@pytest.mark.parametrize("is_deletion", [False, True])
def test_a_restore_that_was_killed_can_go_on(moved: tuple[Place, Place], *, is_deletion: bool) -> None:
    one, other = moved
    begun_restore(one, "old")
    told = "restore 20260101-000000-aaaa did not end, and can be continued"
    if is_deletion:
        with pytest.raises(ExpiryNotDone, match=f"old: {told}"):
            run(one, other, is_deletion=True)
    else:
        assert why(run(one, other)) == f"old: {told}"
    assert one.is_there("old"), "its descriptor, too"
    assert one.declared.history.backups[0].phase is BackupPhase.STOPPED


def test_a_made_up_restore_of_the_same_request_ends_none_that_can_go_on(
    moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later one takes its place once it gave no sign of life for a day."""
    one, other = moved
    record = begun_restore(one, "old")
    later = replace(record, restore="20260102-000000-aaaa", created_at_ms=2)
    layout = RestoreLayout(backup=BackupLayout(backup="old"), restore=later.restore)
    put_record(one.repository.store, layout, later)
    done = RestoreOutcome(records=0, size_bytes=0, verified=None, findings=(), partitions=())
    put_outcome(one.repository.store, layout, done)
    assert why(run(one, other)) == "old: restore 20260101-000000-aaaa did not end, and can be continued"
    right = PosixStore.now_ms
    monkeypatch.setattr(PosixStore, "now_ms", lambda store: right(store) + 25 * 3_600_000)
    assert run(one, other).removed == ("old",)


def test_no_restore_begins_while_it_is_asked_whether_one_reads(moved: tuple[Place, Place]) -> None:
    one, _ = moved
    backup, layout = one.repository.backup("old"), BackupLayout(backup="old")
    refused = list[str]()

    def is_read() -> bool:
        record = begun_restore(one, "elsewhere")
        with pytest.raises(BackupGoing), hold_restore_lease(backup, record, take_over=False):
            refused.append("entered")
        return True

    assert not begin_removal(one.repository.store, layout, is_read=is_read)
    assert not refused
    assert one.repository.store.head(layout.removing_key) is None, "it may be restored from again"
    again = begun_restore(one, "elsewhere")
    with hold_restore_lease(backup, again, take_over=False):
        pass


def test_a_restore_that_begins_after_the_look_is_seen(
    moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = moved
    before(monkeypatch, lambda: begun_restore(one, "old"))
    assert why(run(one, other)).startswith("old: restore ")
    assert one.is_there("old")


@pytest.mark.parametrize("is_deletion", [False, True])
def test_pins_are_asked_for_right_before_something_goes(
    moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch, *, is_deletion: bool
) -> None:
    one, other = moved
    before(monkeypatch, lambda: pin_point(one.repository.backup("old"), 1, reason="the audit"))
    if is_deletion:
        with pytest.raises(ExpiryNotDone, match="old: its commit 1 is pinned: the audit"):
            run(one, other, is_deletion=True)
    else:
        assert why(run(one, other)) == "old: its commit 1 is pinned: the audit"
    assert one.is_there("old")
    monkeypatch.undo()
    unpin_point(one.repository.backup("old"), 1)
    assert "old" in run(one, other, is_deletion=is_deletion).removed


def before(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Somebody is quicker than a removal that was judged already."""
    original = removal.begin_removal

    def late(*args: object, **kwargs: object) -> bool:
        act()
        return original(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(job, "begin_removal", late)


@pytest.mark.parametrize("has_rest", [False, True])
def test_what_was_brought_back_while_it_was_removed_is_left_alone(
    moved: tuple[Place, Place], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_rest: bool
) -> None:
    one, other = moved
    place = one.folder / "backups" / "old"
    shutil.copytree(place, tmp_path / "mine")
    with monkeypatch.context() as patched:
        patched.setattr("offsite.repository.removal._history", killed)
        with pytest.raises(KeyboardInterrupt):
            run(one, other)
    assert one.declared.history.backups[0].phase is BackupPhase.REMOVING
    if not has_rest:
        shutil.rmtree(place)
    shutil.copytree(tmp_path / "mine", place, dirs_exist_ok=True)
    assert "somebody restored the backup" in why(run(one, other))
    assert run(one, other).kept == ()
    assert one.is_there("old")
    assert len(one.repository.backup("old").sound_state().history) == 3


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_removal_that_was_killed_is_finished(moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = moved
    with monkeypatch.context() as patched:
        patched.setattr("offsite.repository.removal._history", killed)
        with pytest.raises(KeyboardInterrupt):
            run(one, other)
    assert run(one, other).removed == ("old",)
    assert [info.key for info in one.repository.store.list("backups/")] == ["backups/old/removed.json"]


# a person's word ------------------------------------------------------------------------------------------------------


def test_what_a_person_released_goes_though_it_does_not_compare(moved: tuple[Place, Place]) -> None:
    one, other = moved
    assert "no minimumRestorable" in why(run(one, other, minimum_ms=0))
    pin_point(one.repository.backup("old"), 1, reason="the audit")
    begun_restore(one, "old")
    plan = plan_release(one.repository, "old")
    assert (plan.topics, plan.records, plan.pins) == ("orders, users", 120, ("commit 1: the audit",))
    assert plan.restores == ("restore 20260101-000000-aaaa did not end, and can be continued",)
    assert "no minimumRestorable" in plan.kept
    assert release(one.repository, plan, reason="checked by hand").released
    assert run(one, other, minimum_ms=0).removed == ("old",)


def test_a_release_is_for_what_was_shown(moved: tuple[Place, Place]) -> None:
    one, other = moved
    plan = plan_release(one.repository, "old")
    release(one.repository, plan, reason="checked by hand")
    pin_point(one.repository.backup("old"), 1, reason="but keep this")
    with pytest.raises(PlanChanged):
        release(one.repository, plan, reason="again")
    assert why(run(one, other, minimum_ms=0)) == "old: its commit 1 is pinned: but keep this"


def test_what_runs_is_not_released(moved: tuple[Place, Place]) -> None:
    with pytest.raises(ResourceConflict):
        plan_release(moved[1].repository, "new")


def test_what_was_kept_is_told_in_the_repositories(moved: tuple[Place, Place]) -> None:
    done = run(*moved, minimum_ms=0)
    assert [get_kept_backups(place.repository.store, place.declared.layout) for place in moved] == [
        done.kept,
        done.kept,
    ]


# a stranger's word ----------------------------------------------------------------------------------------------------


def forge_release(place: Place, name: str) -> None:
    """As whoever may create objects can: the entry of a release, in the name of a person."""
    low = next(low for low in place.declared.history.backups if low.beginning.backup == name)
    last = last_commit(place.repository.store, name)
    said = ProposedEntry(kind=DeclaredEntryKind.RELEASED, number=low.number, release=Release(last=last, reason="old"))
    enter(place.repository.store, UID, lambda _: said, by=ProcessIdentity.current())


@pytest.fixture
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The operator runs on a machine on which nobody released anything."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))


@pytest.mark.usefixtures("_elsewhere")
def test_a_forged_release_removes_nothing_and_is_told(moved: tuple[Place, Place]) -> None:
    one, other = moved
    pin_point(one.repository.backup("old"), 1, reason="the audit")
    forge_release(one, "old")
    for _ in range(2):
        done = run(one, other, minimum_ms=0)
        assert done.removed == ()
        assert "was not given on this machine: it counts here from 2" in why(done)
        assert "release --refuse" in why(done)
    plan = plan_release(one.repository, "old")
    assert plan.released
    assert "it counts here from" in plan.doubt


@pytest.mark.usefixtures("_elsewhere")
def test_a_release_of_another_machine_counts_some_days_later(
    moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = moved
    forge_release(one, "old")
    assert run(one, other, minimum_ms=0).removed == ()
    with monkeypatch.context() as later:
        later.setattr(local_memory, "RELEASE_AFTER_MS", 0)
        assert run(one, other, minimum_ms=0).removed == ("old",)


@pytest.mark.usefixtures("_elsewhere")
def test_a_release_that_is_given_here_as_well_counts_at_once(moved: tuple[Place, Place]) -> None:
    one, other = moved
    forge_release(one, "old")
    assert release(one.repository, plan_release(one.repository, "old"), reason="it is right").doubt == ""
    assert run(one, other, minimum_ms=0).removed == ("old",)


@pytest.mark.usefixtures("_elsewhere")
def test_a_release_that_was_refused_never_counts(moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = moved
    with pytest.raises(BadOption, match="nobody released old"):
        refuse_release(one.repository, "old")
    forge_release(one, "old")
    assert "was refused on this machine" in refuse_release(one.repository, "old").doubt
    monkeypatch.setattr(local_memory, "RELEASE_AFTER_MS", 0)
    assert "was refused on this machine" in why(run(one, other, minimum_ms=0))


def test_a_release_counts_nowhere_where_nothing_is_remembered(
    moved: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = moved
    forge_release(one, "old")
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.setattr(local_memory, "RELEASE_AFTER_MS", 0)
    assert "Set XDG_STATE_HOME to a folder" in why(run(one, other, minimum_ms=0))


# a stranger's commit --------------------------------------------------------------------------------------------------


def let_all_go(backup: Backup, *, unpinned: tuple[int, ...] = ()) -> None:
    """As whoever may create objects can: a commit behind all, sealed or not, that leaves nothing of the records."""
    base = backup.state()
    expired = tuple(
        ExpiredRange(partition_id=known, start=0, end=listed.read()[-1].end, branch=LIVE)
        for known, listed in base.segments.items()
        if not unpinned
    )
    backup.commit(CommitChanges(expired=expired, unpinned=unpinned), base=base, writer="forged")


@pytest.fixture
def apart(one: Place, other: Place) -> tuple[Place, Place]:
    """`new` does not hold what `old` does."""
    one.begin("old")
    one.copy("old", BOTH)
    one.stop("old")
    other.begin("new", (one, "old"))
    other.copy("new", {ORDERS: ((50, 60), (50, 60)), USERS: ((0, 60),)})
    return one, other


def test_what_a_forged_commit_let_go_is_compared_all_the_same(apart: tuple[Place, Place]) -> None:
    assert "begins at offset 50 of orders/0" in why(run(*apart))
    let_all_go(apart[0].repository.backup("old"))
    told = why(run(*apart))
    assert "begins at offset 50 of orders/0" in told
    assert "deleted a part of the backup, and this machine does not accept the deletion" in told


def test_what_the_retention_of_this_machine_let_go_is_not_compared(apart: tuple[Place, Place]) -> None:
    backup = apart[0].repository.backup("old")
    let_all_go(backup)
    LetGoMemory(backup=backup).note_made(backup.state())
    assert run(*apart).removed == ("old",)


@pytest.mark.parametrize("is_deletion", [False, True])
def test_a_pin_that_a_stranger_took_off_holds(moved: tuple[Place, Place], *, is_deletion: bool) -> None:
    one, other = moved
    backup = one.repository.backup("old")
    pin_point(backup, 1, reason="legal hold")
    let_all_go(backup, unpinned=(1,))
    if is_deletion:
        with pytest.raises(ExpiryNotDone, match="its commit 1 was pinned: legal hold"):
            run(one, other, is_deletion=True)
    else:
        assert "its commit 1 was pinned: legal hold" in why(run(one, other))
    assert one.is_there("old")


def test_a_catalog_that_leaves_all_out_does_not_make_a_backup_empty(
    apart: tuple[Place, Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = apart[0].repository.backup("old")
    base = backup.state()
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    forged = replace(base, segments={}, positions={}, topics={}, loose_commits=1)
    backup.commit(CommitChanges(seal=True), base=forged, writer="forged")
    assert not backup.state().positions
    assert "contradicts the commits" in why(run(*apart))
    assert apart[0].is_there("old")
