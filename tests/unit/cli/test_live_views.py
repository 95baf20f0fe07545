"""What the screen of a run says: rates, what is behind, by whom the run is held back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.backup.outages import Outage
from offsite.cli.app import app
from offsite.cli.commands.status_watch import StatusWatch
from offsite.cli.views.live import Activity, Rates, follow_frame
from offsite.engine.runner import RunProgress
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, KafkaUnreachable, StoreUnreachable
from offsite.monitor.view import FollowView, TopicView
from offsite.monitor.waiting import Waiting
from offsite.notify.event import EventKind
from offsite.overview.verdict_changes import VerdictChange, VerdictChanges
from offsite.repository.local_memory import LetGoMemory
from offsite.repository.repository import Repository
from offsite.stores.open_store import open_store
from tests.backups import new_backup, run_once

NOW_MS = 1_000_000_000_000
COPYING = RunProgress(
    tasks_total=5,
    tasks_done=2,
    tasks_failed=0,
    moved_bytes=30 << 20,
    records=1200,
    elapsed_s=10.0,
    worker_peak_rss_bytes=0,
    throttled_s=12.3,
    limited_s=3.0,
    note="the leader of orders/0 moves",
)


class StepClock(SystemClock):
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def view(*topics: TopicView, **fields: object) -> FollowView:
    defaults: Mapping[str, object] = {"backup": "shop", "interval_s": 10.0, "started_ms": NOW_MS - 245_000}
    return FollowView(topics=topics, **{**defaults, **fields})  # type: ignore[arg-type]


def lines(shown: FollowView, activity: Activity | None = None) -> list[str]:
    frame = follow_frame(shown, Rates(), activity or Activity(), now_ms=NOW_MS)
    return [line.strip() for line in frame.lines]


def test_a_run_that_has_just_begun_says_what_is_not_known() -> None:
    assert lines(view()) == [
        "backup shop: starting; running for 4 min 05 s, Ctrl-C ends the run in order",
        "last commit: none yet",
        "behind: not known before the first round ends",
        "held back: no",
        "copying: nothing at the moment",
    ]


def test_a_run_that_has_ended_says_so() -> None:
    assert lines(view(rounds=1), Activity(has_ended=True))[0] == "backup shop: catching up; ran for 4 min 05 s"


def test_what_is_behind_is_named_the_largest_first() -> None:
    topics = [TopicView(topic=f"t{lag}", lag_records=lag) for lag in (0, 7, 1000, 5, 6, -1)]
    shown = view(*topics, rounds=3, pass_complete=True)

    assert "behind: 1,018 records of t1000, t7, t6 and 1 more; not seen in the newest round: t-1" in lines(shown)
    table = follow_frame(shown, Rates(), Activity(), now_ms=NOW_MS).table
    assert [row[:2] for row in table.rows][:3] == [("t1000", "1,000"), ("t7", "7"), ("t6", "6")]
    assert table.rows[-1][:2] == ("t-1", "?")


def test_a_run_is_held_back_by_quota_limits_brokers_store_and_outage() -> None:
    quota_line = lines(view(rounds=1), Activity(progress=COPYING, is_copying=True))[3]
    assert quota_line == (
        "held back: by the cluster's quota, 12 s of all tasks together, by the limits of the command, 3 s of all tasks "
        "together, the leader of orders/0 moves"
    )
    waiting = Activity(waiting=Waiting(subject="the store has not answered a put", waited_s=7.2))
    assert lines(view(), waiting)[3] == "held back: the store has not answered a put, for 7 s now"
    outage = Outage(error=KafkaUnreachable("a:9092 refuses"), attempts=3, since_ms=NOW_MS - 65_000, wait_s=4)
    assert lines(view(outage=outage))[3] == (
        f"held back: an outage for 1 min 05 s now: [{KafkaUnreachable.id}] a:9092 refuses"
    )


def test_a_run_whose_rounds_do_not_end_says_so() -> None:
    quiet = view(rounds=3, pass_complete=True, round_ended_ms=NOW_MS - 3_600_000)
    assert "held back: no round has ended for 1 h 00 min" in lines(quiet)
    assert "held back: no" in lines(view(rounds=3, pass_complete=True, round_ended_ms=NOW_MS - 20_000))
    assert "held back: no" in lines(quiet, Activity(has_ended=True))


def test_progress_is_shown_while_it_is_made_and_the_throttling_of_the_newest_round_stays() -> None:
    assert "copying: 30.0 MiB, 1,200 records, 3.0 MiB/s, 2/5 tasks" in lines(
        view(), Activity(progress=COPYING, is_copying=True)
    )
    lines_after = lines(view(), Activity(progress=COPYING))
    assert "copying: nothing at the moment" in lines_after
    assert "by the cluster's quota" in lines_after[3]
    assert "moves" not in lines_after[3]


@pytest.mark.parametrize(("in_s", "text"), [(725.0, "in 12 min 05 s"), (-3.0, "in the next round")])
def test_the_next_checkpoint_is_told_where_there_is_a_schedule(in_s: float, text: str) -> None:
    assert f"next checkpoint: {text}" in lines(view(), Activity(checkpoint_in_s=in_s))
    assert not [line for line in lines(view()) if "checkpoint" in line]


def test_a_rate_is_that_of_the_last_minute() -> None:
    rates = Rates()
    assert rates.of("orders") is None
    for at_s, end in enumerate(range(0, 12_100, 100)):  # two minutes of 100 a second
        rates.look({"orders": end}, now_s=float(at_s))
    assert rates.of("orders") == pytest.approx(100)
    for at_s in range(121, 185):
        rates.look({"orders": 12_000, "late": at_s}, now_s=float(at_s))
    assert rates.of("orders") == 0
    assert rates.of("late") == pytest.approx(1)
    assert rates.of("unknown") is None


def test_a_rate_over_rounds_of_more_than_a_minute_is_that_of_the_last_round() -> None:
    rates = Rates()
    for at_s, end in ((0, 0), (600, 6000), (1200, 6000)):
        rates.look({"orders": end}, now_s=float(at_s))
    assert rates.of("orders") == 0


def test_the_status_is_watched_with_growth_and_told_when_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(str(tmp_path / "repository"))
    backup = new_backup(store)
    run_once(backup)
    clock = StepClock()
    watch = StatusWatch(Repository.open(store), clock)
    watch.look()
    assert watch.frame.lines[0].startswith("SAFE")
    clock.now_s = 10.0
    run_once(backup)
    watch.look_again()
    assert watch.frame.table.rows == [("b", "orders", "4.0"), ("b", "users", "2.0")]

    clock.now_s = 60.0  # a store that hangs
    assert watch.frame.lines[0] == "not read for 50 s: below is what was read before"
    assert watch.frame.lines[1].startswith("SAFE")

    def away(*_: object, **__: object) -> None:
        raise StoreUnreachable("no route")

    looked = LetGoMemory(backup=backup).last_look()
    assert looked is not None
    assert looked.commit == 1, "what went meanwhile would be told for five seconds alone"
    monkeypatch.setattr("offsite.cli.commands.status_watch.read_status", away)
    watch.look_again()
    assert watch.frame.lines[0].startswith("not read at ")
    assert watch.frame.lines[1].startswith("SAFE")


def test_whoever_watches_the_status_has_its_changes_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(str(tmp_path / "repository"))
    run_once(new_backup(store))
    changes, clock = list[VerdictChange](), StepClock()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    watched = VerdictChanges(changes.append, clock=clock, subject="file repository")
    watch = StatusWatch(Repository.open(store), clock, watched)
    watch.look()
    assert changes == []
    for file in (tmp_path / "repository" / "backups" / "b" / "commits").iterdir():
        file.write_bytes(b"")
    watch.look_again()
    assert [(change.kind, change.backup) for change in changes] == [(EventKind.NOT_SAFE, "b")]

    def away(*_: object, **__: object) -> None:
        raise StoreUnreachable("no route")

    monkeypatch.setattr("offsite.cli.commands.status_watch.read_status", away)
    for now_s in (0.0, 61.0):
        clock.now_s = now_s
        watch.look_again()
    assert changes[-1].kind is EventKind.UNREAD
    assert "OFF-1601: no route" in changes[-1].message


def test_the_watched_status_is_printed_once_without_a_terminal_and_writes_no_page(tmp_path: Path) -> None:
    run_once(new_backup(open_store(str(tmp_path / "repository"))))
    words = ["status", "--repo", str(tmp_path / "repository")]
    once, watched = CliRunner().invoke(app, words), CliRunner().invoke(app, [*words, "--watch"])
    assert (watched.exit_code, watched.output.split()[:2]) == (once.exit_code, once.output.split()[:2])
    refused = CliRunner().invoke(app, [*words, "--watch", "--html", str(tmp_path / "page.html")])
    assert isinstance(refused.exception, BadOption)
    assert not (tmp_path / "page.html").exists()
