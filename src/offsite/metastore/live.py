"""The live backup of a command topic: compares the newest file with the topic, then follows the topic.

A command lost by the topic is never removed from a file. A missing, empty, or shortened topic is an alarm, and the file
stays unchanged. A topic with a different command than the file has another history: the topic was created again or
trimmed. A new file then begins with all commands of the topic, and the old file stays. If the topic has the same id, it
has lost commands held only by the old file: an alarm until the topic is created again, as a restore does.

A follower is woken by the broker for new commands, and checks the topic itself every second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from offsite.backup.outages import Outages
from offsite.log.records.record import Record
from offsite.metastore.backup_file import BackupFile, load, load_lines, read_header, remove_if_empty
from offsite.metastore.comparison import CommandComparison, CommandMatch
from offsite.metastore.folder import (
    BackupName,
    MetastorePlace,
    NameForm,
    exposure_warning,
    list_backups,
    locked,
    make_folder,
)
from offsite.metastore.reading import ReadBackup
from offsite.metastore.source import CommandSource, CommandTopic, Portion
from offsite.metastore.status import MetastoreVerdict, MetastoreView
from offsite.metastore.stored_command import Header
from offsite.model.clock import Clock
from offsite.model.errors import (
    BackupFileDamaged,
    CommandsLost,
    NoSuchTopic,
    OffsiteError,
    SourceTruncated,
    TopicReplaced,
    check,
)
from offsite.model.journal import decided, warned
from offsite.model.uninterrupted import let_interrupt
from offsite.model.version import __version__

_LATER_MS = 1_000
"""The minimum distance of files whose names have seconds."""
_LOST = {
    MetastoreVerdict.GONE: "there is no topic {topic}, but its backup has {missing} commands",
    MetastoreVerdict.EMPTIED: "{topic} has no commands, but its backup has {missing}",
    MetastoreVerdict.SHORTENED: "{topic} ends before its backup: {missing} commands are missing",
    MetastoreVerdict.TRIMMED: "{topic} no longer has {missing} of its commands",
}
LOOK_EVERY_S = 1.0
"""Seconds between two checks of the topic itself: existence, identity, completeness."""
LOOK_AGAIN_S = 0.2
_WAIT_MAX_MS = 500


class LiveBackup:
    """The live backup of one topic. The caller holds the lock of the folder for this topic. Not for several threads."""

    def __init__(self, source: CommandSource, folder: Path, form: NameForm, *, clock: Clock) -> None:
        self._source, self._folder, self._form, self._clock = source, folder, form, clock
        self._topic: CommandTopic | None = None
        self._file: BackupFile | None = None
        self._comparison: CommandComparison | None = None
        self._damage = ""
        self._older_missing = 0
        self._told: Header | None = None
        self._seen: list[Record] = []
        self._last: Record | None = None
        self._is_gone = False
        self._start = self._position = self.seen_end = -1
        self.view = MetastoreView(topic=source.topic, verdict=MetastoreVerdict.EMPTY, file=None)

    @property
    def is_there(self) -> bool:
        """Whether the last check found the topic."""
        return self._topic is not None

    def catch_up(self) -> MetastoreView:
        """Bring the file up to date with the topic. Compares from the first command if the topic is not known to be the
        same as before, or if the file is gone. Raises the errors of reading a topic and writing a file; the file's
        content stays whole."""
        topic = self._source.find()
        if topic is None:
            if not self._is_gone:
                self._look_at_file()
            return self._show(self._lost(MetastoreVerdict.GONE))
        if self._file is not None and not self._file.is_there():
            warned("metastore_file_gone", why="somebody removed it", topic=topic.name, file=str(self._file.path))
            self._topic = None
        if self._topic is None or topic.topic_id != self._topic.topic_id or self._source.start() != self._start:
            self._begin(topic)
        if self._file is not None:
            self._file.check_untouched()
        return self.go_on()

    def go_on(self) -> MetastoreView:
        """Take new commands of the topic found by `catch_up`. Raises as `catch_up`."""
        try:
            portion = self._read_on(self._found_topic)
            self._take(portion.records)
        except OffsiteError:
            self._topic = None  # the next check starts at the first command
            raise
        self._position, self.seen_end = portion.end, portion.seen_end
        self._last = portion.records[-1] if portion.records else self._last
        self._show_undecided(portion.seen_end - portion.end)
        is_empty = self._comparison is None or not self._comparison.taken
        return self._show(self._lost(MetastoreVerdict.EMPTIED if is_empty else MetastoreVerdict.SHORTENED))

    def _read_on(self, topic: CommandTopic) -> Portion:
        """The commands since the last read. Brokers before 2.8 have no topic ids: without an id, the last command must
        still be at its offset, or the topic is a different topic of the same name. Raises as `CommandSource.read`."""
        if topic.topic_id is not None:
            return self._source.read(self._position, topic_id=topic.topic_id)
        if self._last is None:
            return self._source.read(self._start, topic_id=None)
        portion = self._source.read(self._last.offset, topic_id=None)
        if not portion.records or portion.records[0] != self._last:
            raise TopicReplaced(f"{topic.name} has another command at offset {self._last.offset} than before")
        return replace(portion, records=portion.records[1:])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def _found_topic(self) -> CommandTopic:
        check(self._topic is not None, "a topic is read that was found")
        return self._topic  # type: ignore[return-value]  # checked in the line above

    @property
    def _open_file(self) -> BackupFile:
        check(self._file is not None, "commands are written into a file that is open")
        return self._file  # type: ignore[return-value]  # checked in the line above

    def _begin(self, topic: CommandTopic) -> None:
        self.close()
        self._topic, self._seen, self._is_gone = None, [], False  # without a file, the next check starts over
        self._start = self._position = self._source.start()
        self._last = None
        self._open_newest(topic)
        self._topic = topic
        self._look_for_lost()

    def _remove_begun(self) -> None:
        """A crash at the beginning of a new file leaves the file empty: the file before is still the newest with
        commands."""
        names = list_backups(self._folder, self._source.topic)
        while len(names) > 1 and remove_if_empty(path := self._folder / str(names.pop())):
            warned("metastore_repaired", why="removed a file that a crash left empty", file=str(path))

    def _open_newest(self, topic: CommandTopic) -> None:
        self._remove_begun()
        newest = self._newest()
        if newest is None:
            self._comparison = None
            self._new_file(topic)
            return
        try:
            opened = BackupFile.open(newest, self._header(topic))
        except BackupFileDamaged as error:
            self._compare_with_lines(newest, error)
            return
        self._file, self._told = opened.file, opened.read.header
        for repair in opened.repairs:
            warned("metastore_repaired", why=repair, topic=topic.name, file=str(newest))
        self._compare_with(newest, opened.read, repairs=opened.repairs)

    def _look_at_file(self) -> None:
        """Read the newest file of a missing topic."""
        self.close()
        self._topic, self._is_gone, self._older_missing = None, True, 0
        self.view = replace(self.view, older=None, undecided=0, undecided_since_ms=-1)
        self._remove_begun()
        if (newest := self._newest()) is not None:
            try:
                self._compare_with(newest, load(newest), repairs=())
            except BackupFileDamaged as error:
                self._compare_with_lines(newest, error)
        else:
            self._comparison = None
            self.view = replace(self.view, file=None, commands=0, size_bytes=0, last_command_ms=-1)

    def _compare_with(self, path: Path, read: ReadBackup, *, repairs: tuple[str, ...]) -> None:
        self._comparison = CommandComparison(read.commands)
        self._damage = "; ".join(
            f"line {problem.line}: {problem.what}" if problem.line else problem.what for problem in read.problems[:3]
        )
        times = (command.record.timestamp_ms for command in read.commands)
        self.view = replace(
            self.view,
            file=path,
            commands=len(read.commands),
            size_bytes=read.size_bytes,
            last_command_ms=max(times, default=-1),
            repairs=repairs,
        )

    def _compare_with_lines(self, path: Path, error: BackupFileDamaged) -> None:
        """For a file with a foreign sidecar: the file stays as it is, and a new file follows if the topic holds
        commands. The backup does not stop."""
        self._compare_with(path, load_lines(path), repairs=())
        self._damage = error.message

    def _look_for_lost(self) -> None:
        """Whether an older file has commands of this very topic that are missing in the newest file."""
        self._older_missing = 0
        self.view = replace(self.view, older=None)
        newest, topic = self.view.file, self._found_topic
        for name in reversed(list_backups(self._folder, topic.name)):
            path = self._folder / str(name)
            header = read_header(path) if topic.topic_id and newest and path != newest else None
            if header is None or header.topic_id != str(topic.topic_id):
                continue
            with suppress(OffsiteError):
                self._older_missing = _missing_of(load(path), load(newest))  # type: ignore[arg-type]  # see above
            if self._older_missing:
                self.view = replace(self.view, older=path)
                return

    def _newest(self) -> Path | None:
        """The newest file of the topic. A file name that differs only in letter case counts unless its sidecar names
        another topic."""
        for name in reversed(list_backups(self._folder, self._source.topic)):
            path = self._folder / str(name)
            header = None if name.topic == self._source.topic else read_header(path)
            if header is None or header.topic == self._source.topic:
                return path
        return None

    def _new_file(self, topic: CommandTopic) -> None:
        """Begin a new file, named later than all existing files, whatever the clock says: the newest file continues."""
        newest = max((name.made_ms for name in list_backups(self._folder, topic.name)), default=0)
        made_ms = max(self._clock.now_ms(), newest + _LATER_MS)
        name = BackupName(topic=topic.name, made_ms=made_ms, form=self._form)
        self.close()
        self._file = BackupFile.create(self._folder, name, self._header(topic))
        decided("metastore_file", why="a new backup file begins", topic=topic.name, file=str(self._file.path))
        self.view = replace(self.view, file=self._file.path, commands=0, size_bytes=0, last_command_ms=-1)

    def _header(self, topic: CommandTopic) -> Header:
        return Header(
            topic=topic.name,
            cluster_id=topic.cluster_id,
            topic_id=str(topic.topic_id or ""),
            replication_factor=topic.replication_factor,
            created_at_ms=self._clock.now_ms(),
            created_by=__version__,
            configs=self._source.configs(),
        )

    def _take(self, records: Sequence[Record]) -> None:
        undescribed, new = [], []
        for record in records:
            outcome = self._compared(record)
            if outcome is CommandMatch.DIFFERENT:
                self._diverge([*self._seen, *records])
                return
            if outcome is CommandMatch.UNDESCRIBED:
                undescribed.append(record)
            elif outcome is CommandMatch.NEW:
                new.append(record)
        if self._comparison is not None:
            self._seen.extend(records)
        self._write(undescribed, new)
        if self._comparison is not None and not self._comparison.missing and self._seen:
            self._describe_the_topic_that_is(moved=self._comparison.moved)
            self._comparison, self._seen = None, []

    def _describe_the_topic_that_is(self, *, moved: bool) -> None:
        """For a topic created again with the same commands: write the current offsets and topic id into the sidecar. A
        restore and the search for lost commands rely on them."""
        topic, recorded = self._found_topic, self._told
        now = self._header(topic)
        if recorded is None or (recorded.topic_id == now.topic_id and not moved):
            return
        decided(
            "metastore_described_anew", why="the topic was created again", topic=topic.name, file=str(self.view.file)
        )
        self._told = replace(now, created_at_ms=recorded.created_at_ms)
        self._open_file.describe_anew(self._told, self._seen)

    def _compared(self, record: Record) -> CommandMatch:
        if self._comparison is None:
            return CommandMatch.NEW
        return CommandMatch.DIFFERENT if self._damage else self._comparison.take(record)

    def _diverge(self, records: Sequence[Record]) -> None:
        """Begin a new file with all commands of the topic."""
        difference = self._comparison.difference if self._comparison else None
        why = f"{self.view.file}: {f'it is damaged ({self._damage})' if self._damage else difference}"
        warned("metastore_diverged", why=why, topic=self._found_topic.name)
        self._comparison, self._damage, self._seen = None, "", []
        self._new_file(self._found_topic)
        self.view = replace(self.view, diverged=why)
        self._write((), records)
        self._look_for_lost()

    def _write(self, undescribed: Sequence[Record], new: Sequence[Record]) -> None:
        if not undescribed and not new:
            return
        began_s, file = self._clock.monotonic_s(), self._open_file
        if undescribed:
            file.describe(undescribed)
        if new:
            file.append(new)
        self.view = replace(
            self.view,
            commands=self.view.commands + len(new),
            appended=self.view.appended + len(new),
            size_bytes=file.size_bytes,
            last_command_ms=max(self.view.last_command_ms, *(record.timestamp_ms for record in (*undescribed, *new))),
            flush_s=self._clock.monotonic_s() - began_s,
        )

    def _lost(self, verdict: MetastoreVerdict) -> MetastoreVerdict:
        """`verdict`, if the topic has not shown all commands of the file."""
        missing = 0 if self._comparison is None else self._comparison.missing
        if not missing and self._older_missing:
            missing, verdict = self._older_missing, MetastoreVerdict.TRIMMED
        if missing and self.view.verdict is not verdict:
            warned("metastore_alarm", why=f"the topic is {verdict.value}", topic=self.view.topic, commands=missing)
        self.view = replace(self.view, missing=missing)
        if missing:
            return verdict
        return MetastoreVerdict.CURRENT if self.view.commands else MetastoreVerdict.EMPTY

    def _show_undecided(self, offsets: int) -> None:
        since_ms = self.view.undecided_since_ms if self.view.undecided else self._clock.now_ms()
        self.view = replace(self.view, undecided=max(0, offsets), undecided_since_ms=since_ms if offsets > 0 else -1)

    def _show(self, verdict: MetastoreVerdict) -> MetastoreView:
        self.view = replace(self.view, verdict=verdict, seen_ms=self._clock.now_ms(), is_there=self.is_there)
        return self.view


def _missing_of(older: ReadBackup, newest: ReadBackup) -> int:
    """The number of commands of the older file missing in the newest file; 0 if the older file is no proof for the
    topic's commands: a damaged file, or a file of another tool."""
    if older.problems or not all(command.described for command in older.commands):
        return 0
    older_commands, newest_commands = (
        Counter((command.record.key, command.record.value) for command in read.commands) for read in (older, newest)
    )
    return (older_commands - newest_commands).total()


