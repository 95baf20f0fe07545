"""Signs of life of an agent or a job: the report of an agent in the repository, the progress in the
log of a job.

An agent reports success regularly, and failures at once with the reason. Writing the report never ends or delays
the work. The queue ends a job without progress in its log. A separate thread with the message "alive" would prove
nothing: such a thread continues while the work hangs. Hence the work itself logs, after answered requests to its
stores, at most once a minute. A runner reports finished tasks and moved bytes, not mere running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

from offsite.engine.runner import (
    Done,
    Failed,
    FoundT,
    OnOutcome,
    OnProgress,
    ResultT,
    Runner,
    RunProgress,
    SentT,
    Shuffle,
    ShuffledTask,
    TaskT,
)
from offsite.model.clock import MOST_APART_MS, Clock
from offsite.model.errors import OffsiteError
from offsite.model.journal import warned
from offsite.model.names import named
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.notes import WHY_MAX, AgentReport, get_agent_report, put_agent_report
from offsite.stores.store import Store
from offsite.stores.wrapped_store import OK

WELL_EVERY_S = 60.0
"""Time between two reports of success: far less than the silence that an operator tolerates."""
_NAMED_MAX = 5


@dataclass(slots=True)
class Heartbeat:
    """Reports only while this agent holds a backup: the activity of a stand-by proves nothing."""

    store: Store
    layout: DeclaredLayout
    clock: Clock
    _report: AgentReport = field(default=AgentReport(number=0))
    _said_s: float = -inf
    _number: int = 0
    _missing: str = ""
    _is_behind_a_round: bool = False

    def take(self, number: int, term: int) -> None:
        """The agent holds the low-level backup `number`, by the lease term `term`. The time of the last success comes
        from the reports of earlier agents: until then the backup made progress, even if this agent fails at first."""
        self._number, before = number, self._report
        try:
            before = get_agent_report(self.store, self.layout) or before
        except OffsiteError as error:
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        before = before if before.number == number else AgentReport(number=number)
        self._missing, self._is_behind_a_round = before.missing, False
        self._report, self._said_s = AgentReport(number=number, term=term, well_ms=before.well_ms), -inf

    def rest(self) -> None:
        """The agent holds no backup."""
        self._number = 0

    def report_success(self) -> None:
        """A round, or a commit in a round, succeeded."""
        report = self._report
        is_news = not report.well_ms or bool(report.why) or report.missing != self._missing
        if self._number and (is_news or self.clock.monotonic_s() - self._said_s >= WELL_EVERY_S):
            self._say(why="")

    def begin_round(self) -> None:
        """A round starts: only a commit shows progress now."""
        self._is_behind_a_round = False

    def end_round(self, missing: Sequence[str]) -> None:
        """A round succeeded. `missing`: topics that the round did not find. Later work (a roll-up, a collection) may
        take long, and commit nothing."""
        self._missing, self._is_behind_a_round = named(missing, most=_NAMED_MAX)[:WHY_MAX], True
        self.report_success()

    def report_progress(self) -> None:
        """The work after a round makes progress."""
        if self._is_behind_a_round and not self._report.why:
            self.report_success()

    def report_failure(self, error: OffsiteError) -> None:
        """The work stopped with an error."""
        why = f"{error.id}: {error.message}"
        if self._number and why != self._report.why:
            self._say(why=why)

    def _say(self, *, why: str) -> None:
        try:
            well_ms = now_ms = self.store.now_ms()
            if why:
                well_ms = self._report.well_ms if self._report.well_ms - now_ms <= MOST_APART_MS else 0
            word = AgentReport(
                number=self._number, term=self._report.term, well_ms=well_ms, why=why, missing=self._missing
            )
            put_agent_report(self.store, self.layout, word)
        except OffsiteError as error:  # the report is repeated
            warned("agent_word", error=error.id, why=error.message, uid=self.layout.uid)
        else:
            self._report, self._said_s = word, self.clock.monotonic_s()


EVERY_S = 60.0


@dataclass(slots=True, kw_only=True)
class ProgressLog:
    """`say` appends a line to the log."""

    clock: Clock
    say: Callable[[str], None]
    _answered: int = 0
    _said_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._said_s = self.clock.monotonic_s()

    def note(self, request: str, outcome: str, took_s: float) -> None:  # noqa: ARG002  # as `OnRequest` is called
        """Count a finished request. A failed request is no progress."""
        if outcome != OK:
            return
        self._answered += 1
        if self.clock.monotonic_s() - self._said_s >= EVERY_S:
            self._said_s = self.clock.monotonic_s()
            self.say(f"works: {self._answered} requests were answered so far")


@dataclass(frozen=True, slots=True)
class ProgressRunner(Runner):
    """Delegates all calls. `on_task_progress` is called whenever tasks ended, or moved bytes, since the last call."""

    inner: Runner
    on_task_progress: Callable[[], None]

    @property
    def slots(self) -> int:
        return self.inner.slots

    def begin(self) -> None:
        self.inner.begin()

    def run_each(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[TaskT], ResultT],
        on_outcome: OnOutcome[ResultT],
        *,
        on_progress: OnProgress | None = None,
        keep_going: bool = True,
    ) -> None:
        heard = self._heard(on_progress)
        self.inner.run_each(tasks, function, on_outcome, on_progress=heard, keep_going=keep_going)

    def run_shuffled(
        self,
        tasks: Sequence[TaskT],
        function: Callable[[ShuffledTask[TaskT, SentT]], ResultT],
        shuffle: Shuffle[TaskT, FoundT, SentT],
        *,
        on_progress: OnProgress | None = None,
    ) -> list[Done[ResultT] | Failed]:
        return self.inner.run_shuffled(tasks, function, shuffle, on_progress=self._heard(on_progress))

    def await_start(self) -> None:
        self.inner.await_start()

    def halt(self) -> bool:
        return self.inner.halt()

    def close(self) -> None:
        self.inner.close()

    def _heard(self, on_progress: OnProgress | None) -> OnProgress:
        moved = (0, 0, 0)

        def hear(now: RunProgress) -> None:
            nonlocal moved
            before, moved = moved, (now.tasks_done, now.moved_bytes, now.records)
            if any(after > less for after, less in zip(moved, before, strict=True)):
                self.on_task_progress()
            if on_progress is not None:
                on_progress(now)

        return hear
