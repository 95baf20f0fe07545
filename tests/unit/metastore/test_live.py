"""A live backup of a topic that a test makes, empties and deletes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from uuid import UUID

import pytest

from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.backup_file import BackupFile, load, sidecar_of
from offsite.metastore.folder import BackupName, NameForm
from offsite.metastore.live import LiveBackup
from offsite.metastore.source import CommandSource, CommandTopic, Portion
from offsite.metastore.status import MetastoreVerdict
from offsite.metastore.stored_command import Header
from offsite.model.clock import SystemClock
from offsite.model.errors import BackupFileChanged, SourceTruncated, StoreFull, TopicReplaced
from tests.unit.metastore.commands import command

TOPIC = "_confluent-ksql-Shop_command_topic"
NULL = Record(50, 1, CREATE_TIME, b'"a"', None)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@dataclass
class FakeSource:
    """As `CommandSource`. Without `making` there is no topic."""

    topic: str = TOPIC
    records: list[Record] = field(default_factory=list)
    making: int = 1
    first: int = 0
    has_ids: bool = True
    undecided: int = 0

    def find(self) -> CommandTopic | None:
        if not self.making:
            return None
        topic_id = UUID(int=self.making) if self.has_ids else None
        return CommandTopic(name=self.topic, topic_id=topic_id, cluster_id="c", replication_factor=3)

    def configs(self) -> dict[str, str]:
        return {"min.insync.replicas": "2"}

    def start(self) -> int:
        return self.first

    def read(self, start: int, *, topic_id: UUID | None) -> Portion:
        end = max([self.first, *(each.offset + 2 for each in self.records)])
        if end < start:
            raise SourceTruncated("cut")
        return Portion(
            records=[each for each in self.records if each.offset >= start], end=end, seen_end=end + self.undecided
        )

    def make_anew(self, *records: Record) -> None:
        self.making, self.first, self.records = self.making + 1, 0, list(records)


class SlowClock(SystemClock):
    """Its wall clock stands still at `at_ms`, or goes where a test puts it."""

    def __init__(self) -> None:
        self.at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


@dataclass
class Place:
    folder: Path
    source: FakeSource
    clock: SlowClock
    live: LiveBackup

    @property
    def files(self) -> list[Path]:
        return sorted(each for each in self.folder.iterdir() if each.suffix == ".bak")

    def begin_anew(self) -> None:
        """As a new process does."""
        self.live.close()
        self.live = live(self.source, self.folder, self.clock)


def live(source: FakeSource, folder: Path, clock: SlowClock) -> LiveBackup:
    return LiveBackup(cast("CommandSource", source), folder, NameForm.KLIP, clock=clock)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    source, clock = FakeSource(records=[command(1), command(2)]), SlowClock()
    place = Place(tmp_path, source, clock, live(source, tmp_path, clock))
    yield place
    with closing(place.live):
        pass


def stored(path: Path) -> list[Record]:
    return [each.record for each in load(path).commands]


def test_it_goes_on_with_its_topic_and_after_a_restart(place: Place) -> None:
    assert place.live.catch_up().appended == 2
    place.source.records.append(NULL)
    assert place.live.go_on().appended == 3
    place.begin_anew()
    again = place.live.catch_up()
    assert (again.verdict, again.commands, again.appended) == (MetastoreVerdict.CURRENT, 3, 0)
    place.source.records.append(command(40))
    assert place.live.catch_up().appended == 1
    (file,) = place.files
    assert stored(file) == place.source.records
    assert load(file).header == Header(
        topic=TOPIC,
        cluster_id="c",
        topic_id=str(UUID(int=1)),
        created_at_ms=place.clock.at_ms,
        created_by="0.1.0",
        replication_factor=3,
        configs={"min.insync.replicas": "2"},
    )


def test_a_topic_that_is_gone_and_comes_back_the_same_goes_on_in_the_same_file(place: Place) -> None:
    place.live.catch_up()
    making, place.source.making = place.source.making, 0
    gone = place.live.catch_up()
    assert (gone.verdict, gone.missing, place.live.is_there) == (MetastoreVerdict.GONE, 2, False)
    place.source.making = making + 1
    place.source.records = [command(1), command(2), command(3)]
    back = place.live.catch_up()
    assert (back.verdict, back.missing, back.commands, back.diverged) == (MetastoreVerdict.CURRENT, 0, 3, "")
    assert len(place.files) == 1


def test_a_topic_that_goes_while_it_is_read_is_gone(place: Place) -> None:
    place.live.catch_up()
    place.source.records = []
    with pytest.raises(SourceTruncated):
        place.live.go_on()
    place.source.making = 0
    gone = place.live.catch_up()
    assert (gone.verdict, gone.missing) == (MetastoreVerdict.GONE, 2)
    assert place.live.catch_up().missing == 2


@pytest.mark.parametrize(("left", "verdict"), [(0, MetastoreVerdict.EMPTIED), (1, MetastoreVerdict.SHORTENED)])
def test_what_the_topic_lost_stays_in_the_file(place: Place, left: int, verdict: MetastoreVerdict) -> None:
    place.live.catch_up()
    whole = place.files[0].read_bytes()
    place.source.make_anew(*[command(1), command(2)][:left])
    seen = place.live.catch_up()
    assert (seen.verdict, seen.missing) == (verdict, 2 - left)
    assert place.files[0].read_bytes() == whole
    place.source.records.append(command(9))
    other = place.live.catch_up()
    assert (other.verdict, other.commands) == (MetastoreVerdict.CURRENT, left + 1)
    assert f"line {left + 1}" in other.diverged
    assert place.files[0].read_bytes() == whole
    assert stored(place.files[1]) == place.source.records


def test_a_topic_that_was_trimmed_stays_an_alarm_until_it_is_made_anew(place: Place) -> None:
    whole = place.source.records
    place.live.catch_up()
    place.source.first, place.source.records = 4, [command(2), command(3)]
    seen = place.live.catch_up()
    old, new = place.files
    assert "line 1" in seen.diverged
    for _ in range(2):
        assert (seen.verdict, seen.missing, seen.file, seen.older) == (MetastoreVerdict.TRIMMED, 1, new, old)
        place.source.records.append(command(4 + len(place.source.records)))
        assert (stored(old), place.live.go_on().verdict) == (whole, MetastoreVerdict.TRIMMED)
        place.begin_anew()
        seen = place.live.catch_up()
    place.source.make_anew(*whole)
    restored = place.live.catch_up()
    assert (restored.verdict, restored.missing, restored.older) == (MetastoreVerdict.CURRENT, 0, None)


def test_a_topic_that_was_emptied_and_goes_on_stays_an_alarm(place: Place) -> None:
    place.live.catch_up()
    place.source.first, place.source.records = 6, []
    assert place.live.catch_up().verdict is MetastoreVerdict.EMPTIED
    place.source.records.append(command(3))
    assert (place.live.catch_up().verdict, place.live.view.missing) == (MetastoreVerdict.TRIMMED, 2)
    place.source.making = 0
    assert (place.live.catch_up().verdict, place.live.view.missing) == (MetastoreVerdict.GONE, 1)


def test_a_log_that_was_cut_back_is_compared_from_its_start(place: Place) -> None:
    place.live.catch_up()
    place.source.records = [command(1)]
    with pytest.raises(SourceTruncated):
        place.live.go_on()
    assert not place.live.is_there
    assert place.live.catch_up().verdict is MetastoreVerdict.SHORTENED


def test_a_new_file_is_the_newest_whatever_the_clock_says(place: Place) -> None:
    place.live.catch_up()
    place.clock.at_ms -= 3_600_000
    place.source.make_anew(command(9))
    new = place.live.catch_up().file
    place.begin_anew()
    assert place.live.catch_up().file == new
    assert len(place.files) == 2


def test_a_damaged_file_is_left_and_a_new_one_begun(place: Place) -> None:
    place.live.catch_up()
    (old,) = place.files
    old.write_bytes(damaged := old.read_bytes().replace(b"S1", b"S7"))
    place.begin_anew()
    seen = place.live.catch_up()
    assert "damaged (line 1" in seen.diverged
    assert old.read_bytes() == damaged
    assert stored(place.files[1]) == place.source.records


@pytest.mark.parametrize("making", [0, 2])
def test_a_file_that_a_crash_left_empty_hides_none_that_is_not(
    place: Place, monkeypatch: pytest.MonkeyPatch, making: int
) -> None:
    place.live.catch_up()
    (old,) = place.files
    place.source.make_anew(command(9))
    with monkeypatch.context() as killed:
        killed.setattr(BackupFile, "append", interrupted)
        with pytest.raises(KeyboardInterrupt):
            place.live.catch_up()
    assert len(place.files) == 2
    place.source.making, place.source.records = making, []
    place.begin_anew()
    seen = place.live.catch_up()
    assert (seen.verdict.is_alarm, seen.missing, place.files) == (True, 2, [old])


def test_a_sidecar_that_is_none_does_not_end_the_backup(place: Place) -> None:
    place.live.catch_up()
    (old,) = place.files
    sidecar_of(old).write_bytes(broken := b"x" + sidecar_of(old).read_bytes())
    place.begin_anew()
    kept, place.source.records = place.source.records, []
    assert (place.live.catch_up().verdict, place.live.view.missing) == (MetastoreVerdict.EMPTIED, 2)
    place.source.records = kept
    seen = place.live.catch_up()
    assert "not a sidecar of offsite" in seen.diverged
    assert sidecar_of(old).read_bytes() == broken
    assert stored(place.files[1]) == kept
    place.source.making = 0
    assert place.live.catch_up().verdict is MetastoreVerdict.GONE


def test_lines_that_a_crash_left_without_entries_get_them(place: Place) -> None:
    place.source.records += [NULL, command(40)]
    place.live.catch_up()
    (file,) = place.files
    entries = sidecar_of(file).read_bytes()
    sidecar_of(file).write_bytes(b"".join(entries.splitlines(keepends=True)[:2]))
    place.begin_anew()
    place.live.catch_up()
    assert sidecar_of(file).read_bytes() == entries
    assert load(file).problems == []


def test_the_file_of_another_service_is_not_gone_on_with(place: Place) -> None:
    other = Header(topic=TOPIC.lower(), cluster_id="c", topic_id="", created_at_ms=1, created_by="0")
    name = BackupName(topic=TOPIC.lower(), made_ms=1, form=NameForm.KLIP)
    with BackupFile.create(place.folder, name, other) as file:
        file.append([command(1)])
    assert place.live.catch_up().appended == 2
    sidecar_of(file.path).unlink()
    place.files[-1].unlink() if place.files[-1] != file.path else place.files[0].unlink()
    place.begin_anew()
    assert place.live.catch_up().file == file.path, "a file of ksqlDB does not say of whom it is"


@pytest.mark.parametrize("whole", [True, False])
def test_a_file_that_somebody_removed_is_made_anew_and_not_called_current(place: Place, whole: bool) -> None:
    place.live.catch_up()
    (file,) = place.files
    (file if whole else sidecar_of(file)).unlink()
    place.live.catch_up()
    (again,) = place.files
    assert stored(again) == place.source.records
    assert load(again).problems == []


def test_a_file_that_somebody_changed_is_not_called_current(place: Place) -> None:
    place.live.catch_up()
    place.files[0].write_bytes(b"")
    with pytest.raises(BackupFileChanged):
        place.live.catch_up()


def test_a_topic_without_an_id_that_was_made_anew_is_not_mixed_with_the_old_one(place: Place) -> None:
    place.source.has_ids = False
    place.live.catch_up()
    (old,) = place.files
    whole = old.read_bytes()
    place.source.make_anew(command(1), command(7, offset=4), command(8, offset=6))
    with pytest.raises(TopicReplaced):
        place.live.catch_up()
    place.live.catch_up()
    assert old.read_bytes() == whole
    assert stored(place.files[1]) == place.source.records
    place.source.records.append(command(9, offset=8))
    assert (place.live.catch_up().commands, place.live.catch_up().commands) == (4, 4)


def test_a_topic_without_an_id_in_which_nothing_was_seen_is_read_from_its_start(place: Place) -> None:
    place.source.has_ids, place.source.records = False, []
    place.live.catch_up()
    place.source.make_anew(command(0), command(1))
    assert place.live.catch_up().commands == 2
    assert stored(place.files[0]) == place.source.records


def test_a_topic_that_was_made_anew_with_other_offsets_is_described_as_it_is(place: Place) -> None:
    place.source.records.insert(1, command(90, offset=3))
    place.live.catch_up()
    (file,) = place.files
    lines = file.read_bytes()
    place.source.make_anew(*(each._replace(offset=at) for at, each in enumerate(place.source.records)), NULL)
    assert place.live.catch_up().verdict is MetastoreVerdict.CURRENT
    place.source.records.append(command(60))
    place.live.go_on()
    place.begin_anew()
    place.live.catch_up()
    assert (file.read_bytes().startswith(lines), place.files) == (True, [file])
    read = load(file)
    assert (stored(file), read.problems) == (place.source.records, [])
    assert read.header is not None
    assert read.header.topic_id == str(UUID(int=2))
    assert len(list(place.folder.glob("*.was*"))) == 1, "of the topic before"
    place.source.first, place.source.records = 61, []
    place.live.catch_up()
    place.source.records = [command(70)]
    assert place.live.catch_up().verdict is MetastoreVerdict.TRIMMED


def test_what_comes_after_an_open_transaction_is_not_told_to_be_backed_up(place: Place) -> None:
    place.source.undecided = 3
    began_ms = place.clock.at_ms
    assert (place.live.catch_up().undecided, place.live.view.undecided_since_ms) == (3, began_ms)
    place.clock.at_ms += 5000
    assert place.live.go_on().undecided_since_ms == began_ms
    place.source.undecided = 0
    assert (place.live.go_on().undecided, place.live.view.undecided_since_ms) == (0, -1)


def test_a_topic_that_is_not_there_is_told(place: Place) -> None:
    place.source.making = 0
    assert not place.live.catch_up().is_there
    place.source.making = 1
    assert place.live.catch_up().is_there


def test_a_file_that_cannot_be_made_is_made_at_the_next_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_space(*_: object) -> None:
        raise StoreFull("no space")

    with monkeypatch.context() as full:
        full.setattr(BackupFile, "create", no_space)
        for _ in range(2):
            with pytest.raises(StoreFull):
                place.live.catch_up()
    assert place.live.catch_up().appended == 2


def test_a_topic_that_is_gone_with_its_file_is_not_called_current(place: Place) -> None:
    place.live.catch_up()
    place.files[0].unlink()
    place.source.making = 0
    seen = place.live.catch_up()
    assert (seen.verdict, seen.commands, seen.file) == (MetastoreVerdict.EMPTY, 0, None)


def test_a_topic_that_is_not_there_yet_is_no_alarm(place: Place) -> None:
    place.source.making = 0
    assert place.live.catch_up().verdict is MetastoreVerdict.EMPTY
    assert place.files == []
    place.source.making = 1
    assert place.live.catch_up().verdict is MetastoreVerdict.CURRENT
