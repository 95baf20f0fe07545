"""Records of a backup as of a restore point, for people: in order (`cat_records`), or matching records from everywhere
in parallel (`search_records`).

`cat` reads in the process, partition by partition: the output has an order, and ends when the reader has seen enough,
usually long before Spark would be up. `search` reads everything, in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from offsite.engine.runner import OnProgress, Runner, WholeProgress, job_named
from offsite.model.bounds import MAX_OFFSET, whole_number
from offsite.model.errors import BadOption, NoSuchTopic
from offsite.model.names import amount
from offsite.model.schema_registry import RegistrySnapshot
from offsite.model.selection import TopicSelection
from offsite.model.units import parse_time
from offsite.points.held_schemas import held_schemas
from offsite.points.point_in_time import PointInTime, SelectedChains, select_chains
from offsite.points.restore_point import PointRequest, find_point
from offsite.repository.backup import Backup
from offsite.repository.heads import check_to_read
from offsite.schemas.framing import FramedReader
from offsite.stores.wrapped_store import display_now_ms
from offsite.table.latest import by_partition, latest_offsets
from offsite.table.scan import MatchingRecord, RecordMatch, find_in_task, matching_records
from offsite.table.scan_plan import RowFilter, ScanTask, plan_scan
from offsite.table.shown_record import ShownRecord, record_bytes, show_record

SEARCH_WAVE = 32
"""Tasks of 64 MiB at once in a search with a limit: checking the limit after so much costs little."""

_MAX_FOUND = 1 << 40
"""Limit of a search without a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRequest:
    """Which records to show: the first `limit` records that `match`, of `point` (topics, partitions, as of when,
    isolation), from `start` to `end` (see `parse_rows`). `latest`: before any filter, only the latest record of every
    key as of the point, and no record where the latest one deletes the key."""

    point: PointRequest
    start: str | None = None
    end: str | None = None
    match: RecordMatch = field(default_factory=RecordMatch)
    limit: int | None = None
    latest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsPlan:
    """A decided reading; nothing is read yet. `latest`: `tasks` read whole partitions, and `rows` filters the latest
    records of the keys."""

    backup: Backup
    point: PointInTime
    tasks: tuple[ScanTask, ...]
    match: RecordMatch
    limit: int | None
    rows: RowFilter = field(default_factory=RowFilter)
    latest: bool = False

    @property
    def raw_bytes(self) -> int:
        return sum(task.raw_bytes for task in self.tasks)


def plan_records(backup: Backup, request: RecordsRequest) -> RecordsPlan:
    """Plan the reading for `request`. Raises `NoSuchTopic`, `NoSuchRestorePoint`, `BadOption`, `CommitsGone`."""
    backup = backup.for_reading(is_named=request.point.is_named, as_of=request.point.as_of_head)
    check_to_read(backup, accept_rollback=request.point.accept_rollback)
    point = find_point(backup, request.point)
    rows = parse_rows(request.start, request.end, now_ms=display_now_ms(backup.store))
    return RecordsPlan(
        backup=backup,
        point=point,
        tasks=plan_scan(
            _some_chains(point, request.point.selection),
            RowFilter() if request.latest else rows,
            read_committed=request.point.read_committed,
        ),
        match=request.match,
        limit=request.limit,
        rows=rows,
        latest=request.latest,
    )


def cat_records(plan: RecordsPlan, *, decoded_max: int | None = None) -> Iterator[ShownRecord]:
    """Yield the records partition by partition, in the order of offsets. `decoded_max`: larger records (bytes) are
    shown as text or bytes, without decoding. Raises the errors of reading. Memory: a frame, or as `latest_offsets`."""
    framed = FramedReader(partial(held_schemas, plan.backup))
    for found_record in islice(_in_order(plan), plan.limit):
        is_large = decoded_max is not None and record_bytes(found_record.record) > decoded_max
        yield show_record(found_record, None if is_large else framed)


def raw_values(plan: RecordsPlan) -> Iterator[bytes]:
    """Yield only the values, unchanged; a record without a value is left out."""
    return (
        found_record.record.value
        for found_record in islice(_in_order(plan), plan.limit)
        if found_record.record.value is not None
    )


