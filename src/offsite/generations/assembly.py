"""Assembles an instance from a request and both ends, and reports its actions, a line at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from offsite.archives.export.run import ExportResult
from offsite.backup.outages import Outages
from offsite.engine.runner import Runner
from offsite.follow.follower import Round
from offsite.generations.archive_target import ArchiveParts, ArchiveTarget
from offsite.generations.backup_target import BackupParts, BackupTarget
from offsite.generations.coordination import Addresses, CoordinationTopic
from offsite.generations.decision import AppendEntry, CopyGeneration, Effect, InstanceView, RemoveGeneration, Rest, Send
from offsite.generations.instance import CompletedEffect, InstanceContext, RunningInstance
from offsite.generations.request import GenerationsRequest, selection_of
from offsite.generations.target import GenerationTarget
from offsite.kafka.cluster import Cluster
from offsite.model.clock import Clock
from offsite.model.ids import random_id
from offsite.model.selection import TopicSelection
from offsite.repository.generation_sets.entry import Founding, GenerationEntryKind
from offsite.repository.generation_sets.ledger import set_ledger
from offsite.repository.lease import ProcessIdentity
from offsite.repository.repository import Repository


def _unheard(_: ExportResult) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The parts that an instance works with, and its callbacks."""

    repository: Repository
    cluster: Cluster
    runner: Runner
    outages: Outages
    clock: Clock
    collect_after_s: float
    on_round: Callable[[Round], None]
    on_effect: Callable[[CompletedEffect], None]
    on_export: Callable[[ExportResult], None] = _unheard


def open_instance(request: GenerationsRequest, workshop: Workshop) -> RunningInstance:
    """Open the instance, which has done nothing yet. Raises `BadOption`, `DamagedObject`, and the errors of both
    ends."""
    ledger = set_ledger(workshop.repository.store, request.name)
    founding = request.founding(workshop.cluster.admin.cluster().cluster_id, ledger.read().founding)
    request = replace(request, backup=replace(request.backup, selection=selection_of(founding)))
    generations = InstanceContext(
        ledger=ledger,
        target=_target(request, founding, workshop),
        coordination=CoordinationTopic(
            workshop.cluster,
            Addresses(name=request.name, fallback=founding.include[0]),
            clock=workshop.clock,
        ),
        founding=founding,
        me=InstanceView(instance=request.instance, word=random_id(16), is_first=request.is_first),
        by=ProcessIdentity.current().text,
        length_ms=request.length_ms,
    )
    return RunningInstance(generations, on_effect=workshop.on_effect)


def _target(request: GenerationsRequest, founding: Founding, workshop: Workshop) -> GenerationTarget:
    if not request.place:
        return BackupTarget(_backup_parts(request, workshop))
    parts = ArchiveParts(
        name=request.name,
        place=request.place,
        cluster=workshop.cluster,
        cluster_id=founding.cluster_id,
        selection=TopicSelection(include=founding.include, exclude=founding.exclude, internal=founding.internal),
        groups=request.backup.groups,
        runner=workshop.runner,
        on_result=workshop.on_export,
    )
    return ArchiveTarget(parts)


def _backup_parts(request: GenerationsRequest, workshop: Workshop) -> BackupParts:
    return BackupParts(
        repository=workshop.repository,
        cluster=workshop.cluster,
        runner=workshop.runner,
        request=request.backup,
        interval_s=request.interval_s,
        collect_after_s=workshop.collect_after_s,
        clock=workshop.clock,
        outages=workshop.outages,
        on_round=workshop.on_round,
    )


_WORDS = {
    GenerationEntryKind.JOINED: "this process runs the instance",
    GenerationEntryKind.BEGUN: "generation {} begins, from the first offset on",
    GenerationEntryKind.COMPLETED: "generation {} is complete",
    GenerationEntryKind.ASKED: "generation {} is old enough: the other instance may begin the next one",
    GenerationEntryKind.SWITCHED: "generation {} has reached the end, and is the active one",
    GenerationEntryKind.REMOVING: "generation {} is being removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """A line. `active`: the number of the active generation; `restorable`: the number of the generation to restore
    from; 0: none yet. `lasts`: the line describes a lasting state, and its repetition is no news."""

    text: str
    set: str
    active: int
    restorable: int
    lasts: bool = False


def line_of(completed: CompletedEffect) -> ReportLine | None:
    """The line for a completed effect; None if not worth a line."""
    state, text = completed.state, _text(completed.effect)
    if text is None:
        return None
    newest = state.restorable
    return ReportLine(
        text=text,
        set=state.name,
        active=state.active,
        restorable=0 if newest is None else newest.number,
        lasts=isinstance(completed.effect, CopyGeneration | Rest),
    )


def _text(effect: Effect) -> str | None:
    match effect:
        case AppendEntry(kind=kind, generation=number):
            return _WORDS[kind].format(number) if kind in _WORDS else None
        case Send(event=event, to=to):
            return f"{event} is sent to instance {to}"
        case RemoveGeneration(generation=number):
            return f"generation {number} is removed"
        case CopyGeneration(generation=number, why=why):
            return f"generation {number} is read" + (f", and does not take over: {why}" if why else "")
        case Rest(why=why):
            return why
        case _:
            return None
