"""Which restore points the rules keep, over histories that are only numbers and times."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from offsite.repository import commit_history
from offsite.repository.commit import Commit, CommitChanges, Pin
from offsite.repository.commit_history import CommitHistory, HistoryBuilder
from offsite.upkeep.retention.kept_points import (
    AGE,
    AHEAD,
    COMPLETE,
    NEWEST,
    PINNED,
    CommitKind,
    KeptPoints,
    bucket_start_ms,
    choose_always_kept,
    choose_by_rules,
    choose_pinned,
    dropped_spans,
    find_newest_complete,
    merge_chosen,
    unbroken_runs,
)
from offsite.upkeep.retention.policy import RetentionPolicy, parse_policy, parse_retain

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(autouse=True)
def _short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_history, "LINES_PER_CHUNK", 4)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def of(*times_ms: int, forgotten: tuple[tuple[int, int], ...] = ()) -> CommitHistory:
    """Commits 1, 2, …, at these times."""
    building = HistoryBuilder(CommitHistory())
    for seq, time_ms in enumerate(times_ms, start=1):
        changes = CommitChanges(forgotten=forgotten if seq == len(times_ms) else ())
        building.append(Commit(backup="b", seq=seq, previous="", writer="w", committed_at_ms=time_ms, changes=changes))
    return building.build()


def kept(
    history: CommitHistory, policy: RetentionPolicy, *, now_ms: int, incomplete: frozenset[int] = frozenset()
) -> list[tuple[int, str]]:
    chosen = choose_by_rules(
        history,
        policy,
        from_ms=now_ms,
        kind_of=lambda seq: CommitKind.INCOMPLETE if seq in incomplete else CommitKind.COMPLETE,
    )
    return [(seq, each.rule) for each in merge_chosen(history, chosen) for seq in range(each.first, each.last + 1)]


def test_all_within_an_age_stay() -> None:
    history = of(*(n * HOUR_MS for n in range(1, 11)))
    policy = parse_policy(keep_age="3h")
    assert kept(history, policy, now_ms=10 * HOUR_MS) == [(seq, AGE) for seq in (7, 8, 9, 10)]
    assert kept(history, policy, now_ms=10 * HOUR_MS + 1) == [(seq, AGE) for seq in (8, 9, 10)]
    assert kept(history, policy, now_ms=100 * HOUR_MS) == []


def test_the_newest_of_each_of_the_last_buckets_stays() -> None:
    days = [
        at("2026-01-30"),
        at("2026-01-31T00:00:00"),
        at("2026-01-31T23:59:59.999"),
        at("2026-02-01"),
        at("2026-03-31"),
    ]
    history = of(*days)
    assert kept(history, parse_policy(keep_daily=2), now_ms=at("2026-04-01")) == [(4, "daily"), (5, "daily")]
    assert kept(history, parse_policy(keep_daily=3), now_ms=at("2026-04-01")) == [(n, "daily") for n in (3, 4, 5)]
    assert kept(history, parse_policy(keep_monthly=9), now_ms=at("2026-04-01")) == [(n, "monthly") for n in (3, 4, 5)]
    assert kept(history, parse_policy(keep_yearly=1), now_ms=at("2026-04-01")) == [(5, "yearly")]


@pytest.mark.parametrize(
    ("rule", "time", "start"),
    [
        ("hourly", "2026-11-22T20:59:59.999", "2026-11-22T20:00"),
        ("daily", "2026-11-22T20:59", "2026-11-22"),
        ("weekly", "2026-11-22T23:59:59.999", "2026-11-16"),
        ("weekly", "2026-11-23T00:00", "2026-11-23"),
        ("monthly", "2024-02-29T12:00", "2024-02-01"),
        ("yearly", "2024-12-31T23:59:59.999", "2024-01-01"),
        ("weekly", "1970-01-01", "1969-12-29"),
    ],
)
def test_buckets_are_those_of_utc(rule: str, time: str, start: str) -> None:
    assert bucket_start_ms(rule, at(time)) == at(start)


def test_a_time_that_no_calendar_holds_lies_in_the_last_bucket() -> None:
    assert bucket_start_ms("yearly", 10**18) == at("9999-01-01")


def test_of_a_bucket_the_newest_complete_one_stays() -> None:
    history = of(*(n * HOUR_MS // 2 for n in range(1, 9)))
    policy = parse_policy(keep_hourly=2)
    assert kept(history, policy, now_ms=DAY_MS) == [(7, "hourly"), (8, "hourly")]
    assert kept(history, policy, now_ms=DAY_MS, incomplete=frozenset({7})) == [(6, "hourly"), (8, "hourly")]
    both = frozenset({6, 7})
    assert kept(history, policy, now_ms=DAY_MS, incomplete=both) == [(7, "hourly"), (8, "hourly")], "none is complete"


def test_what_only_looks_after_a_backup_takes_no_bucket_from_what_was_read() -> None:
    """Retention's own commits above all: of a backup that died they would push out what it read last, day by day."""
    history = of(*(n * DAY_MS for n in range(1, 11)))

    def kind_of(seq: int) -> CommitKind:
        return CommitKind.COMPLETE if seq in {1, 2, 4} else CommitKind.UPKEEP

    chosen = choose_by_rules(history, parse_policy(keep_daily=2), from_ms=20 * DAY_MS, kind_of=kind_of)
    assert [each.start for each in chosen] == [4, 2]


