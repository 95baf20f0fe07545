"""The queue of those whose old data goes: few at a time, none twice at once, nobody forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from offsite.operator.decide.queue import ExpiryQueue, QueueRules, QueueSnapshot, RunningJob, step

RULES = QueueRules()


def look(now_s: float, *known: str, deleting: tuple[str, ...] = (), alive: tuple[str, ...] = ()) -> QueueSnapshot:
    """Backups are of the namespace that is written before `/`."""
    owners = {uid: uid.partition("/")[0] if "/" in uid else "" for uid in (*known, *alive)}
    return QueueSnapshot(now_s=now_s, uids=known, deleting=deleting, alive=alive, owners=owners)


def begun_in_turn(seconds: int, *known: str, deleting: tuple[str, ...] = (), job_s: int = 5) -> list[str]:
    """Whose jobs begin in so many seconds, where each takes `job_s`, and those to be deleted fail for ever."""
    queue, ends_s, begun = ExpiryQueue(), dict[str, float](), list[str]()
    for now_s in range(0, seconds, 2):
        alive = tuple(uid for uid, end_s in ends_s.items() if end_s > now_s)
        found = step(queue, RULES, look(now_s, *known, deleting=deleting, alive=alive))
        queue = found.queue
        for uid in (*found.kill, *found.end):
            ends_s[uid] = now_s
        for uid in found.begin:
            begun.append(uid)
            ends_s[uid] = now_s + job_s
    return begun


def test_one_of_each_namespace_comes_after_the_other() -> None:
    begun = begun_in_turn(3600, "many/1", "many/2", "many/3", "many/4", "few/1")
    assert begun == ["many/1", "few/1", "many/2", "few/1", "many/3", "few/1"]


def test_deletions_of_a_namespace_keep_no_other_from_its_turn() -> None:
    gone = tuple(f"evil/{number}" for number in range(9))
    begun = begun_in_turn(1800, *gone, "shops/1", deleting=gone)
    assert begun.count("shops/1") == 3, "one in ten minutes, as without them"
    begun = begun_in_turn(100, *gone, "shops/gone", deleting=(*gone, "shops/gone"))
    assert begun[:4] == ["evil/0", "shops/gone", "evil/1", "shops/gone"]


def test_a_job_that_gets_on_for_ever_ends_when_another_namespace_waits_and_an_hour_has_passed() -> None:
    begun = begun_in_turn(4 * 3600, "evil/1", "shops/1", job_s=10**9)
    assert begun[:3] == ["evil/1", "shops/1", "evil/1"]
    assert begun_in_turn(4 * 3600, "evil/1", "evil/2", job_s=10**9)[:1] == ["evil/1"]


def test_a_job_of_a_namespace_that_is_alone_may_take_longer() -> None:
    def at(now_s: float, *known: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        running = (RunningJob(uid="shops/1", since_s=7000, begun_s=0),)
        found = step(ExpiryQueue(running=running), RULES, look(now_s, *known, alive=("shops/1",)))
        return found.end, found.begin

    assert at(7200, "shops/1", "shops/2") == ((), ())
    assert at(3600, "shops/1", "others/1") == ((), ())
    assert at(7200, "shops/1", "others/1") == (("shops/1",), ("others/1",))


def test_one_runs_at_a_time_and_the_next_one_ten_minutes_later() -> None:
    first = step(ExpiryQueue(), RULES, look(0, "a", "b"))
    assert (first.begin, first.queue.waiting) == (("a",), ("b", "a")), "the entry goes to the end"
    assert step(first.queue, RULES, look(1, "a", "b", alive=("a",))).begin == ()
    assert step(first.queue, RULES, look(599, "a", "b")).begin == (), "it ended early: still ten minutes"
    assert step(first.queue, RULES, look(600, "a", "b", alive=("a",))).begin == ()
    assert step(first.queue, RULES, look(600, "a", "b")).begin == ("b",)


def test_the_interval_and_the_number_at_once_are_options() -> None:
    found = step(ExpiryQueue(), QueueRules(at_once=2, retry_s=5), look(0, "a", "b", "c"))
    assert (found.begin, found.queue.until_s) == (("a", "b"), 5)


def test_a_backup_has_one_job_at_once_however_many_may_run() -> None:
    rules = QueueRules(at_once=3)
    first = step(ExpiryQueue(), rules, look(0, "a"))
    assert step(first.queue, rules, look(600, "a", alive=("a",))).begin == ()


def test_one_that_shows_nothing_for_an_hour_is_killed_and_the_next_one_begins() -> None:
    first = step(ExpiryQueue(), RULES, look(0, "a", "b"))
    late = step(first.queue, RULES, look(3601, "a", "b", alive=("a",)))
    assert (late.kill, late.begin) == (("a",), ("b",))


def test_who_is_to_be_deleted_comes_first_and_does_not_wait() -> None:
    first = step(ExpiryQueue(), RULES, look(0, "a", "b", "c"))
    woken = step(first.queue, RULES, look(30, "a", "b", "c", deleting=("c",)))
    assert woken.begin == ("c",)
    assert step(first.queue, RULES, look(30, "a", "b", "c", deleting=("c",), alive=("a",))).begin == ()


def test_a_deletion_that_fails_again_and_again_keeps_nobody_from_a_turn() -> None:
    queue, ends_s, rests_s, begun = ExpiryQueue(), dict[str, float](), 0.0, list[str]()
    for now_s in range(0, 3000, 2):
        alive = tuple(uid for uid, end_s in ends_s.items() if end_s > now_s)
        known = ("a", "b", "gone") if now_s >= rests_s else ("a", "b")
        found = step(queue, RULES, look(now_s, *known, deleting=("gone",), alive=alive))
        queue = found.queue
        for uid in found.begin:
            begun.append(uid)
            ends_s[uid] = now_s + 5
            rests_s = now_s + 20 if uid == "gone" else rests_s
    assert (begun.count("a"), begun.count("b")) == (3, 2), "one in ten minutes, as ever"


def test_who_is_gone_has_no_entry_and_who_comes_gets_one() -> None:
    first = step(ExpiryQueue(), RULES, look(0, "a", "b"))
    assert step(first.queue, RULES, look(1, "b", "d")).queue.waiting == ("b", "d")


@given(st.lists(st.tuples(st.integers(0, 2000), st.sets(st.sampled_from("abcdef"))), max_size=40), st.integers(1, 3))
def test_everybody_gets_a_turn_and_never_too_many(moments: list[tuple[int, set[str]]], at_once: int) -> None:
    rules, queue, now_s, begun = QueueRules(at_once=at_once, retry_s=100), ExpiryQueue(), 0.0, dict[str, float]()
    for passed, known in moments:
        now_s += passed
        alive = tuple(uid for uid, since in begun.items() if now_s - since < 50)
        found = step(queue, rules, look(now_s, *sorted(known), alive=alive))
        assert not set(found.begin) & set(alive)
        assert len(found.begin) + len(alive) <= at_once or not found.begin
        assert sorted(found.queue.waiting) == sorted(known)
        begun |= dict.fromkeys(found.begin, now_s)
        queue = found.queue
    last = set(moments[-1][1]) if moments else set()
    for _ in range(len(last) + 1):
        now_s += 100
        found = step(queue, rules, look(now_s, *sorted(last)))
        queue, begun = found.queue, begun | dict.fromkeys(found.begin, now_s)
    assert last <= set(begun)
