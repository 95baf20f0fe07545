"""The changes of the verdict over a repository, and what its source lost: each is told once, also by the next process.

What was told is remembered on this machine. A reading that fails, and a source that does not answer, change nothing of
it: only a positive answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from offsite.model.clock import Clock
from offsite.model.names import named
from offsite.model.units import format_duration
from offsite.model.untrusted.json_codec import JsonCodec
from offsite.notify.event import DETAILS_MAX, EventKind
from offsite.overview.comparison import TopicComparison
from offsite.overview.several import RepositoryReading
from offsite.overview.status import BackupStatus, Status
from offsite.overview.verdict import backup_word, restoring_command
from offsite.repository.local_memory import RememberedFacts

UNREAD_TOLD_AFTER_S = 60.0
_FACT = "verdicts"
_NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChange:
    """What to tell. `details`: lines that say why."""

    kind: EventKind
    backup: str = ""
    message: str = ""
    hint: str = ""
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledBackup:
    """A backup that is not safe, by the word of its verdict."""

    backup: str
    word: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LostTopic:
    backup: str
    topic: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldVerdicts:
    """What people were told of a repository, and what is still so."""

    troubled: tuple[TroubledBackup, ...] = ()
    lost: tuple[LostTopic, ...] = ()
    is_unread: bool = False


_CODEC = JsonCodec(ToldVerdicts)


class VerdictChanges:
    """Watches one repository, and tells its changes. For one thread at a time. `subject`: who is told, and of what."""

    def __init__(self, tell: Callable[[VerdictChange], None], *, clock: Clock, subject: str) -> None:
        self._tell, self._clock = tell, clock
        self._memory = RememberedFacts(kind="messages", place=subject, name="verdicts")
        self._told = self._memory.recall(_FACT, _CODEC.read) or ToldVerdicts()
        self._unread_since_s: float | None = None

    def take(self, reading: RepositoryReading) -> None:
        """Take what is known now."""
        if reading.problem:
            self._take_problem(reading.problem)
            return
        if reading.status is None:
            return
        self._unread_since_s = None
        if self._told.is_unread:
            self._tell(VerdictChange(kind=EventKind.READ_AGAIN, message="the repository can be read again"))
        troubled = self._take_backups(reading.status)
        lost = tuple(topic for backup in reading.status.backups for topic in self._take_source(backup, reading.place))
        self._remember(ToldVerdicts(troubled=troubled, lost=lost))

    def _take_problem(self, problem: str) -> None:
        now_s = self._clock.monotonic_s()
        self._unread_since_s = now_s if self._unread_since_s is None else self._unread_since_s
        lasted_s = now_s - self._unread_since_s
        if lasted_s >= UNREAD_TOLD_AFTER_S and not self._told.is_unread:
            self._tell(
                VerdictChange(kind=EventKind.UNREAD, message=f"not read for {format_duration(lasted_s)}: {problem}")
            )
            self._remember(replace(self._told, is_unread=True))

    def _take_backups(self, status: Status) -> tuple[TroubledBackup, ...]:
        """Tell of the backups that are not safe, or safe again; return those that are not."""
        before = {troubled.backup: troubled.word for troubled in self._told.troubled}
        words = {backup.backup: backup_word(backup)[0] for backup in status.backups if not backup.safe}
        for backup in status.backups:
            word = words.get(backup.backup)
            if word is not None and word != before.get(backup.backup):
                message = f"{word}: {backup.problems[0]}" if backup.problems else word
                self._tell(
                    VerdictChange(
                        kind=EventKind.NOT_SAFE, backup=backup.backup, message=message, details=backup.problems
                    )
                )
            elif word is None and backup.backup in before:
                self._tell(
                    VerdictChange(kind=EventKind.SAFE_AGAIN, backup=backup.backup, message=backup_word(backup)[0])
                )
        return tuple(TroubledBackup(backup=backup, word=word) for backup, word in sorted(words.items()))

    def _take_source(self, backup: BackupStatus, place: str) -> Iterable[LostTopic]:
        """Tell of what the source of a backup lost; return it."""
        before = [topic for topic in self._told.lost if topic.backup == backup.backup]
        source = backup.source
        if source is None or source.problem or source.looked_ms < 0:
            return before
        named_before = {(topic.topic, topic.state) for topic in before}
        if fresh := [topic for topic in source.alarmed if (topic.topic, topic.state.value) not in named_before]:
            self._tell_losses(backup.backup, place, fresh)
        return [LostTopic(backup=backup.backup, topic=topic.topic, state=topic.state.value) for topic in source.alarmed]

    def _tell_losses(self, backup: str, place: str, topics: list[TopicComparison]) -> None:
        names = named([f"{topic.topic} ({topic.state})" for topic in topics], most=_NAMED_MAX)
        self._tell(
            VerdictChange(
                kind=EventKind.SOURCE_LOSS,
                backup=backup,
                message=f"lost at the source: {names}; the backup keeps what it had copied",
                hint=next(
                    (restoring_command(backup, {"repo": place, **topic.restore}) for topic in topics if topic.restore),
                    "",
                ),
                details=tuple(f"{topic.topic}: {topic.detail}" for topic in topics[:DETAILS_MAX]),
            )
        )

    def _remember(self, verdicts: ToldVerdicts) -> None:
        if verdicts != self._told:
            self._told = verdicts
            self._memory.put(_FACT, _CODEC.write(verdicts))
