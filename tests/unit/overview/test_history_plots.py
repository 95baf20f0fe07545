"""The plots of a backup show what its repository knows, say which span that is, and leave the rest out."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from offsite.model.errors import StoreUnavailable
from offsite.overview.backup_history import BackupHistory, HistoryReader, read_history
from offsite.overview.commit_figures import CommitFigures, FiguresCache, RecentCommits
from offsite.overview.comparison import SourceComparison, TopicComparison, TopicState
from offsite.overview.history_plots import (
    POINTS_MAX,
    headroom_plot,
    history_plots,
    proof_plot,
    record_age_plot,
    recovery_plot,
    stored_plot,
    throughput_plots,
)
from offsite.reports.plot import PlotStyle
from offsite.repository.commit import Commit
from offsite.repository.commit_history import CommitHistory, CommitSummary, HistoryBuilder
from offsite.repository.repository import Repository
from offsite.repository.snapshots.check_records import VerifyRecord, put_drill_report, put_verify_record
from offsite.repository.state import BackupState
from offsite.stores.posix_store import open_folder
from offsite.upkeep.verification.check_history import CheckHistory, PastCheck
from tests.batches import FIRST_TIME_MS
from tests.fake_cluster.site import Site, open_site
from tests.shifted_clock import shifted_clock

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
START_MS = FIRST_TIME_MS + HOUR_MS
READ, UPKEEP = CommitFigures(reads_source=True, newest_record_ms=START_MS), CommitFigures(reads_source=False)


def point(seq: int, at_ms: int, *, records: int = 0) -> CommitSummary:
    return CommitSummary(
        seq=seq, committed_at_ms=at_ms, records=records, raw_bytes=10 * records, stored_bytes=0, holes=0, checkpoint=-1
    )


def state_of(*times_ms: int) -> BackupState:
    builder = HistoryBuilder(CommitHistory())
    for seq, at_ms in enumerate(times_ms, 1):
        builder.append(Commit(backup="b", seq=seq, previous="", writer="w", committed_at_ms=at_ms))
    return BackupState(
        backup="b", seq=len(times_ms), committed_at_ms=times_ms[-1] if times_ms else 0, history=builder.build()
    )


def history_of(*times_ms: int, now_ms: int) -> BackupHistory:
    return BackupHistory(state=state_of(*times_ms), now_ms=now_ms)


def spans(plot: object, series: int = 0) -> list[tuple[int, int, float | None]]:
    shown = plot.series[series].spans  # type: ignore[attr-defined]
    return [(span.start_ms - START_MS, span.end_ms - START_MS, span.value) for span in shown]


def test_the_recovery_point_is_the_time_to_the_next_point_and_grows_until_now() -> None:
    plot = recovery_plot(
        history_of(START_MS, START_MS + HOUR_MS, START_MS + 3 * HOUR_MS, now_ms=START_MS + 4 * HOUR_MS)
    )
    assert spans(plot) == [(0, HOUR_MS, 3600), (HOUR_MS, 3 * HOUR_MS, 7200), (3 * HOUR_MS, 4 * HOUR_MS, 3600)]
    assert "3 restore points" in plot.note


def test_upkeep_is_no_sign_of_life() -> None:
    times_ms = (START_MS, START_MS + HOUR_MS)
    commits = RecentCommits(points=tuple(map(point, (1, 2), times_ms)), figures=(READ, UPKEEP))
    plot = recovery_plot(BackupHistory(state=state_of(*times_ms), now_ms=START_MS + 2 * HOUR_MS, commits=commits))
    assert spans(plot) == [(0, 2 * HOUR_MS, 7200)]


def test_a_backup_without_a_point_or_with_a_clock_that_went_back_has_an_honest_plot() -> None:
    assert "Nothing is known yet" in recovery_plot(history_of(now_ms=START_MS)).html()
    assert "Nothing is known yet" in recovery_plot(history_of(START_MS, now_ms=START_MS - HOUR_MS)).html()


def test_the_span_of_very_many_points_is_told() -> None:
    plot = recovery_plot(history_of(*range(START_MS, START_MS + POINTS_MAX + 5), now_ms=START_MS + DAY_MS))
    assert f"the newest {POINTS_MAX:,} of {POINTS_MAX + 5:,} restore points" in plot.note
    assert len(plot.html()) < 40_000


def test_the_newest_record_of_a_commit_is_as_old_as_the_repository_knows() -> None:
    commits = RecentCommits(
        points=tuple(point(seq, START_MS + seq * HOUR_MS, records=1) for seq in range(1, 6)),
        figures=(
            READ,
            UPKEEP,
            None,
            CommitFigures(reads_source=True),
            CommitFigures(reads_source=True, newest_record_ms=START_MS + DAY_MS),
        ),
    )
    plot = record_age_plot(commits)
    assert spans(plot) == [(HOUR_MS, HOUR_MS, 3600), (5 * HOUR_MS, 5 * HOUR_MS, 0)]
    assert "Of the newest 4 commits; 1 more were not read yet, or are too large." in plot.note


def test_throughput_counts_no_upkeep_and_nothing_that_is_not_known() -> None:
    commits = RecentCommits(
        points=tuple(
            point(seq, START_MS + at * 1000, records=100)
            for seq, at in ((1, 0), (2, 10), (3, 15), (4, 20), (7, 30), (8, 40))
        ),
        figures=(READ, READ, UPKEEP, READ, READ, None),
    )
    in_bytes, in_records = throughput_plots(commits)
    assert spans(in_records) == [(0, 10_000, 10), (10_000, 20_000, 10), (20_000, 30_000, None), (30_000, 40_000, None)]
    assert [value for _, _, value in spans(in_bytes)] == [100, 100, None, None]
    assert "not known" in in_bytes.html(), "commits 5 and 6 are no restore points any more"


def test_many_commits_are_averaged_and_a_gap_stays() -> None:
    points = tuple(point(seq, START_MS + seq * 1000, records=seq % 2) for seq in range(1, 201))
    figures = tuple(None if seq == 100 else READ for seq in range(1, 201))
    _, plot = throughput_plots(RecentCommits(points=points, figures=figures))
    values = [value for _, _, value in spans(plot)]
    assert 48 <= len(values) <= 101
    assert None in values
    assert all(value is None or 0 <= value <= 1 for value in values)


def test_the_source_deletes_soonest_what_comes_first() -> None:
    topics = tuple(
        TopicComparison(topic=f"t{number}", state=TopicState.BEHIND, headroom_s=float(number)) for number in range(12)
    )
    plot = headroom_plot(SourceComparison.of(topics, looked_ms=1))
    assert [bar.name for bar in plot.bars] == [f"t{number}" for number in range(10)]
    assert "earlier values are not recorded. The 10 shortest of 12." in plot.note
    assert "was not named" in headroom_plot(None).html()
    assert (
        "No look at the source has succeeded yet: it is away"
        in headroom_plot(SourceComparison(problem="it is away")).html()
    )
    assert "not known to delete" in headroom_plot(SourceComparison(looked_ms=1)).html()


def test_only_a_sound_check_ends_the_age_of_proof() -> None:
    checks = (
        PastCheck(kind="deep", ended_ms=START_MS, ok=True),
        PastCheck(kind="deep", ended_ms=START_MS + DAY_MS, ok=False),
        PastCheck(kind="drill", ended_ms=START_MS + DAY_MS, ok=None),
        PastCheck(kind="<b>", ended_ms=START_MS, ok=True),
    )
    plot = proof_plot(checks, START_MS + 2 * DAY_MS)
    verified, failed = plot.series
    assert verified.spans[-1].value == 2 * 86_400
    assert verified.spans[0].start_ms == START_MS
    assert (failed.style, len(failed.spans)) == (PlotStyle.BAD, 2)
    assert "restore drill: nothing was compared" in plot.html()
    assert "Nothing is known yet" in proof_plot((), START_MS).html()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three hourly runs; the second one found nothing new."""
    with open_site(tmp_path_factory.mktemp("site")) as opened, shifted_clock(START_MS) as clock:
        opened.source.make_topic("orders")
        opened.source.make_topic("tiny")
        for values in ([b"a" * 2000] * 10, [], [b"b"] * 5):
            opened.source.write("orders", values) if values else None
            opened.source.write("tiny", values[:1]) if values else None
            opened.back_up("*")
            clock.pass_ms(HOUR_MS)
        yield opened


