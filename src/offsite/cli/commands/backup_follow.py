"""`offsite backup follow`, and `backup run --follow`: prints a line per commit, reports outages, and ends in order."""

from __future__ import annotations

import os
import threading
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from offsite.backup.options import parse_limits
from offsite.checkpoint.options import parse_participants, parse_zeebe, zeebe_participants
from offsite.cli.live import LiveScreen, can_be_live
from offsite.cli.output import OutputFormat, emit, note
from offsite.cli.telling import Telling, tell_round
from offsite.cli.views.backup import OutageLines, render_commit
from offsite.cli.wiring import SparkOptions, connect, open_repository, spark

if TYPE_CHECKING:
    from collections.abc import Callable

    from offsite.cli.backup_options import BackupRunOptions
    from offsite.cli.live import Frame
    from offsite.engine.runner import RunProgress
    from offsite.follow.follower import Follower, Round
    from offsite.follow.options import FollowOptions
    from offsite.model.clock import Clock
    from offsite.monitor.view import FollowView

T = TypeVar("T")

GRACE_S = 30.0
"""Seconds from the first signal to the end: enough for a commit; an unresponsive store is not waited for."""


def follow_backup(
    options: BackupRunOptions,
    following: FollowOptions,
    *,
    engine: SparkOptions,
    news: Telling,
    output: OutputFormat,
) -> None:
    """Follow until a signal comes. Raises the error that ended the run before."""
    from offsite.backup.outages import Outages
    from offsite.follow.follower import Follower, FollowSettings
    from offsite.follow.watch import FollowWatch, counted
    from offsite.model.clock import SystemClock
    from offsite.model.uninterrupted import notify_interruption
    from offsite.monitor.server import MonitorServer
    from offsite.monitor.view import Durations, FollowView
    from offsite.monitor.waiting import WaitReporter, waiting_now
    from offsite.overview.contents import describe_new_commits

    request, stamping = options.request(), parse_participants(options.applications)
    zeebe, durations = parse_zeebe(options.clusters), Durations()
    cluster = connect(options.bootstrap, options.kafka_config)
    repository = counted(open_repository(options.repo), durations)
    participants = zeebe_participants(zeebe, partial(repository.backup, request.backup))
    changes, lines, clock = news.changes(), OutageLines(SystemClock()), SystemClock()
    is_live = output is OutputFormat.TABLE and can_be_live()
    shown = _CommitPrinter(output, only_troubles=is_live)
    view = FollowView(
        backup=request.backup, interval_s=following.times.interval_s, started_ms=clock.now_ms(), durations=durations
    )
    with ExitStack() as opened:
        opened.enter_context(notify_interruption(leave_in_time))
        server = None
        if following.metrics is not None:
            monitor = MonitorServer(view, listen=following.metrics, clock=clock, waiting=partial(waiting_now, clock))
            server = opened.enter_context(monitor)
            note(f"metrics on http://{server.address}/metrics")
        screen = _FollowScreen(view, clock)

        def show(now: FollowView) -> None:
            screen.show(now)
            if server is not None:
                server.show(replace(now, notices=news.counts()))

        watch = FollowWatch(
            view,
            backup=partial(repository.backup, request.backup),
            settings=cluster.admin,
            clock=clock,
            show=show,
        )
        limits = parse_limits(options.words)
        runner = opened.enter_context(spark(engine.choice(), preload="offsite.backup.copy", limits=limits))
        follow = FollowSettings(
            repository=repository,
            cluster=cluster,
            runner=runner,
            request=request,
            times=following.times,
            checkpoints=True,
            participants=participants,
            stamping=stamping,
        )
        opened.enter_context(WaitReporter(lines.waiting, clock=clock))
        on_round: list[Callable[[Round], None]] = [shown.round, lambda _: lines.worked(), partial(tell_round, changes)]
        if server or is_live:
            on_round += [screen.round, watch.round]
        follower = Follower(
            follow,
            outages=Outages(
                give_up_after_s=following.give_up_after_s,
                clock=clock,
                on_outage=_to_all(lines, watch.outage, changes.outage),
            ),
            clock=clock,
            on_round=_to_all(*on_round),
            on_progress=_to_all(screen.progress, watch.progress),
        )
        try:
            with LiveScreen(partial(screen.frame, follower)) if is_live else nullcontext():
                try:
                    follower.run()
                finally:
                    screen.end()
        except KeyboardInterrupt:
            note(f"stopped: {describe_new_commits(repository, request.backup, since=follower.since)}")


def _to_all(*listeners: Callable[[T], None]) -> Callable[[T], None]:
    def call_all(value: T) -> None:
        for listener in listeners:
            listener(value)

    return call_all


def leave_in_time() -> None:
    timer = threading.Timer(GRACE_S, os._exit, [1])
    timer.daemon = True
    timer.start()


class _CommitPrinter:
    """Prints the rounds for people and scripts. `only_troubles`: not those of which there is no more to say than that
    they are committed, because a screen shows the last commit."""

    def __init__(self, output: OutputFormat, *, only_troubles: bool) -> None:
        self._output = OutputFormat.TABLE if output is OutputFormat.TABLE else OutputFormat.JSONL
        self._only_troubles = only_troubles

    def round(self, completed: Round) -> None:
        if completed.result is None:
            return
        if not self._only_troubles or len(list(render_commit(completed.result))) > 1:
            emit(completed.result, output=self._output, render=render_commit)


class _FollowScreen:
    """What a run has told of itself, for a screen. Told by the run's thread, read by that of the screen: each value is
    replaced as a whole."""

    def __init__(self, view: FollowView, clock: Clock) -> None:
        from offsite.cli.views.live import Rates

        self._view, self._clock, self._rates = view, clock, Rates()
        self._progress: RunProgress | None = None
        self._is_copying = self._has_ended = False

    def show(self, view: FollowView) -> None:
        self._view = view

    def end(self) -> None:
        self._has_ended = True

    def progress(self, now: RunProgress) -> None:
        self._progress, self._is_copying = now, True

    def round(self, completed: Round) -> None:
        """Take a finished round: nothing is being copied now, and progress of an earlier round counts no more."""
        from offsite.cli.views.live import topic_ends

        self._progress, self._is_copying = self._progress if self._is_copying else None, False
        self._rates.look(topic_ends(completed.state), now_s=self._clock.monotonic_s())

    def frame(self, follower: Follower) -> Frame:
        from offsite.cli.views.live import Activity, follow_frame
        from offsite.monitor.waiting import waiting_now

        activity = Activity(
            progress=self._progress,
            is_copying=self._is_copying and not self._has_ended,
            waiting=None if self._has_ended else waiting_now(self._clock),
            checkpoint_in_s=None if self._has_ended else follower.checkpoint_in_s,
            has_ended=self._has_ended,
        )
        return follow_frame(self._view, self._rates, activity, now_ms=self._clock.now_ms())