def _in_order(plan: RecordsPlan) -> Iterator[MatchingRecord]:
    store, framed = plan.backup.store, FramedReader(partial(held_schemas, plan.backup))
    for tasks in by_partition(plan.tasks):
        stay = iter(latest_offsets(tasks, store)) if plan.latest else None
        matches = (
            match
            for task in tasks
            for match in matching_records(replace(task, rows=plan.rows), store, plan.match, framed)
        )
        yield from matches if stay is None else _only(matches, stay)


def _only(matches: Iterator[MatchingRecord], offsets: Iterator[int]) -> Iterator[MatchingRecord]:
    """The records at `offsets`; both iterators rise."""
    offset = next(offsets, None)
    for match in matches:
        while offset is not None and offset < match.record.offset:
            offset = next(offsets, None)
        if offset is None:
            return
        if offset == match.record.offset:
            yield match


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search found. `complete`: everything was searched, and `records` has all matching records. Otherwise the
    search stopped at its limit: of `total_bytes` (as Kafka had them), parts of `searched_bytes` were searched, the last
    ones perhaps not to their end, and more records match."""

    records: tuple[ShownRecord, ...]
    complete: bool
    searched_bytes: int
    total_bytes: int


def search_records(plan: RecordsPlan, runner: Runner, *, on_progress: OnProgress | None = None) -> SearchResult:
    """Find the matching records, in the order of partitions and offsets. With a limit the search stops early."""
    framed = FramedReader(partial(held_schemas, plan.backup))
    limit = _MAX_FOUND if plan.limit is None else plan.limit
    find = partial(
        find_in_task,
        store=plan.backup.store,
        match=plan.match,
        limit=limit + 1,  # one more tells that there are more
        registry=framed.registry if plan.match.where else RegistrySnapshot(),
    )
    whole = WholeProgress(on_progress, tasks_total=len(plan.tasks))
    matches: list[MatchingRecord] = []
    searched_bytes = 0
    for wave in _waves(plan.tasks, len(plan.tasks) if plan.limit is None else SEARCH_WAVE):
        with job_named(f"search {plan.backup.layout.backup}: {amount(len(wave), 'segment')} of {len(plan.tasks):,}"):
            matches += [match for records in runner.run(wave, find, on_progress=whole) for match in records]
        whole.next_run()
        searched_bytes += sum(task.raw_bytes for task in wave)
        if len(matches) > limit:
            break
    return SearchResult(
        records=tuple(show_record(found_record, framed) for found_record in matches[:limit]),
        complete=len(matches) <= limit,
        searched_bytes=searched_bytes,
        total_bytes=plan.raw_bytes,
    )


def _waves(tasks: Sequence[ScanTask], size: int) -> Iterator[Sequence[ScanTask]]:
    for start in range(0, len(tasks), max(size, 1)):
        yield tasks[start : start + size]


def _some_chains(point: PointInTime, selection: TopicSelection) -> SelectedChains:
    """Select chains. Raises `NoSuchTopic` also where patterns select none, because nothing could be shown."""
    selected = select_chains(point, selection)
    if not selected.topics:
        raise NoSuchTopic(
            f"backup {selected.backup} has no topic {', '.join(selection.include)} at commit {selected.commit}",
            hint=f"see its topics with: offsite show {selected.backup}",
        )
    return selected


def parse_rows(start: str | None, end: str | None, *, now_ms: int) -> RowFilter:
    """Parse the rows from `start` to `end`, as a person writes them: `[start, end)` of offsets or times. A number is an
    offset, everything else a time (`@1700000000000` is epoch ms). Raises `BadOption`."""
    rows = RowFilter()
    if start is not None:
        rows = rows.from_offset(_offset(start)) if start.isdecimal() else rows.since(_time_ms(start, now_ms))
    if end is not None:
        rows = rows.below_offset(_offset(end)) if end.isdecimal() else rows.until(_time_ms(end, now_ms) - 1)
    return rows


def _offset(text: str) -> int:
    offset = whole_number(text)
    if offset is None:
        raise BadOption(f"{text[:100]!r} is not an offset", hint=f"the largest is {MAX_OFFSET}")
    return offset


def _time_ms(text: str, now_ms: int) -> int:
    return parse_time(text.removeprefix("@"), now_ms=now_ms)