def test_of_a_bucket_without_a_complete_one_the_newest_pass_stays_and_no_upkeep() -> None:
    policy, kinds = (
        parse_policy(keep_daily=1),
        {1: CommitKind.INCOMPLETE, 2: CommitKind.INCOMPLETE, 3: CommitKind.UPKEEP},
    )
    found = list(choose_by_rules(of(1, 2, 3), policy, from_ms=9, kind_of=kinds.__getitem__))
    assert [each.start for each in found] == [2]
    assert list(choose_by_rules(of(1, 2, 3), policy, from_ms=9, kind_of=lambda _: CommitKind.UPKEEP)) == []
    many = list(choose_by_rules(of(*range(1, 300)), policy, from_ms=9, kind_of=lambda _: CommitKind.UPKEEP))
    assert [each.start for each in many] == [299], "what is not looked at may be worth keeping"


def test_points_of_one_moment_are_told_apart_by_number() -> None:
    history = of(5, 5, 5, 5, 5, 5)
    assert kept(history, parse_policy(keep_hourly=3), now_ms=10) == [(6, "hourly")]
    assert kept(history, parse_policy(keep_age="0s"), now_ms=5) == [(n, AGE) for n in range(1, 7)]


def test_a_clock_that_jumped_ahead_drops_nothing_of_what_came_then() -> None:
    history = of(HOUR_MS, 2 * HOUR_MS, *(900 * DAY_MS for _ in range(4)))
    complete = find_newest_complete(history, completed_at_ms=900 * DAY_MS, kind_of=lambda _: CommitKind.COMPLETE)
    always = choose_always_kept(history, now_ms=DAY_MS, complete=complete)
    found = merge_chosen(
        history,
        [
            *always,
            *choose_by_rules(
                history, parse_policy(keep_daily=1), from_ms=DAY_MS, kind_of=lambda _: CommitKind.COMPLETE
            ),
        ],
    )
    assert found == (
        KeptPoints(first=3, last=5, points=3, rule=AHEAD),
        KeptPoints(first=6, last=6, points=1, rule=NEWEST),
    )


def test_the_newest_and_the_newest_complete_one_stay_whatever_the_rules_are() -> None:
    history = of(*(n * DAY_MS for n in range(1, 9)))
    complete = find_newest_complete(
        history, completed_at_ms=6 * DAY_MS, kind_of=lambda seq: CommitKind.COMPLETE if seq == 5 else CommitKind.UPKEEP
    )
    found = merge_chosen(history, choose_always_kept(history, now_ms=DAY_MS * 100, complete=complete))
    assert [(each.first, each.rule) for each in found] == [(5, COMPLETE), (8, NEWEST)]


def test_a_pin_holds_until_its_end_and_for_ever_without_one() -> None:
    pins = (Pin(seq=1, reason="r"), Pin(seq=2, reason="r", until_ms=10))
    history = of(1, 2, 3)
    assert [each.first for each in merge_chosen(history, choose_pinned(pins, now_ms=9))] == [1, 2]
    assert merge_chosen(history, choose_pinned(pins, now_ms=10)) == (
        KeptPoints(first=1, last=1, points=1, rule=PINNED),
    )


def test_what_is_kept_and_dropped_is_told_in_spans() -> None:
    history = of(*range(1, 21), forgotten=((5, 8), (12, 13)))
    chosen = choose_by_rules(history, parse_policy(keep_age="17ms"), from_ms=20, kind_of=lambda _: CommitKind.COMPLETE)
    found = merge_chosen(history, chosen)
    assert found == (KeptPoints(first=3, last=20, points=14, rule=AGE),)
    assert unbroken_runs(history, found) == [(3, 5), (8, 12), (13, 21)], "a gap in the numbers is no unbroken run"
    assert dropped_spans(history, found) == [(1, 3)]


def test_nothing_is_said_to_go_that_went_before() -> None:
    history = of(*range(1, 21), forgotten=((2, 8), (12, 15)))
    pins = [Pin(seq=seq, reason="r") for seq in (1, 15)]
    assert dropped_spans(history, merge_chosen(history, choose_pinned(pins, now_ms=20))) == [(8, 12), (16, 21)]


def test_many_points_are_asked_for_by_place_and_not_one_by_one() -> None:
    history = of(*(n * HOUR_MS for n in range(5_000)))
    asked: list[int] = []
    policy = parse_policy(keep_age="10d", keep_daily=20, keep_monthly=7)
    found = list(
        choose_by_rules(
            history, policy, from_ms=5_000 * HOUR_MS, kind_of=lambda seq: asked.append(seq) or CommitKind.COMPLETE
        )
    )  # type: ignore[func-returns-value]
    assert len(found) == 28
    assert len(asked) == 27


def test_a_policy_is_read_from_options_and_from_one_text() -> None:
    policy = parse_policy(keep_age="7d", keep_monthly=84, max_bytes="10GiB", floor="3d")
    assert policy == RetentionPolicy(keep_age_ms=7 * DAY_MS, monthly=84, max_bytes=10 * 2**30, floor_ms=3 * DAY_MS)
    assert parse_retain("keep-age=7d, keep-monthly=84,max-bytes=10GiB,floor=3d") == policy
    assert (parse_retain("mirror"), parse_retain("off")) == (RetentionPolicy(), None)
    assert RetentionPolicy().mirrors
    assert RetentionPolicy(max_bytes=1).mirrors
    assert not RetentionPolicy(keep_age_ms=0).mirrors


@pytest.mark.parametrize(
    "text",
    [
        "",
        "on",
        "keep-age",
        "keep-age=",
        "keep-daily=-1",
        "keep-daily=1e3",
        "keep_daily=1,keep-daily=2",
        "keep-daily=99999",
        "x=1",
    ],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    from offsite.model.errors import BadOption

    with pytest.raises(BadOption):
        parse_retain(text)
