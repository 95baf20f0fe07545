"""Declared resources, for people."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from offsite.cli.output import Line, Table
from offsite.model.names import amount
from offsite.model.plain import plain
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from offsite.operator.folder.edits import AppliedAll, ResourceRemoval
    from offsite.operator.folder.moves import Move
    from offsite.operator.folder.operator import LookResult
    from offsite.operator.folder.views import QueuePlace, ResourceDetail, ResourceLine, ResourceList
    from offsite.operator.work.release import ReleasePlan
    from offsite.operator.world.membership import MemberLine, MemberList


_ENDS = {
    "Backup": "its agents end, its backups are stopped",
    "Restore": "a running restore is stopped; written records are kept",
    "Schedule": "no new run begins; a started run continues to its end",
}


def render_look(look: LookResult) -> Iterator[Line]:
    good = look.resources - len(look.waiting)
    yield f"{good} of {look.resources} resources are as declared"
    for resource in look.waiting:
        yield f"  {resource.kind} {resource.name}: {resource.why}"


def render_applied(result: AppliedAll) -> Iterator[Line]:
    for resource in result.resources:
        yield f"{resource.kind} {resource.name} {resource.change} ({resource.file})"


def render_removal(removal: ResourceRemoval) -> Iterator[Line]:
    yield f"{removal.kind} {removal.name} is deleted: {_ENDS.get(removal.kind, 'no operator manages it')}"
    for file in removal.files:
        yield f"  {file} is removed"
    for backup in removal.backups:
        goes = f"is DELETED{', unless others share it' if removal.identity else ''}"
        yield f"  {backup} {'is kept' if removal.keeps_backups else goes}"


def render_move(move: Move) -> Iterator[Line]:
    yield f"the resources of {move.before} continue in {move.folder}"


def render_resources(listing: ResourceList) -> Iterator[Line]:
    if not listing.resources:
        yield "nothing is declared; begin with: offsite operator apply -f FILE"
        return
    table = Table("KIND", "NAME", "GENERATION", "STATE", "RECONCILED", "OLDEST DATA", "LATEST RESTORABLE", "AGE")
    for resource in listing.resources:
        age = format_duration(resource.age_s) if resource.age_s >= 0 else "-"
        is_good = "yes" if resource.reconciled else "no"
        times = (resource.oldest_data[:19] or "-", resource.latest_restorable[:19] or "-")
        table.add_row(
            resource.kind, resource.name, str(resource.generation or "-"), resource.state, is_good, *times, age
        )
    yield table
    for resource in listing.resources:
        if resource.message:
            yield f"{resource.kind} {resource.name}: {resource.message}"
    for silence in dict.fromkeys(filter(None, map(_silence, listing.resources))):
        yield f"{silence}: is an operator running?"


def render_detail(detail: ResourceDetail) -> Iterator[Line]:
    line = detail.line
    yield f"{line.kind} {line.name}: {line.state}{', deletion was requested' if detail.deletion_asked else ''}"
    yield f"  uid {detail.uid or '-'}, generation {line.generation}, declared in {detail.file or '-'}"
    yield f"  {'as declared' if line.reconciled else line.message or 'not as declared'}"
    if line.reconciled and line.message:
        yield f"  {line.message}"
    if silence := _silence(line):
        yield f"  {silence}, this state may be old: is an operator running?"
    if detail.queue is not None:
        yield f"  expiry queue: {_queue(detail.queue)}"
    if (job := detail.last_job) is not None:
        end_text = f"ended at {format_time(job.ended_ms)} with exit code {job.exit_code}" if job.ended_ms else "runs"
        job_kind = "deletion" if job.deletion else "expiry job"
        said = f": {job.said}" if job.said else ""
        yield f"  last {job_kind}: began at {format_time(job.started_ms)}, {end_text}{said}"
    for lock in detail.locks:
        since = format_time(lock.since_ms)
        yield f"  {lock.what} in {lock.repository}: held by {lock.holder} since {since}"
    for problem in detail.problems:
        yield f"  locks are not known: {problem}"
    for title, fields in (("spec", detail.spec), ("status", detail.status)):
        yield f"{title}:"
        yield from json.dumps(plain(fields), indent=2).splitlines()[1:-1]


def _silence(line: ResourceLine) -> str:
    """Return a warning that the displayed state is old; empty for a recent state, or without a state."""
    if not line.silent or line.looked_s < 0:
        return ""
    return f"no operator has checked this for {format_duration(line.looked_s)}"


def _queue(place: QueuePlace) -> str:
    if place.running:
        return "its job runs"
    return f"{place.position} of {place.of}" if place.position else "nothing of it may be deleted"


def render_members(shared: MemberList) -> Iterator[Line]:
    member_count = sum(not member.gone for member in shared.members)
    sharing = amount(member_count, "resource shares", "resources share")
    yield f"{sharing} {shared.identity} in {shared.repository}"
    for member in shared.members:
        yield f"  {member.id}  {member.name}: {_membership(member)}"
        yield f"    {member.operator} reported it last, at {format_time(member.at_ms)}"


def _membership(member: MemberLine) -> str:
    if member.gone:
        return "has left"
    if member.dismissed:
        when = (
            ""
            if member.believed
            else "; believed here three days after it was first seen here, or when also declared here"
        )
        return f"gone, declared by a person ({member.dismissed}){when}"
    return "its declaration counts" if member.counts else "shares it"


def render_release(plan: ReleasePlan) -> Iterator[Line]:
    if plan.doubt:
        state = f"is kept for now: {plan.doubt}"
    else:
        state = "is released: the next expiry job here deletes it" if plan.released else "would be deleted completely"
    yield f"{plan.backup} in {plan.repository} {state}"
    if plan.problem:
        yield f"  its content is not known: {plan.problem}"
    else:
        content = f"{amount(plan.records, 'record')}, {format_size(plan.bytes)}, {amount(plan.points, 'restore point')}"
        yield f"  holds {plan.topics or 'no topic'}: {content}"
        if plan.points:
            yield f"  from {format_time(plan.oldest_ms)} to {format_time(plan.newest_ms)}"
    yield f"  it was kept because: {plan.kept or 'no job has reported a reason'}"
    for pin in plan.pins:
        yield f"  pinned, and deleted with it: {pin}"
    for restore in plan.restores:
        yield f"  {restore}"
