"""Declared resources, for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from offsite.model.plain import plain
from offsite.model.size import format_size
from offsite.model.time import format_duration, format_time

if TYPE_CHECKING:
    from rich.console import Console

    from offsite.operator.folder.edits import AppliedAll, Removal
    from offsite.operator.folder.moves import Move
    from offsite.operator.folder.operator import Look
    from offsite.operator.folder.views import QueuePlace, ResourceDetail, ResourceLine, ResourceList
    from offsite.operator.work.release import ReleasePlan
    from offsite.operator.world.membership import MemberLine, MemberList


_ENDS = {
    "Backup": "its agents end, its backups are stopped",
    "Restore": "if it runs it is stopped; what it has written stays",
    "Schedule": "nothing begins any more; a run that has begun goes on to its end",
}


def render_look(console: Console, look: Look) -> None:
    good = look.resources - len(look.waiting)
    console.print(f"{good} of {look.resources} resources are as declared")
    for each in look.waiting:
        console.print(f"  {each.kind} {each.name}: {each.why}")


def render_applied(console: Console, done: AppliedAll) -> None:
    for each in done.resources:
        console.print(f"{each.kind} {each.name} {each.change} ({each.file})")


def render_removal(console: Console, removal: Removal) -> None:
    console.print(f"{removal.kind} {removal.name} is deleted: {_ENDS.get(removal.kind, 'nothing looks after it')}")
    for file in removal.files:
        console.print(f"  {file} is removed")
    for backup in removal.backups:
        goes = f"is DELETED{', unless others share it' if removal.identity else ''}"
        console.print(f"  {backup} {'stays' if removal.keeps_backups else goes}")


def render_move(console: Console, move: Move) -> None:
    console.print(f"the resources of {move.before} go on in {move.folder}")


def render_resources(console: Console, found: ResourceList) -> None:
    from rich.table import Table

    if not found.resources:
        console.print("nothing is declared; begin with: offsite operator apply -f FILE")
        return
    table = Table("KIND", "NAME", "GENERATION", "STATE", "RECONCILED", "OLDEST DATA", "LATEST RESTORABLE", "AGE")
    for each in found.resources:
        age = format_duration(each.age_s) if each.age_s >= 0 else "-"
        is_good = "yes" if each.reconciled else "no"
        times = (each.oldest_data[:19] or "-", each.latest_restorable[:19] or "-")
        table.add_row(each.kind, each.name, str(each.generation or "-"), each.state, is_good, *times, age)
    console.print(table)
    for each in found.resources:
        if each.message:
            console.print(f"{each.kind} {each.name}: {each.message}")
    for said in dict.fromkeys(filter(None, map(_silence, found.resources))):
        console.print(f"{said}: does one run?")


def render_detail(console: Console, found: ResourceDetail) -> None:
    line = found.line
    console.print(f"{line.kind} {line.name}: {line.state}{', deletion was asked for' if found.deletion_asked else ''}")
    console.print(f"  uid {found.uid or '-'}, generation {line.generation}, declared in {found.file or '-'}")
    console.print(f"  {'as declared' if line.reconciled else line.message or 'not as declared'}")
    if line.reconciled and line.message:
        console.print(f"  {line.message}")
    if said := _silence(line):
        console.print(f"  {said}, what is told may be no more: does one run?")
    if found.queue is not None:
        console.print(f"  expiry queue: {_queue(found.queue)}")
    if (job := found.last_job) is not None:
        ended = f"ended at {format_time(job.ended_ms)} with exit code {job.exit_code}" if job.ended_ms else "runs"
        what = "deletion" if job.deletion else "expiry job"
        console.print(
            f"  last {what}: began at {format_time(job.started_ms)}, {ended}{': ' if job.said else ''}{job.said}"
        )
    for lock in found.locks:
        since = format_time(lock.since_ms)
        console.print(f"  {lock.what} in {lock.repository}: held by {lock.holder} since {since}")
    for problem in found.problems:
        console.print(f"  locks cannot be told: {problem}")
    for title, fields in (("spec", found.spec), ("status", found.status)):
        console.print(f"{title}:")
        for row in json.dumps(plain(fields), indent=2).splitlines()[1:-1]:
            console.print(row)


def _silence(line: ResourceLine) -> str:
    """That what is told of a resource is old; empty where it is not, or where nothing was told."""
    if not line.silent or line.looked_s < 0:
        return ""
    return f"no operator has looked for {format_duration(line.looked_s)}"


def _queue(place: QueuePlace) -> str:
    if place.running:
        return "its job runs"
    return f"{place.position} of {place.of}" if place.position else "nothing of it may go"


def render_members(console: Console, shared: MemberList) -> None:
    there = sum(not member.gone for member in shared.members)
    console.print(f"{there} resources share {shared.identity} in {shared.repository}")
    for member in shared.members:
        console.print(f"  {member.id}  {member.name}: {_membership(member)}")
        console.print(f"    {member.operator} spoke for it last, at {format_time(member.at_ms)}")


def _membership(member: MemberLine) -> str:
    if member.gone:
        return "let go"
    if member.dismissed:
        when = (
            "" if member.believed else "; that counts here three days after it was first seen here, or once said here"
        )
        return f"gone, as a person said ({member.dismissed}){when}"
    return "what it declares counts" if member.counts else "shares it"


def render_release(console: Console, found: ReleasePlan) -> None:
    if found.doubt:
        state = f"stays for now: {found.doubt}"
    else:
        state = "is let go: the next expiry job here deletes it" if found.released else "would be let go, all of it"
    console.print(f"{found.backup} in {found.repository} {state}")
    if found.problem:
        console.print(f"  what it holds cannot be told: {found.problem}")
    else:
        held = f"{found.records:,} records, {format_size(found.bytes)}, {found.points:,} restore points"
        console.print(f"  holds {found.topics or 'no topic'}: {held}")
        if found.points:
            console.print(f"  from {format_time(found.oldest_ms)} to {format_time(found.newest_ms)}")
    console.print(f"  it was kept because: {found.kept or 'no job has said why'}")
    for pin in found.pins:
        console.print(f"  pinned, and goes with it: {pin}")
    for restore in found.restores:
        console.print(f"  {restore}")
