"""Records of a backup: a few at a time, in order. A search through all records is a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import Field

from offsite.jobs.ask import SEARCH
from offsite.model.bounds import MAX_PARTITIONS
from offsite.model.journal import noted
from offsite.model.units import MIB
from offsite.repository.backup import Backup
from offsite.restore.options import PointWords, parse_point
from offsite.serve.answers import answer
from offsite.serve.guard.tokens import Caller
from offsite.serve.site import ClusterAddress
from offsite.serve.v1.context import PROBLEMS, BackupName, IdempotencyKey, TheCaller, TheSite
from offsite.serve.v1.job_answers import JobBegun, begin, make_job_request
from offsite.serve.v1.words import Body, check_bounded, sent_words, to_arguments
from offsite.table.search import RecordsRequest, cat_records, plan_records
from offsite.table.shown_record import ShownRecord

router = APIRouter(responses=PROBLEMS)


class RecordsQuery(Body):
    """The records to show: of a `topic`, or of its `partition`, from `start` to `end` (an offset, or a time), at most
    `limit`."""

    topic: Annotated[str, Field(max_length=300)]
    partition: Annotated[int, Field(ge=0, lt=MAX_PARTITIONS)] | None = None
    start: Annotated[str, Field(max_length=100)] | None = None
    end: Annotated[str, Field(max_length=100)] | None = None
    limit: Annotated[int, Field(ge=1, le=1_000)] = 100


_Some = Annotated[str, Field(max_length=1_000)]


_OPTIONS = {"topic": "topics", "start": "from", "end": "to"}
_SHOWN_MAX = 4 * MIB
"""No further record is read after so many characters of keys and values."""


class SearchBody(Body):
    """Records of `topic` with this `key`, or with this text in their `value`, from `start` to `end`."""

    topic: _Some
    key: _Some | None = None
    value: _Some | None = None
    start: _Some | None = None
    end: _Some | None = None
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100


@router.get("/backups/{backup}/records", response_model=list[dict[str, Any]])
def records(site: TheSite, caller: TheCaller, backup: BackupName, query: Annotated[RecordsQuery, Query()]) -> Response:
    """The first records from `start` on, decoded, partition by partition, in the form of `offsite cat -o json`."""
    return answer(read_records(site.cached_backup(backup), query, caller))


@router.post("/backups/{backup}/searches", status_code=202, response_model=JobBegun)
def search(
    site: TheSite, caller: TheCaller, backup: BackupName, body: SearchBody, key: IdempotencyKey = None
) -> Response:
    """Search a topic for records, as a job."""
    site.backup(backup)
    return begin(
        site, make_job_request(caller, SEARCH, backup, search_command(backup, body)), ClusterAddress(), word=key
    )


def search_command(backup: str, body: SearchBody) -> list[str]:
    options = {_OPTIONS.get(name, name): value for name, value in sent_words(body).items()}
    return [SEARCH, *to_arguments({"backup": backup, **options})]


def read_records(backup: Backup, query: RecordsQuery, caller: Caller) -> list[ShownRecord]:
    """Read the first records of the query; fewer if they are large. Before the first read, a journal line records the
    caller and the query. Raises `NoSuchTopic`, `BadOption`, `BadName`."""
    topic, partition = query.topic, query.partition
    check_bounded({"topics": [topic]})
    words = PointWords(topics=[topic], partitions=None if partition is None else [f"{topic}:{partition}"])
    request = RecordsRequest(point=parse_point(words), start=query.start, end=query.end, limit=query.limit)
    plan = plan_records(backup, request)
    noted("looked", by=caller.name, what="records", backup=backup.layout.backup, **query.model_dump())
    return list(_bounded(cat_records(plan)))


def _bounded(records: Iterator[ShownRecord]) -> Iterator[ShownRecord]:
    size = 0
    for record in records:
        yield record
        size += sum(len(str(part.data)) for part in (record.key, record.value) if part is not None)
        if size > _SHOWN_MAX:
            return