@contextmanager
def live_backup(source: CommandSource, place: MetastorePlace, *, clock: Clock) -> Iterator[LiveBackup]:
    """A block with exclusive access to the files of this topic in this folder. Raises `BackupFileInUse`,
    `BadOption`."""
    make_folder(place.location)
    with (
        locked(place.location, place.topic),
        closing(LiveBackup(source, place.location, place.form, clock=clock)) as live,
    ):
        yield live


def warnings_of(place: MetastorePlace) -> list[str]:
    """Warnings about the folder of the files."""
    return [warning] if place.location.is_dir() and (warning := exposure_warning(place.location)) else []


def lost_commands_error(view: MetastoreView) -> CommandsLost | None:
    """The error for a loss of commands held by the file; None without a loss."""
    if not view.verdict.is_alarm:
        return None
    file = view.older or view.file
    return CommandsLost(
        _LOST[view.verdict].format(topic=view.topic, missing=view.missing),
        hint=f"nothing was removed from {file}: stop ksqlDB, then offsite metastore restore {file}",
    )


def follow_topic(
    live: LiveBackup,
    source: CommandSource,
    *,
    outages: Outages,
    clock: Clock,
    on_look: Callable[[MetastoreView], None],
) -> None:
    """Keep the file current until `KeyboardInterrupt`. `on_look` receives the view after every check of the topic.
    Raises what `outages` does not wait out."""
    following = _Following(live, source, clock, on_look)
    while True:
        try:
            following.look()
            outages.worked()
            following.take_news()
        except (SourceTruncated, TopicReplaced, NoSuchTopic):
            clock.sleep(LOOK_AGAIN_S)  # the next check finds the new state
        except OffsiteError as error:
            outages.wait(error)


class _Following:
    def __init__(
        self, live: LiveBackup, source: CommandSource, clock: Clock, on_look: Callable[[MetastoreView], None]
    ) -> None:
        self._live, self._source, self._clock, self._on_look = live, source, clock, on_look

    def look(self) -> None:
        self._on_look(self._live.catch_up())

    def take_news(self) -> None:
        """Take new commands until the next check is due."""
        until_s = self._clock.monotonic_s() + LOOK_EVERY_S
        while (left_s := until_s - self._clock.monotonic_s()) > 0:
            let_interrupt()
            if not self._live.is_there:
                self._clock.sleep(min(left_s, _WAIT_MAX_MS / 1000))
            elif self._source.await_more(self._live.seen_end, max_wait_ms=min(_WAIT_MAX_MS, int(left_s * 1000) + 1)):
                self._on_look(self._live.go_on())