def test_what_commits_say_is_read_once_and_within_a_limit(site: Site) -> None:
    state, cache = site.backup.readable_state(), FiguresCache()
    cache.fill(site.backup, state, bytes_max=10)
    assert set(cache.recent(state).figures) == {None}
    cache.fill(site.backup, state)
    some = cache.recent(state)
    assert [figures is not None and figures.reads_source for figures in some.figures] == [True] * len(some.points)
    assert some.figures[0] is not None
    assert some.figures[0].newest_record_ms == FIRST_TIME_MS + 9
    cache.fill(site.backup, state, bytes_max=0)
    assert cache.recent(state) == some, "kept"


def test_the_plots_of_a_backup_are_made_from_its_repository_alone(site: Site) -> None:
    history = read_history(site.backup)
    assert "None" not in "".join(plot.html() for plot in history_plots(history))
    stored = stored_plot(history.state)
    assert [bar.name for bar in stored.bars] == ["orders", "tiny"]
    assert "of 2 topics" in stored.note


def test_a_page_shows_what_is_known_in_time_and_the_next_one_the_rest(site: Site) -> None:
    reader, busy = HistoryReader(), threading.Event()
    with mock.patch.object(FiguresCache, "fill", side_effect=lambda *_, **__: busy.wait(60)):
        assert set(reader.read(site.backup, wait_s=0.01).commits.figures) == {None}
        assert set(reader.read(site.backup, wait_s=0.01).commits.figures) == {None}, "and no second thread"
        busy.set()
    reader.read(site.backup, wait_s=60)
    assert None not in reader.read(site.backup, wait_s=60).commits.figures
    for error in (StoreUnavailable("it is away"), ValueError("a mistake")):
        with mock.patch.object(FiguresCache, "fill", side_effect=error):
            assert None not in reader.read(site.backup, wait_s=60).commits.figures, "what was read stays"


