"""What whoever may create objects in a bucket, and neither delete nor overwrite, must not make offsite itself do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from offsite.model.errors import DamagedObject
from offsite.repository import catalog
from offsite.repository.commit import CommitChanges, Pin
from offsite.repository.commit_history import CommitHistory
from offsite.repository.json_form import FORMAT, encode_object
from offsite.upkeep.collection.agreement import RetentionInForce
from offsite.upkeep.collection.run import CollectionResult, collect, plan_collection
from offsite.upkeep.retention.apply import apply_retention, plan_retention
from offsite.upkeep.retention.pins import pin_point, unpin_point
from offsite.upkeep.retention.policy import RetentionPolicy
from tests.inline_runner import InlineRunner
from tests.worlds.retention.retained import DAY_MS, Retained, go_on, objects, twenty_days

LONG = RetentionPolicy(keep_age_ms=300 * DAY_MS)
WEEK = RetentionPolicy(keep_age_ms=7 * DAY_MS)


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(catalog, "COMMITS_PER_CATALOG", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "states"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def made() -> Retained:
    return twenty_days()


def collect_now(made: Retained, policy: RetentionPolicy = LONG) -> CollectionResult:
    plan = plan_collection(made.backup, clock=made.clock, grace_ms=0, in_force=RetentionInForce(policy=policy))
    return collect(made.backup, plan, runner=InlineRunner())


def apply(made: Retained, policy: RetentionPolicy = LONG) -> None:
    plan = plan_retention(made.backup, policy, clock=made.clock)
    made.note(apply_retention(made.backup, plan, clock=made.clock).state)


@pytest.mark.parametrize("is_collected_first", [False, True])
def test_a_forged_catalog_lets_nothing_go(made: Retained, *, is_collected_first: bool) -> None:
    """It leaves points out, so the backup's own retention finds that nobody needs the data, and leaves its lines."""
    if is_collected_first:
        collect_now(made)
    before, head = objects(made), made.backup.state()
    forged = replace(head, history=CommitHistory(head.history.between(head.seq, head.seq)))
    made.note(made.backup.commit(CommitChanges(seal=True), base=forged, writer="forged"))
    go_on(made)
    apply(made)
    go_on(made)
    assert made.backup.state().expired
    seal = made.backup.layout.seal_key(head.seq)
    with pytest.raises(DamagedObject, match=seal):
        collect_now(made)
    assert before <= objects(made)
    for key in [key for key in made.store.objects if "/catalog" in key]:  # as a person does who was told
        made.store.delete(key)
    (kept,) = collect_now(made).kept
    assert "keeps" in kept.why
    assert before <= objects(made)


def test_a_strangers_line_of_the_audit_hides_no_other(made: Retained) -> None:
    """What was let go would never be deleted."""
    seq = made.backup.state().seq
    told = {"at_ms": 0, "who": "x", "by": "x", "writer": "x", "kind": "x", "what": "x", "rule": "x", "bytes": 0}
    line = encode_object({"format": FORMAT, **told, "commit": seq + 1})
    made.store.put_if_absent(made.backup.layout.audit_key(seq, "00000000"), line)
    apply(made, WEEK)
    go_on(made)
    assert collect_now(made, WEEK).objects > 0


@pytest.mark.parametrize(
    "changes", [CommitChanges(unpinned=(3,)), CommitChanges(pinned=(Pin(seq=3, reason="law", until_ms=1),))]
)
def test_a_pin_that_a_stranger_took_off_keeps_the_data(made: Retained, changes: CommitChanges) -> None:
    """The backup's own retention lets the point go then."""
    made.note(pin_point(made.backup, 3, reason="law"))
    pinned = made.restored(3)
    forged = made.backup.commit(changes, base=made.backup.state(), writer="forged")
    made.note(forged)
    go_on(made)
    apply(made, WEEK)
    assert made.backup.state().history.find(3) is None
    go_on(made)
    (kept,) = collect_now(made, WEEK).kept
    assert (kept.commit, kept.why) == (forged.seq, "another installation removed the pin of commit 3")
    assert not [data for data in pinned[made.partition("a")].values() if data not in stored(made)]


def test_a_pin_that_was_taken_off_here_keeps_nothing(made: Retained) -> None:
    made.note(pin_point(made.backup, 3, reason="law"))
    pinned = made.restored(3)
    made.note(unpin_point(made.backup, 3))
    go_on(made)
    apply(made, WEEK)
    go_on(made)
    assert collect_now(made, WEEK).kept == ()
    assert not [data for data in pinned[made.partition("a")].values() if data in stored(made)]


def stored(made: Retained) -> set[bytes]:
    """The batches in segments that are still there, whoever lists them."""
    listed = (segment for seq in range(1, 21) for segment in made.backup.catalog.state(upto=seq).all_segments())
    return {data for segment in listed for data in made._batches(segment).values()}
