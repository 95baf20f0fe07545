"""The plots of a backup: recovery point, throughput, stored bytes, headroom, age of proof. Pure.

Each plot says which span of time it shows, and of what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from offsite.model.names import amount
from offsite.overview.backup_history import BackupHistory
from offsite.overview.commit_figures import RecentCommits
from offsite.overview.comparison import SourceComparison
from offsite.reports.axis import Unit
from offsite.reports.bar_plot import Bar, BarPlot, largest
from offsite.reports.plot import SPANS_MAX, PlotSeries, PlotSpan, PlotStyle, TimePlot, joined_at_most
from offsite.repository.snapshots.check_records import DEEP
from offsite.repository.state import BackupState
from offsite.upkeep.verification.check_history import DRILL, PastCheck

POINTS_MAX = 20_000
"""The newest restore points whose times a plot shows."""
SHORTEST_MAX = 10
"""Topics with the least headroom that are shown."""
_STAIRS = 12
"""Steps in which an age is drawn at most, between two checks."""
_KINDS = {DEEP: "every byte verified", "quick": "quick check", DRILL: "restore drill"}
_STYLES = {DEEP: PlotStyle.FIRST, "quick": PlotStyle.SECOND, DRILL: PlotStyle.THIRD}


def history_plots(history: BackupHistory) -> tuple[TimePlot | BarPlot, ...]:
    """All plots, the most urgent first."""
    return (
        recovery_plot(history),
        headroom_plot(history.source),
        record_age_plot(history.commits),
        *throughput_plots(history.commits),
        stored_plot(history.state),
        proof_plot(history.checks, history.now_ms),
    )


def recovery_plot(history: BackupHistory) -> TimePlot:
    """How old the newest restore point became before the next one. The last one grows until now. A commit that is known
    to be upkeep is no sign of life."""
    state, now_ms = history.state, history.now_ms
    count = len(state.history)
    first = state.history[max(0, count - POINTS_MAX)].seq if count else 0
    upkeep = {point.seq for point, figures in history.commits.read() if not figures.reads_source}
    seqs, times_ms = state.history.between(first, state.seq)[:2]
    made = [time_ms for seq, time_ms in zip(seqs, times_ms, strict=True) if seq not in upkeep]
    spans = [
        PlotSpan(start_ms=made_ms, end_ms=next_ms, value=(next_ms - made_ms) / 1000)
        for made_ms, next_ms in pairwise((*made, max(now_ms, state.committed_at_ms)))
        if next_ms > made_ms
    ]
    newest = f"the newest {len(times_ms):,} of " if len(times_ms) < count else ""
    return TimePlot(
        title="Recovery point: age of the newest restore point, at worst",
        unit=Unit.SECONDS,
        series=(PlotSeries(name="age", spans=joined_at_most(spans)),),
        note=(
            f"By {newest}{amount(count, 'restore point')} that the backup keeps, until now. Where retention dropped "
            "points, the kept ones are further apart."
        ),
        last_ms=now_ms,
    )


def record_age_plot(commits: RecentCommits) -> TimePlot:
    """How old the newest record of each commit was when the commit was made. A producer's clock that is ahead makes no
    record newer than its commit."""
    spans = [
        PlotSpan(
            start_ms=point.committed_at_ms,
            end_ms=point.committed_at_ms,
            value=max(0, point.committed_at_ms - figures.newest_record_ms) / 1000,
            note=f"commit {point.seq}",
        )
        for _, point, figures in commits.by_source()
        if figures is not None and figures.newest_record_ms >= 0
    ]
    return TimePlot(
        title="Age of the newest record of each commit, when it was made",
        unit=Unit.SECONDS,
        series=(PlotSeries(name="newest record", spans=_thinned(spans)),),
        note=f"{_of_commits(commits)} By the times in the records. Commits without new records have none.",
    )


def throughput_plots(commits: RecentCommits) -> tuple[TimePlot, TimePlot]:
    """Bytes and records that each commit added, over the time since the commit before."""
    steps = list(_steps(commits))
    note = f"{_of_commits(commits)} Averages over the time since the commit before; a run itself may be much faster."
    return (
        TimePlot(
            title="Backed up per second, in bytes of the log",
            unit=Unit.BYTES_PER_S,
            series=(PlotSeries(name="bytes", spans=tuple(_rates(steps, "raw_bytes"))),),
            note=note,
        ),
        TimePlot(
            title="Backed up per second, in records",
            unit=Unit.RECORDS_PER_S,
            series=(PlotSeries(name="records", spans=tuple(_rates(steps, "records"))),),
            note=note,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What was added between two commits that read the source; None: not known."""

    start_ms: int
    end_ms: int
    raw_bytes: int | None
    records: int | None
    commits: int = 1


def _steps(commits: RecentCommits) -> Iterator[_Step]:
    previous_ms = None
    for before, point, figures in commits.by_source():
        is_known = before is not None and figures is not None
        start_ms = before.committed_at_ms if before is not None else previous_ms
        if start_ms is not None and point.committed_at_ms > start_ms:
            yield _Step(
                start_ms=start_ms,
                end_ms=point.committed_at_ms,
                raw_bytes=point.raw_bytes if is_known else None,
                records=point.records if is_known else None,
            )
        previous_ms = point.committed_at_ms


