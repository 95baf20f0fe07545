"""The progress of several runs in sequence, shown as one run."""

from __future__ import annotations

from dataclasses import replace

from offsite.engine.runner import OnProgress, RunProgress


class WholeProgress:
    """The progress callback of every run; call `next_run` between two runs. `tasks_total`: tasks of all runs, where
    known; else the tasks of later runs are added when they begin."""

    def __init__(self, on_progress: OnProgress | None, *, tasks_total: int | None = None) -> None:
        self._on_progress = on_progress
        self._tasks_total = tasks_total
        self._before: RunProgress | None = None
        self._now: RunProgress | None = None

    def __call__(self, now: RunProgress) -> None:
        self._now = now if self._before is None else _sum(self._before, now)
        if self._on_progress is not None:
            total = self._now.tasks_total if self._tasks_total is None else self._tasks_total
            self._on_progress(replace(self._now, tasks_total=total))

    def next_run(self) -> None:
        self._before = self._now


def _sum(before: RunProgress, now: RunProgress) -> RunProgress:
    return RunProgress(
        tasks_total=before.tasks_total + now.tasks_total,
        tasks_done=before.tasks_done + now.tasks_done,
        tasks_failed=before.tasks_failed + now.tasks_failed,
        moved_bytes=before.moved_bytes + now.moved_bytes,
        records=before.records + now.records,
        elapsed_s=before.elapsed_s + now.elapsed_s,
        worker_peak_rss_bytes=max(before.worker_peak_rss_bytes, now.worker_peak_rss_bytes),
        throttled_s=before.throttled_s + now.throttled_s,
        limited_s=before.limited_s + now.limited_s,
        note=now.note,
    )
