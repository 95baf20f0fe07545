"""What a collector believes: commits that let something go, forged and honest ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.overview.status import BackupStatus, read_status
from offsite.repository import catalog
from offsite.repository.commit import LIVE, CommitChanges, CompactedRange, ExpiredRange, Position, TopicShape
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.local_memory import LastLook
from offsite.repository.replaced import collected_hint
from offsite.repository.repository import Repository
from offsite.repository.snapshots.audit_record import POINTS, RANGE, Deletion, note_deletions
from offsite.repository.state import BackupState
from offsite.upkeep.collection.agreement import RetentionInForce
from offsite.upkeep.collection.run import CollectionResult, collect, plan_collection
from offsite.upkeep.retention.apply import apply_retention, describe_points, describe_range, plan_retention
from offsite.upkeep.retention.missing_points import let_go_since
from offsite.upkeep.retention.policy import RetentionPolicy
from tests.inline_runner import InlineRunner
from tests.worlds.retention.retained import DAY_MS, HOUR_MS, Retained, go_on, objects, twenty_days

WEEK = RetentionPolicy(keep_age_ms=7 * DAY_MS)
LONG = RetentionPolicy(keep_age_ms=300 * DAY_MS)


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def made() -> Retained:
    return twenty_days()


def collect_now(
    made: Retained, policy: RetentionPolicy | None = None, *, grace_ms: int = 0, accepted: int = 0
) -> CollectionResult:
    in_force = RetentionInForce(policy=policy, accepted=accepted)
    plan = plan_collection(made.backup, clock=made.clock, grace_ms=grace_ms, in_force=in_force)
    return collect(made.backup, plan, runner=InlineRunner())


def apply(made: Retained, policy: RetentionPolicy) -> BackupState:
    plan = plan_retention(made.backup, policy, clock=made.clock)
    done = apply_retention(made.backup, plan, clock=made.clock, force=bool(plan.clock_step))
    assert done.commit is not None
    made.note(done.state)
    return done.state


def forge(made: Retained, *, lines: bool, writer: str = "forged", expires: bool = True) -> BackupState:
    """Let go of all but the newest segment and point, as whoever may create objects can."""
    base = made.backup.state()
    known = made.partition("a")
    last = base.segments[known].read()[-1]
    expired = (ExpiredRange(partition_id=known, start=0, end=last.start, branch=LIVE),) if expires else ()
    forgotten = ((1, base.seq),)
    if lines:
        told = [Deletion(kind=POINTS, what=describe_points(1, base.seq - 1), rule="mine")]
        told += [Deletion(kind=RANGE, what=describe_range(each), rule="mine") for each in expired]
        note_deletions(made.store, made.backup.layout, told, by="retention", commit=base.seq, writer=writer)  # type: ignore[arg-type]
    state = made.backup.commit(CommitChanges(expired=expired, forgotten=forgotten), base=base, writer=writer)
    made.note(state)
    return state


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("policy", [None, LONG])
def test_nothing_goes_because_of_a_forged_commit(
    made: Retained, *, lines: bool, policy: RetentionPolicy | None
) -> None:
    before = objects(made)
    forged = forge(made, lines=lines)
    go_on(made)
    done = collect_now(made, policy)
    assert done.objects == 0
    assert before <= objects(made)
    (kept,) = done.kept
    assert kept.commit == forged.seq
    assert not kept.waits
    assert bool(kept.who) is lines
    assert collected_hint(made.backup).pending == (forged.seq,)
    assert [each.commit for each in collect_now(made, policy).kept] == [forged.seq]


def test_a_forged_commit_takes_no_more_than_the_policy_even_with_lines(made: Retained) -> None:
    before = objects(made)
    forge(made, lines=True)
    go_on(made)
    done = collect_now(made, WEEK)
    assert "keeps restore points of commits" in done.kept[0].why
    assert before <= objects(made)


def test_nobody_says_before_the_first_collection_that_commits_are_judged(made: Retained) -> None:
    """Who may create objects drops the points, and says that collections are past that."""
    before, layout = objects(made), made.backup.layout
    forged = forge(made, lines=True, expires=False)
    claim = encode_object({"format": FORMAT, "upto": forged.seq})
    made.store.put_if_absent(layout.collected_key, claim)
    go_on(made)
    apply(made, WEEK)
    go_on(made)
    assert collect_now(made, WEEK).objects == 0
    assert before <= objects(made)


def test_what_dropped_points_need_is_not_let_go_by_an_honest_retention_later(made: Retained) -> None:
    """Two steps: the points are dropped, and then the retention of the backup finds that nobody needs the data."""
    before = objects(made)
    forge(made, lines=True, expires=False)
    go_on(made)
    assert made.partition("a") in apply(made, WEEK).expired
    go_on(made)
    done = collect_now(made, WEEK)
    assert done.objects == 0
    assert before <= objects(made)


def test_a_forged_compaction_deletes_nothing(made: Retained) -> None:
    before = objects(made)
    base = made.backup.state()
    known = made.partition("a")
    listed = base.segments[known].read()[:-1]
    done = CompactedRange(partition_id=known, start=0, end=listed[-1].end)
    changes = CommitChanges(removed=tuple(each.key for each in listed), compacted=(done,))
    made.note(made.backup.commit(changes, base=base, writer="forged"))
    go_on(made)
    assert [each.why for each in collect_now(made, LONG).kept] == ["the audit has no line about the commit"]
    assert before <= objects(made)


def test_what_this_machine_let_go_is_collected_without_a_policy(made: Retained) -> None:
    before = objects(made)
    apply(made, WEEK)
    go_on(made)
    done = collect_now(made)
    assert done.objects > 0
    assert done.kept == ()
    assert not before <= objects(made)
    made.check()
    assert collect_now(made).objects == 0


def test_another_machine_with_the_same_policy_agrees(
    made: Retained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apply(made, WEEK)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "elsewhere"))
    go_on(made)
    assert collect_now(made, None).kept[0].why == "this machine has no retention policy"
    assert "keeps" in collect_now(made, LONG).kept[0].why
    assert collect_now(made, WEEK).objects > 0
    assert collected_hint(made.backup).pending == ()
    made.check()


def test_a_person_may_say_that_it_is_right(made: Retained) -> None:
    forged = forge(made, lines=False)
    go_on(made)
    assert collect_now(made, accepted=forged.seq - 1).objects == 0
    assert collect_now(made, accepted=forged.seq).objects > 0
    assert collect_now(made).kept == ()


def test_a_policy_that_was_made_longer_takes_back_what_is_not_collected_yet(made: Retained) -> None:
    apply(made, WEEK)
    go_on(made)
    assert collect_now(made, LONG).objects == 0
    assert collect_now(made, WEEK).objects > 0


def test_it_waits_from_when_this_machine_first_saw_the_commit(made: Retained) -> None:
    apply(made, WEEK)
    go_on(made)
    made.later(30 * DAY_MS)
    go_on(made)
    done = collect_now(made, WEEK, grace_ms=HOUR_MS)
    why = "the commit is new to this machine; the check begins in 3 h 00 min"
    forgets = "; if you see this after each start, set XDG_STATE_HOME to a persistent folder"
    assert [(each.waits, each.why) for each in done.kept] == [(False, why + forgets)]
    made.later(2 * HOUR_MS)
    assert collect_now(made, WEEK, grace_ms=HOUR_MS).objects == 0
    made.later(HOUR_MS)
    assert collect_now(made, WEEK, grace_ms=HOUR_MS).objects > 0
    made.check()


def test_the_log_says_what_to_do(made: Retained, caplog: pytest.LogCaptureFixture) -> None:
    forged = forge(made, lines=False)
    go_on(made)
    collect_now(made, WEEK)
    assert f"offsite collect run --accept-upto {forged.seq}" in caplog.text


def test_what_is_new_to_everybody_waits_in_silence(made: Retained) -> None:
    apply(made, WEEK)
    go_on(made)
    done = collect_now(made, WEEK, grace_ms=HOUR_MS)
    assert [each.waits for each in done.kept] == [True]


def test_nothing_goes_where_nothing_can_be_remembered(made: Retained, monkeypatch: pytest.MonkeyPatch) -> None:
    apply(made, WEEK)
    go_on(made)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    done = collect_now(made, WEEK)
    assert done.objects == 0
    assert "XDG_STATE_HOME" in done.kept[0].why


def status_of(made: Retained, *, looks: bool = True) -> BackupStatus:
    repository = Repository.open(made.store)  # type: ignore[arg-type]
    (found,) = read_status(repository, looks=looks).backups
    return found


def told(status: BackupStatus) -> list[tuple[str, int]]:
    return [(each.by, each.points) for each in status.let_go]


def test_status_tells_what_went_since_somebody_looked(made: Retained) -> None:
    assert status_of(made).let_go == ()
    apply(made, WEEK)
    assert told(status_of(made, looks=False)) == [("retention", 13)]
    shown = status_of(made)
    assert told(shown) == [("retention", 13)]
    assert "13 restore points deleted since you last looked: retention, by process" in shown.notes[0]
    assert shown.notes[0].endswith("as the audit says (offsite retention log)")
    assert status_of(made).let_go == ()


def test_status_goes_on_telling_what_nobody_left_a_line_about(made: Retained) -> None:
    status_of(made)
    apply(made, WEEK)
    forge(made, lines=False)
    for _ in range(2):
        shown = status_of(made)
        assert told(shown) == [("retention", 13), ("", 7)]
        assert not shown.safe
        assert "7 restore points deleted since you last looked: without an audit line" in shown.problems


def test_metrics_count_what_goes(made: Retained) -> None:
    look = LastLook.at(made.backup.state())
    apply(made, WEEK)
    forge(made, lines=False)
    gone = let_go_since(made.backup, look, made.backup.state())
    assert {each.by: each.points for each in gone} == {"retention": 13, "": 7}


@pytest.mark.parametrize("how", ["expires", "forgets", "removes"])
def test_what_a_stranger_lists_in_a_topic_of_the_same_name_stays_with_what_was_dropped(
    made: Retained, how: str
) -> None:
    """Keys do not name the incarnation: the honest retention of the made-up topic names objects of the real one."""
    base = made.backup.state()
    twin = TopicShape(topic="a", topic_id="twin", partitions=1, replication_factor=1, deleted_ms=made.clock.now_ms())
    (twin_id,) = twin.partition_ids
    listed = tuple(replace(segment, topic_id="twin") for segment in base.segments[made.partition("a")].read()[:-1])
    keys = {segment.key for segment in listed}
    if how == "forgets":  # and the real retention drops the data
        forge(made, lines=True, expires=False)
    if how == "removes":  # without a word about what replaced it
        made.note(made.backup.commit(CommitChanges(removed=tuple(sorted(keys))), base=base, writer="forged"))
        go_on(made)
        (kept,) = collect_now(made, WEEK).kept
        assert "does not say" in kept.why
    position = Position(partition_id=twin_id, log_start=0, end=listed[-1].end)
    changes = CommitChanges(topics=(twin,), segments=listed, positions=(position,))
    made.note(made.backup.commit(changes, base=made.backup.state(), writer="forged"))
    if how == "expires":
        forge(made, lines=True)
    go_on(made)
    if how == "forgets":
        apply(made, WEEK)
        go_on(made)
    collect_now(made, WEEK)
    made.later(8 * DAY_MS)
    made.commit()
    assert twin_id in apply(made, WEEK).expired
    assert twin_id not in made.backup.state().segments
    go_on(made)
    collect_now(made, WEEK)
    assert keys <= objects(made)
    collect_now(made, WEEK, accepted=made.backup.state().seq)
    assert not keys & objects(made)
