from __future__ import annotations

import pytest

from bench.at_scale.stage import CHAIN, CORES, Committing, Work, run_stage


def test_three_tasks_on_two_slots_take_the_time_that_one_reckons_by_hand() -> None:
    works = [Work(slot_s=4, size_bytes=40), Work(slot_s=1, size_bytes=10), Work(slot_s=2, size_bytes=20)]

    ran = run_stage(works, slots=2, limits={})

    assert (ran.seconds, ran.slot_s, ran.size_bytes) == (4, 7, 70)
    assert ran.curve == [(0, 0), (1, 10), (3, 30), (4, 70)]
    assert ran.bound_s == {CORES: 3, CHAIN: 1}


def test_what_is_shared_slows_all_down_alike_and_is_free_again_afterwards() -> None:
    """Two want 10 a second each of 10 in all: half as fast. When one has ended, the other one has it alone."""
    works = [Work(slot_s=2, size_bytes=20, uses={"net": 20}), Work(slot_s=5, size_bytes=50, uses={"net": 50})]

    ran = run_stage(works, slots=2, limits={"net": 10})

    assert ran.curve == [(0, 0), (4, 20), (7, 70)]
    assert ran.bound_s == {"net": 4, CHAIN: 3}
    assert ran.bound_by == "net"


def test_a_resource_that_nobody_exhausts_bounds_nothing() -> None:
    ran = run_stage([Work(slot_s=2, size_bytes=20, uses={"net": 20})], slots=1, limits={"net": 11})

    assert (ran.seconds, ran.bound_by) == (2, CORES)


def test_commits_run_beside_the_copy_until_the_driver_falls_behind() -> None:
    """Four tasks of a second, a commit after each two that takes 5 s, and the last one."""
    works = [Work(slot_s=1, size_bytes=10) for _ in range(4)]
    committing = _committing(write_s=5.0, every_bytes=20)

    ran = run_stage(works, slots=1, limits={}, committing=committing)

    assert (ran.copied_s, ran.commits) == (4, 3)
    assert ran.seconds == 2 + 5 + 5 + 5


def test_a_commit_waits_for_some_times_what_the_last_search_took() -> None:
    """One is made after 1 s, and takes 2; the next ones 3 times that later."""
    works = [Work(slot_s=1, size_bytes=10) for _ in range(20)]

    ran = run_stage(works, slots=1, limits={}, committing=_committing(search_s=2.0, times_longer=3))

    assert ran.commits == 4, "at 1 s, 9 and 17, and at the end"
    assert (ran.copied_s, ran.seconds, ran.commit_s, ran.search_s, ran.unsaved_s) == (20, 22, 8, 8, 8)


def test_no_commit_waits_for_what_writing_the_last_one_took() -> None:
    """One is made after 1 s, and takes 2, of which half a second is the search; the next ones 3 times that later."""
    works = [Work(slot_s=1, size_bytes=10) for _ in range(20)]

    ran = run_stage(works, slots=1, limits={}, committing=_committing(search_s=0.5, write_s=1.5, times_longer=3))

    assert ran.commits == 6, "at 1 s, 5, 9, 13 and 17, and at the end"
    assert (ran.copied_s, ran.seconds, ran.commit_s, ran.search_s, ran.unsaved_s) == (20, 22, 12, 3, 4)


def test_a_search_goes_over_all_that_the_pass_has_brought_and_a_commit_says_what_is_new() -> None:
    brought: list[int] = []
    new: list[int] = []
    committing = Committing(
        search_s=lambda segments: brought.append(segments) or 0.0,
        write_s=lambda segments: new.append(segments) or 0.0,
        every_bytes=20,
        every_s=1e9,
    )

    works = [Work(slot_s=1, size_bytes=10, segments=number) for number in (1, 2, 3, 4, 5)]
    ran = run_stage(works, slots=1, limits={}, committing=committing)

    assert (brought, new) == ([3, 10, 15], [3, 7, 5])
    assert ran.most_new == 7


def test_a_commit_is_due_after_a_time_as_well() -> None:
    works = [Work(slot_s=100, size_bytes=1) for _ in range(7)]
    committing = _committing(every_bytes=1e9, every_s=300)

    assert run_stage(works, slots=1, limits={}, committing=committing).commits == 3


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_no_work_is_lost_or_done_twice(slots: int) -> None:
    works = [Work(slot_s=1 + n % 5, size_bytes=n, uses={"net": 3.0 * n}) for n in range(1, 50)]

    ran = run_stage(works, slots=slots, limits={"net": 40})

    assert ran.size_bytes == sum(work.size_bytes for work in works)
    assert ran.slot_s == pytest.approx(sum(work.slot_s for work in works))
    assert ran.copied_s == pytest.approx(sum(ran.bound_s.values()))
    assert ran.copied_s >= sum(work.uses["net"] for work in works) / 40 * 0.999


def _committing(
    *,
    search_s: float = 0.0,
    write_s: float = 0.0,
    every_bytes: float = 10,
    every_s: float = 1e9,
    times_longer: float = 0.0,
) -> Committing:
    """With commits that all take the same."""
    return Committing(
        search_s=lambda _brought: search_s,
        write_s=lambda _new: write_s,
        every_bytes=every_bytes,
        every_s=every_s,
        times_longer=times_longer,
    )