def _rates(steps: Sequence[_Step], what: str) -> Iterator[PlotSpan]:
    """Neighbours are averaged where there are too many; a gap only with gaps."""
    width_ms = (steps[-1].end_ms - steps[0].start_ms) / SPANS_MAX if len(steps) > SPANS_MAX else 0
    group: list[_Step] = []
    for step in (*steps, None):
        is_joined = (
            step is not None
            and bool(group)
            and group[-1].end_ms == step.start_ms
            and (group[-1].records is None) == (step.records is None)
            and step.end_ms - group[0].start_ms <= width_ms
        )
        if group and not is_joined:
            yield _rate(group, what)
            group = []
        if step is not None:
            group.append(step)


def _rate(group: Sequence[_Step], what: str) -> PlotSpan:
    start_ms, end_ms = group[0].start_ms, group[-1].end_ms
    amounts: list[int] = [getattr(step, what) for step in group if step.records is not None]
    note = amount(len(group), "commit") if len(group) > 1 else ""
    value = sum(amounts) * 1000 / (end_ms - start_ms) if amounts else None
    return PlotSpan(start_ms=start_ms, end_ms=end_ms, value=value, note=note)


def stored_plot(state: BackupState) -> BarPlot:
    """The bytes that the backup holds now, by topic; all incarnations of a name together."""
    stored: Counter[str] = Counter()
    for partition_id, segments in state.segments.items():
        stored[partition_id.topic] += segments.figures().stored_bytes
    total = f"{Unit.BYTES.describe(stored.total())} of {amount(len(stored), 'topic')}"
    return BarPlot(
        title="Stored bytes by topic",
        unit=Unit.BYTES,
        of="Topic",
        bars=largest(Bar(name=topic, value=size) for topic, size in stored.items()),
        note=f"Now, in the store: {total} together.",
    )


def headroom_plot(source: SourceComparison | None) -> BarPlot:
    """The topics of which the source deletes first what no commit has."""
    topics = source.topics if source is not None else ()
    timed = sorted((topic.headroom_s, topic.topic) for topic in topics if topic.headroom_s is not None)
    return BarPlot(
        title="Headroom: time until the source may delete what is not backed up",
        unit=Unit.SECONDS,
        of="Topic",
        bars=tuple(Bar(name=topic, value=room_s) for room_s, topic in timed[:SHORTEST_MAX]),
        note=_headroom_note(source, len(timed)),
    )


def _headroom_note(source: SourceComparison | None, timed: int) -> str:
    if source is None:
        return "Known only beside the living cluster, which was not named."
    if source.looked_ms < 0:
        return f"No look at the source has succeeded yet: {source.problem}"
    if not timed:
        return "As of the newest look, the source is not known to delete anything that is not backed up."
    left_out = f" The {SHORTEST_MAX} shortest of {timed:,}." if timed > SHORTEST_MAX else ""
    return f"As of the newest look at the source; earlier values are not recorded.{left_out}"


def proof_plot(checks: Iterable[PastCheck], now_ms: int) -> TimePlot:
    """How old the last sound check of each kind was. A check that found damage, or proved nothing, ends no age."""
    shown = [check for check in checks if check.kind in _KINDS]
    series = [_ages(kind, [check for check in shown if check.kind == kind], now_ms) for kind in _KINDS]
    bad = [check for check in shown if not check.ok]
    failed = PlotSeries(
        name="damage, or not proven",
        style=PlotStyle.BAD,
        spans=tuple(
            PlotSpan(start_ms=check.ended_ms, end_ms=check.ended_ms, value=0.0, note=_outcome(check)) for check in bad
        ),
    )
    return TimePlot(
        title="Age of proof: time since the last sound check or drill",
        unit=Unit.SECONDS,
        series=tuple(line for line in (*series, failed) if line.spans),
        note=(
            "Checks of the last 40 days and the newest drills, as recorded in the repository by any installation: who "
            "may write there can add records. Nothing is known of the time before the first one."
        ),
        last_ms=now_ms,
    )


def _ages(kind: str, checks: Sequence[PastCheck], now_ms: int) -> PlotSeries:
    """A stair for each sound check, up to the next one."""
    times_ms = [check.ended_ms for check in checks if check.ok]
    spans: list[PlotSpan] = []
    for made_ms, next_ms in pairwise((*times_ms, max(now_ms, *times_ms, 0))):
        steps = max(1, min(_STAIRS, SPANS_MAX // max(1, len(times_ms))))
        edges = [made_ms + (next_ms - made_ms) * step // steps for step in range(steps + 1)]
        spans += [
            PlotSpan(start_ms=low_ms, end_ms=high_ms, value=(high_ms - made_ms) / 1000)
            for low_ms, high_ms in pairwise(edges)
            if high_ms > low_ms
        ]
    return PlotSeries(name=_KINDS[kind], style=_STYLES[kind], spans=tuple(spans))


def _outcome(check: PastCheck) -> str:
    return f"{_KINDS[check.kind]}: " + ("nothing was compared" if check.ok is None else "damage, or not proven")


def _thinned(moments: Sequence[PlotSpan]) -> tuple[PlotSpan, ...]:
    """The oldest of neighbours, where there are too many."""
    size = -(-len(moments) // (2 * SPANS_MAX)) or 1
    groups = (moments[start : start + size] for start in range(0, len(moments), size))
    return tuple(max(group, key=lambda moment: moment.value or 0.0) for group in groups)


def _of_commits(commits: RecentCommits) -> str:
    read = sum(figures is not None for figures in commits.figures)
    unread = len(commits.points) - read
    rest = f"; {unread:,} more were not read yet, or are too large" if unread else ""
    return f"Of the newest {amount(read, 'commit')}{rest}."
