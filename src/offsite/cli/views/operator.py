"""Declared resources, for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from offsite.model.plain import plain
from offsite.model.units import format_duration, format_size, format_time

if TYPE_CHECKING:
    from rich.console import Console

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


def render_look(console: Console, look: LookResult) -> None:
    good = look.resources - len(look.waiting)
    console.print(f"{good} of {look.resources} resources are as declared")
    for resource in look.waiting:
        console.print(f"  {resource.kind} {resource.name}: {resource.why}")


def render_applied(console: Console, result: AppliedAll) -> None:
    for resource in result.resources:
        console.print(f"{resource.kind} {resource.name} {resource.change} ({resource.file})")


def render_removal(console: Console, removal: ResourceRemoval) -> None:
    console.print(f"{removal.kind} {removal.name} is deleted: {_ENDS.get(removal.kind, 'no operator manages it')}")
    for file in removal.files:
        console.print(f"  {file} is removed")
    for backup in removal.backups:
        goes = f"is DELETED{', unless others share it' if removal.identity else ''}"
        console.print(f"  {backup} {'is kept' if removal.keeps_backups else goes}")


def render_move(console: Console, move: Move) -> None:
    console.print(f"the resources of {move.before} continue in {move.folder}")


def render_resources(console: Console, listing: ResourceList) -> None:
    from rich.table import Table

    if not listing.resources:
        console.print("nothing is declared; begin with: offsite operator apply -f FILE")
        return
    table = Table("KIND", "NAME", "GENERATION", "STATE", "RECONCILED", "OLDEST DATA", "LATEST RESTORABLE", "AGE")
    for resource in listing.resources:
        age = format_duration(resource.age_s) if resource.age_s >= 0 else "-"
        is_good = "yes" if resource.reconciled else "no"
        times = (resource.oldest_data[:19] or "-", resource.latest_restorable[:19] or "-")
        table.add_row(
            resource.kind, resource.name, str(resource.generation or "-"), resource.state, is_good, *times, age
        )
    console.print(table)
    for resource in listing.resources:
        if resource.message:
            console.print(f"{resource.kind} {resource.name}: {resource.message}")
    for silence in dict.fromkeys(filter(None, map(_silence, listing.resources))):
        console.print(f"{silence}: is an operator running?")


def render_detail(console: Console, detail: ResourceDetail) -> None:
    line = detail.line
    console.print(f"{line.kind} {line.name}: {line.state}{', deletion was requested' if detail.deletion_asked else ''}")
    console.print(f"  uid {detail.uid or '-'}, generation {line.generation}, declared in {detail.file or '-'}")
    console.print(f"  {'as declared' if line.reconciled else line.message or 'not as declared'}")
    if line.reconciled and line.message:
        console.print(f"  {line.message}")
    if silence := _silence(line):
        console.print(f"  {silence}, this state may be old: is an operator running?")
    if detail.queue is not None:
        console.print(f"  expiry queue: {_queue(detail.queue)}")
    if (job := detail.last_job) is not None:
        end_text = f"ended at {format_time(job.ended_ms)} with exit code {job.exit_code}" if job.ended_ms else "runs"
        job_kind = "deletion" if job.deletion else "expiry job"
        console.print(
            f"  last {job_kind}: began at {format_time(job.started_ms)}, {end_text}{': ' if job.said else ''}{job.said}"
        )
    for lock in detail.locks:
        since = format_time(lock.since_ms)
        console.print(f"  {lock.what} in {lock.repository}: held by {lock.holder} since {since}")
    for problem in detail.problems:
        console.print(f"  locks are not known: {problem}")
    for title, fields in (("spec", detail.spec), ("status", detail.status)):
        console.print(f"{title}:")
        for row in json.dumps(plain(fields), indent=2).splitlines()[1:-1]:
            console.print(row)


def _silence(line: ResourceLine) -> str:
    """Return a warning that the displayed state is old; empty for a recent state, or without a state."""
    if not line.silent or line.looked_s < 0:
        return ""
    return f"no operator has checked this for {format_duration(line.looked_s)}"


def _queue(place: QueuePlace) -> str:
    if place.running:
        return "its job runs"
    return f"{place.position} of {place.of}" if place.position else "nothing of it may be deleted"


def render_members(console: Console, shared: MemberList) -> None:
    member_count = sum(not member.gone for member in shared.members)
    noun = "resource shares" if member_count == 1 else "resources share"
    console.print(f"{member_count} {noun} {shared.identity} in {shared.repository}")
    for member in shared.members:
        console.print(f"  {member.id}  {member.name}: {_membership(member)}")
        console.print(f"    {member.operator} reported it last, at {format_time(member.at_ms)}")


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


def render_release(console: Console, plan: ReleasePlan) -> None:
    if plan.doubt:
        state = f"is kept for now: {plan.doubt}"
    else:
        state = "is released: the next expiry job here deletes it" if plan.released else "would be deleted completely"
    console.print(f"{plan.backup} in {plan.repository} {state}")
    if plan.problem:
        console.print(f"  its content is not known: {plan.problem}")
    else:
        content = f"{plan.records:,} records, {format_size(plan.bytes)}, {plan.points:,} restore points"
        console.print(f"  holds {plan.topics or 'no topic'}: {content}")
        if plan.points:
            console.print(f"  from {format_time(plan.oldest_ms)} to {format_time(plan.newest_ms)}")
    console.print(f"  it was kept because: {plan.kept or 'no job has reported a reason'}")
    for pin in plan.pins:
        console.print(f"  pinned, and deleted with it: {pin}")
    for restore in plan.restores:
        console.print(f"  {restore}")