def test_a_damaged_commit_is_not_known_and_hides_no_other(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(site.repository.store.url, folder)
    backup = Repository.open(open_folder(folder)).backup("nightly")
    state = backup.readable_state()
    key = folder / backup.layout.commit_key(1)
    key.chmod(0o600)
    key.write_bytes(b"{")
    cache = FiguresCache()
    cache.fill(backup, state)
    figures = cache.recent(state).figures
    assert figures[0] is None
    assert all(figure is not None for figure in figures[1:])


def test_checks_of_any_installation_are_listed_and_forged_dates_are_not(site: Site) -> None:
    backup, store, layout = site.backup, site.repository.store, site.backup.layout
    for at_ms, ok in ((START_MS, True), (START_MS + DAY_MS, False), (START_MS + 400 * DAY_MS, True)):
        record = VerifyRecord(
            depth="deep", verified_at_ms=at_ms, ok=ok, damaged=0 if ok else 1, commit=1, head_hash="", by="x"
        )
        put_verify_record(store, layout, record)
    put_drill_report(store, layout, "20260101-000000-00000000", {"ended": "nonsense"}, "<p>")
    history = CheckHistory()
    checks = history.read(backup, now_ms=START_MS + 2 * DAY_MS)
    assert [(check.kind, check.ok) for check in checks] == [("deep", True), ("deep", False)]
    assert history.read(backup, now_ms=START_MS + 2 * DAY_MS) == checks
