"""One pass over what a plan found new: copied in parallel, and committed as it goes.

A first backup of many hours must not be lost with its driver. So what is finished is committed every so often, and says
of itself that the pass is not complete: each partition has its unbroken beginning, and groups stay those of the commit
before, because what they have committed since may lie beyond it. The last commit of the pass completes it.

A pass that is interrupted commits what it has, once. A commit that was itself interrupted is not tried again: nobody
knows whether it arrived, and the next run finds out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsite.copy.bundle import Copied, CopyBundle
from offsite.copy.plan import CopyPlan
from offsite.model.clock import Clock
from offsite.model.journal import decided
from offsite.model.size import GIB
from offsite.repository.backup import news
from offsite.repository.commit import Changes
from offsite.repository.segments.segment import Segment
from offsite.repository.state import BackupState
from offsite.services.backup.committable import Committable, Outcome, find_committable
from offsite.spark.runner import Done, Failed

Commit = Callable[[Committable, BackupState, Committable | None], BackupState | None]
"""Commits upon a state what is committable and was not yet committed. The last is all that the pass has brought, also
what earlier commits have, where it is complete with this one; else None. The state with the commit, or None if there
was nothing to say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEvery:
    """How much a pass may copy, in bytes of the log, in segments or in seconds, before it commits what it has: a commit
    of 25,000 segments is 25 MB, and takes the driver some 100 MB of memory.

    To find what is new, a commit goes over all that the pass has brought so far: a pass of a million segments would do
    little else. So the next one waits for `times_longer` times what that took, and it costs 5 % of the time at most.
    """

    bytes: int = 10 * GIB
    segments: int = 25_000
    seconds: float = 300.0
    times_longer: float = 20.0


class CopyPass:
    """The outcomes of a pass so far, and the commits made of them. Give `take` to `Runner.run_all`."""

    def __init__(  # noqa: PLR0913  # all by keyword
        self,
        *,
        copy: CopyPlan,
        bundles: Sequence[CopyBundle],
        base: BackupState,
        commit: Commit,
        every: CommitEvery,
        clock: Clock,
    ) -> None:
        self.state = base
        self.commits = 0
        self._copy, self._bundles = copy, bundles
        self._commit, self._every, self._clock = commit, every, clock
        self._outcomes: list[Outcome] = [None] * len(copy.tasks)
        self._committed = Committable(segments=(), holes=(), gaps=(), positions=(), failed=())
        self._is_committing = False
        self._since_s = clock.monotonic_s()
        self._since_bytes = self._since_segments = 0
        self._search_s = 0.0

    def take(self, index: int, outcome: Done[tuple[Copied, ...]] | Failed) -> None:
        """Take the outcome of bundle `index`, and commit if it is time. Raises what committing raises."""
        bundle = self._bundles[index]
        found = [outcome] * len(bundle.tasks) if isinstance(outcome, Failed) else outcome.value
        for number, each in zip(bundle.numbers, found, strict=True):
            self._outcomes[number] = each
            for segment in _segments(each):
                self._since_bytes += segment.raw_bytes
                self._since_segments += 1
        if self._is_due():
            self.save()

    def open_partitions(self) -> list[str]:
        """The partitions, such as `orders/0`, of which a range has not ended yet. For any thread."""
        ended = tuple(self._outcomes)
        left = {task.range.topic_partition for task, each in zip(self._copy.tasks, ended, strict=True) if each is None}
        return [str(each) for each in sorted(left)]

    def save(self) -> None:
        """Commit what there is to commit so far, unless a commit was broken off."""
        if self._is_committing:
            return
        began_s = self._clock.monotonic_s()
        found = self._new(find_committable(self._copy, self._outcomes))
        self._search_s = self._clock.monotonic_s() - began_s
        if found.segments or found.holes or found.gaps:
            decided("commit_early", segments=len(found.segments), why="the pass is not complete yet")
            self._make(replace(found, failed=()), None)
        self._since_s, self._since_bytes, self._since_segments = self._clock.monotonic_s(), 0, 0

    def complete(self) -> Committable:
        """Commit the rest; all that the pass has brought. Raises the first failure when not a single range could be
        copied, and what committing raises."""
        everything = find_committable(self._copy, self._outcomes)
        self._make(self._new(everything), everything)
        return everything

    def _make(self, found: Committable, whole: Committable | None) -> None:
        self._is_committing = True  # and so it stays if it is broken off
        state = self._commit(found, self.state, whole)
        self._is_committing = False
        if state is None:
            return
        self.state = state
        self.commits += 1
        before = self._committed
        self._committed = replace(
            before,
            segments=(*before.segments, *found.segments),
            holes=(*before.holes, *found.holes),
            gaps=(*before.gaps, *found.gaps),
        )

    def _new(self, found: Committable) -> Committable:
        """`found` without what is committed already."""
        keys = {segment.key for segment in self._committed.segments}
        holes, gaps = set(self._committed.holes), set(self._committed.gaps)
        return replace(
            found,
            segments=tuple(each for each in found.segments if each.key not in keys),
            holes=tuple(each for each in found.holes if each not in holes),
            gaps=tuple(each for each in found.gaps if each not in gaps),
        )

    def _is_due(self) -> bool:
        waited_s = self._clock.monotonic_s() - self._since_s
        every = self._every
        is_much = self._since_bytes >= every.bytes or self._since_segments >= every.segments
        return (is_much or waited_s >= every.seconds) and waited_s >= self._every.times_longer * self._search_s


def _segments(outcome: Outcome) -> Iterator[Segment]:
    return iter(outcome.value.segments if isinstance(outcome, Done) else ())


def is_news(changes: Changes, base: BackupState) -> bool:
    """Whether a commit of `changes` would say anything that `base` does not."""
    of_the_run = replace(changes, accounted=False, left_behind=(), incomplete=False, progress=None)
    told = (changes.left_behind, changes.incomplete) != (base.left_behind, base.incomplete)
    return told or news(of_the_run, base) != Changes()
