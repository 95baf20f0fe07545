"""Records: a few in order, one with its place in the log, and a search through all of them, which is a job. All of it
needs the right to records, and each look leaves a line in the journal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import Field

from offsite.jobs.ask import SEARCH, JobTicket
from offsite.log.range import TopicPartition
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.errors import BadOption
from offsite.model.options import IsolationText
from offsite.model.selection import to_arguments
from offsite.model.units import MIB
from offsite.restore.options import PointWords, parse_point
from offsite.serve.answers import answer
from offsite.serve.looks import note_look, offsets_of
from offsite.serve.site import ClusterAddress, Site
from offsite.serve.tokens import Caller
from offsite.serve.v1.jobs import JobBegun, answer_begun, begin_job, make_job_request
from offsite.serve.v1.requests import (
    PROBLEMS,
    BackupName,
    Body,
    CommitNumber,
    IdempotencyKey,
    TheCaller,
    TheSite,
    check_bounded,
    sent_words,
)
from offsite.table.match_words import CONDITIONS, parse_match
from offsite.table.record_detail import DECODED_MAX, FoundRecord, find_record_detail, find_stored
from offsite.table.search import RecordsRequest, cat_records, plan_records
from offsite.table.shown_record import ShownRecord

router = APIRouter(responses=PROBLEMS)

_SHOWN_MAX = 4 * MIB
"""No further record is read after so many characters of keys, values and headers."""
_HEADER_SIZE = 16
_OPTIONS = {"start": "from", "end": "to"}

RECORD_PATH = "/backups/{backup}/records/{topic}/{partition}/{offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAddress:
    """The record that a path names. `commit`: as of which commit; None: the newest. `deep`: read many commits back for
    the restore points that hold it."""

    backup: str
    partition: TopicPartition
    offset: int
    commit: int | None
    deep: bool

    @property
    def place(self) -> dict[str, object]:
        """The words of a line in the journal."""
        return {**self.partition._asdict(), "offsets": self.offset}


def _address(  # noqa: PLR0913, PLR0917  # the parts of a path
    caller: TheCaller,
    backup: BackupName,
    topic: Annotated[str, Path(description="Name of the topic.", max_length=249)],
    partition: Annotated[int, Path(ge=0, lt=MAX_PARTITIONS, description="Number of the partition.")],
    offset: Annotated[int, Path(ge=0, le=MAX_OFFSET, description="Offset of the record.")],
    commit: CommitNumber = None,
    *,
    deep: Annotated[bool, Query(description="Read many commits back for the restore points that hold it.")] = False,
) -> RecordAddress:
    caller.scope.check_topics([topic], by=caller.name)
    where = TopicPartition(topic=topic, partition=partition)
    return RecordAddress(backup=backup, partition=where, offset=offset, commit=commit, deep=deep)


TheRecord = Annotated[RecordAddress, Depends(_address)]


class RecordsQuery(Body):
    """The records to show: of a `topic`, or of its `partition`, from `start` to `end` (an offset, or a time), at most
    `limit`."""

    topic: Annotated[str, Field(max_length=300)]
    partition: Annotated[int, Field(ge=0, lt=MAX_PARTITIONS)] | None = None
    start: Annotated[str, Field(max_length=100)] | None = None
    end: Annotated[str, Field(max_length=100)] | None = None
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


_Some = Annotated[str, Field(max_length=1_000)]
_Several = Annotated[list[_Some], Field(max_length=100)]


class SearchBody(Body):
    """Records that fulfil all conditions, of the `topics` (names or patterns; `topic`: one), from `start` to `end`, as
    of the newest commit or of `commit`: the options of `offsite search`. `key`, `key_hex`: the key; `value`: this text
    anywhere in the value; `header`: name, or name=value; `where`: a JSON pointer into the decoded value, as
    `/customer/id=42`."""

    topic: _Some | None = None
    topics: _Several | None = None
    partitions: _Several | None = None
    key: _Some | None = None
    key_hex: _Some | None = None
    value: _Some | None = None
    header: _Several | None = None
    where: _Several | None = None
    start: _Some | None = None
    end: _Some | None = None
    commit: Annotated[int, Field(ge=0, le=MAX_OFFSET)] | None = None
    isolation: IsolationText | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100


@router.get("/backups/{backup}/records", response_model=list[dict[str, Any]])
def records(site: TheSite, caller: TheCaller, backup: BackupName, query: Annotated[RecordsQuery, Query()]) -> Response:
    """The first records from `start` on, decoded, partition by partition, in the form of `offsite cat -o json`. A
    record of more than 256 KiB is shown as text or bytes, not decoded."""
    return answer(read_records(site, caller, backup, query))


@router.get(RECORD_PATH, response_model=dict[str, Any])
def record(site: TheSite, caller: TheCaller, address: TheRecord) -> Response:
    """One record, decoded, of a transaction with any outcome: its batch, its neighbours, the restore points that hold
    it, and where restores put it."""
    return answer(read_record_noted(site, caller, address).detail)


@router.get(f"{RECORD_PATH}/{{part}}", response_class=Response)
def bytes_of_record(site: TheSite, caller: TheCaller, address: TheRecord, part: Literal["key", "value"]) -> Response:
    """The bytes of the key or the value, unchanged, as a file."""
    where, offset = address.partition, address.offset
    stored = find_stored(site.cached_backup(address.backup), where, offset, commit=address.commit)
    data = None if stored is None else stored.key if part == "key" else stored.value
    if data is None:
        why = f"{where} has no record at offset {offset}" if stored is None else f"the {part} is null"
        raise BadOption(why, hint="null has no bytes, not even none")
    note_look(site, caller, f"{part} of a record", address.backup, **address.place)
    disposition = f"attachment; filename={where.topic}-{where.partition}-{offset}.{part}"
    return Response(data, media_type="application/octet-stream", headers={"Content-Disposition": disposition})


@router.post("/backups/{backup}/searches", status_code=202, response_model=JobBegun)
def search(
    site: TheSite, caller: TheCaller, backup: BackupName, body: SearchBody, key: IdempotencyKey = None
) -> Response:
    """Search topics for records, as a job."""
    return answer_begun(site, begin_search(site, caller, backup, body, word=key))


def begin_search(site: Site, caller: Caller, backup: str, body: SearchBody, *, word: str | None) -> JobTicket:
    """Begin the job. Raises `BadOption` for conditions that the job would refuse, and the errors of `begin_job`."""
    site.backup(backup)
    words = sent_words(body)
    topics = [*words.pop("topics", ()), *([words.pop("topic")] if "topic" in words else [])]
    if not topics:
        raise BadOption("the search names no topic", hint="give names or patterns in topics")
    caller.scope.check_words({**words, "topics": topics}, by=caller.name)
    given = {name: words[name] for name in CONDITIONS if name in words}
    parse_match({name: value if isinstance(value, list) else [value] for name, value in given.items()})
    options = {_OPTIONS.get(name, name): value for name, value in words.items()}
    command = [SEARCH, *to_arguments({"backup": backup, "topics": topics, **options})]
    ticket = begin_job(site, make_job_request(caller, SEARCH, backup, command), ClusterAddress(), word=word)
    note_look(site, caller, f"search begun as job {ticket.id}", backup, topic=",".join(topics))
    return ticket


def read_records(site: Site, caller: Caller, backup: str, query: RecordsQuery) -> list[ShownRecord]:
    """Read the first records of the query; fewer if they are large. A journal line tells which were read, before any is
    shown. Raises `NoSuchTopic`, `BadOption`, `BadName`, `NotAllowed`."""
    topic, partition = query.topic, query.partition
    caller.scope.check_topics([topic], by=caller.name)
    check_bounded({"topics": [topic]})
    words = PointWords(topics=[topic], partitions=None if partition is None else [f"{topic}:{partition}"])
    request = RecordsRequest(point=parse_point(words), start=query.start, end=query.end, limit=query.limit)
    shown = list(_bounded(cat_records(plan_records(site.cached_backup(backup), request), decoded_max=DECODED_MAX)))
    places = offsets_of((record.topic, record.partition, record.offset) for record in shown)
    note_look(site, caller, "records", backup, **query.model_dump(), offsets=places or "none")
    return shown


def read_record_noted(site: Site, caller: Caller, address: RecordAddress) -> FoundRecord:
    """Read one record, and tell the journal before it is shown. Raises the errors of `find_record_detail`."""
    backup = site.cached_backup(address.backup)
    found_record = find_record_detail(
        backup, address.partition, address.offset, commit=address.commit, deep=address.deep
    )
    note_look(site, caller, "record", address.backup, **address.place)
    return found_record


def _bounded(records: Iterator[ShownRecord]) -> Iterator[ShownRecord]:
    size = 0
    for record in records:
        yield record
        parts = (record.key, record.value, *(header.value for header in record.headers))
        size += sum(len(str(part.data)) for part in parts if part is not None) + _HEADER_SIZE * len(record.headers)
        if size > _SHOWN_MAX:
            return
