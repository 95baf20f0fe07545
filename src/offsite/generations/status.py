"""The state of a set for people and scripts: the generations, the active generation, and the generation to restore
from; and the actions of an instance, a line at a time."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.generations.archive_target import place_of
from offsite.generations.decision import (
    AppendEntry,
    CompletedEffect,
    CopyGeneration,
    Effect,
    RemoveGeneration,
    Rest,
    Send,
)
from offsite.generations.removals import GenerationRemoval, last_removals
from offsite.model.errors import BackupNotFound, GenerationRefused
from offsite.model.ids import random_id
from offsite.model.journal import warned
from offsite.repository.backup import Backup
from offsite.repository.generation_sets.entry import Founding, GenerationEntry, GenerationEntryKind, Instance
from offsite.repository.generation_sets.generation_set import (
    Generation,
    GenerationPhase,
    GenerationSet,
)
from offsite.repository.generation_sets.ledger import KeptGeneration, SetLayout, get_kept, set_ledger, set_names
from offsite.repository.local_memory import ReleaseMemory
from offsite.repository.repository import Repository
from offsite.repository.restores.record import try_unfinished_restores
from offsite.stores.numbered_log import EntryRefusedError, LedgerEntryInfo

_WORDS = {
    GenerationEntryKind.JOINED: "this process runs the instance",
    GenerationEntryKind.BEGUN: "generation {} begins, from the first offset on",
    GenerationEntryKind.COMPLETED: "generation {} is complete",
    GenerationEntryKind.ASKED: "generation {} is old enough: the other instance may begin the next one",
    GenerationEntryKind.SWITCHED: "generation {} has reached the end, and is the active one",
    GenerationEntryKind.REMOVING: "generation {} is being removed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationReport:
    """A generation that is not removed. `place`: the name of the backup, or the place of the archive. `phase`: filling,
    complete, retired, sealed or removing. `is_released`: the ledger lets the generation go even with unique records, in
    whose name (`released_by`) and when. `kept`: why the next generation does not take over, or the generation is not
    removed: the records missing in the next. Times: epoch ms by the store's clock, 0 for not yet."""

    number: int
    instance: str
    place: str
    phase: str
    is_active: bool
    began_ms: int
    complete_ms: int
    retired_ms: int
    is_released: bool
    released_by: str = ""
    released_ms: int = 0
    kept: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetReport:
    """A set of generations. `restore_from`: the place of the generation to restore from, empty while none is complete.
    `is_archive`: that place is an Avro archive, else a backup. `processes`: the process of every instance, as it named
    itself. `asked_ms`: since when the active generation asks for the next, 0 if it does not. `removed`: the number of
    removed generations; `removals`: the last removals, as noted before each, oldest first."""

    name: str
    topics: tuple[str, ...]
    cluster_id: str
    restore_from: str
    is_archive: bool
    generations: tuple[GenerationReport, ...]
    processes: tuple[tuple[str, str], ...]
    asked_ms: int
    removed: int
    removals: tuple[GenerationRemoval, ...] = ()


def report_sets(repository: Repository, name: str | None = None) -> tuple[SetReport, ...]:
    """Report all sets of the repository, or the named set. Raises `BackupNotFound`, `DamagedObject`."""
    names = set_names(repository.store) if name is None else (name,)
    return tuple(_report(repository, read_set(repository, set_name)) for set_name in names)


def read_set(repository: Repository, name: str) -> GenerationSet:
    """Read the state of a set. Raises `BackupNotFound` where none exists, `DamagedObject`."""
    state = set_ledger(repository.store, name).read()
    if state.founding is None:
        names = ", ".join(set_names(repository.store)) or "none"
        raise BackupNotFound(
            f"there are no generations {name} in {repository.store.url} (there: {names})",
            hint="see: offsite generations status",
        )
    return state


def backup_or_generation(repository: Repository, name: str) -> Backup:
    """Open the backup of the name, or else the generation to restore from of the set of the name. Raises the errors of
    `Repository.backup`."""
    try:
        return repository.backup(name)
    except BackupNotFound:
        state = set_ledger(repository.store, name).read()
        if (newest := state.restorable) is None or state.founding is None or state.founding.place:
            raise
        return repository.backup(SetLayout(name=name).backup_name(newest.number))


def restores_elsewhere(repository: Repository, name: str, *, chosen: str) -> tuple[str, ...]:
    """The other generations of a set, by backup name, with a begun and unfinished restore: such a restore only
    continues under the name of its generation. An unreadable generation may contain such a restore, too."""
    state = set_ledger(repository.store, name).read()
    layouts = (
        SetLayout(name=name).backup(generation.number) for generation in state.generations if generation.is_whole
    )
    return tuple(
        layout.backup
        for layout in layouts
        if layout.backup != chosen and any(True for _ in try_unfinished_restores(repository.record_store, layout))
    )


def release(repository: Repository, name: str, generation: int, *, by: str) -> SetReport:
    """Release a generation that another generation replaced, or is about to replace, even with unique records: a topic
    was deleted or emptied, or a log cut back. Raises `BackupNotFound`, `GenerationRefused`."""
    ledger = set_ledger(repository.store, name)
    while True:
        state = read_set(repository, name)
        entry = GenerationEntry(
            seq=state.seq + 1,
            previous=state.head,
            kind=GenerationEntryKind.RELEASED,
            instance=Instance.A,
            word=random_id(16),
            at_ms=repository.store.now_ms(),
            generation=generation,
            by=by,
        )
        try:
            new = ledger.append(entry, to=state)
        except EntryRefusedError as error:
            raise GenerationRefused(
                f"generation {generation} of {name} cannot be released: {error}",
                hint=f"see its generations: offsite generations status --name {name}",
            ) from error
        if new is not None:
            if (word := _released(new, generation)) is not None:
                _memory(repository, name).note_given(word)
            return _report(repository, new)


def refuse_release(repository: Repository, name: str, generation: int) -> SetReport:
    """Refuse the release in the ledger: on the local machine the release never counts, because nobody gave it. Raises
    `BackupNotFound`, and `GenerationRefused` without a release."""
    state = read_set(repository, name)
    if (word := _released(state, generation)) is None:
        raise GenerationRefused(
            f"nobody released generation {generation} of {name}",
            hint=f"see its generations: offsite generations status --name {name}",
        )
    _memory(repository, name).note_refused(word)
    warned("release_refused", set=name, generation=generation, who=word.by, why="a person said so")
    return _report(repository, state)


def _released(state: GenerationSet, generation: int) -> LedgerEntryInfo | None:
    current = state.generation(generation)
    return None if current is None else current.released


def _memory(repository: Repository, name: str) -> ReleaseMemory:
    return ReleaseMemory(store=repository.store, prefix=SetLayout(name=name).ledger_prefix)


def _report(repository: Repository, state: GenerationSet) -> SetReport:
    founding = state.founding
    remaining = [generation for generation in state.generations if generation.phase is not GenerationPhase.REMOVED]
    newest, kept_generation = state.restorable, get_kept(repository.store, SetLayout(name=state.name))
    return SetReport(
        name=state.name,
        topics=() if founding is None else founding.include,
        cluster_id="" if founding is None else founding.cluster_id,
        restore_from="" if newest is None else _place(state.name, founding, newest.number),
        is_archive=founding is not None and bool(founding.place),
        generations=tuple(_generation(state, generation, kept_generation) for generation in remaining),
        processes=tuple((str(instance), state.joined_by[instance]) for instance in sorted(state.joined_by)),
        asked_ms=state.asked_ms,
        removed=len(state.generations) - len(remaining),
        removals=last_removals(repository.store, SetLayout(name=state.name)),
    )


def _generation(
    state: GenerationSet, generation: Generation, kept_generation: KeptGeneration | None
) -> GenerationReport:
    return GenerationReport(
        number=generation.number,
        instance=str(generation.instance),
        place=_place(state.name, state.founding, generation.number),
        phase=str(generation.phase),
        is_active=generation.number == state.active,
        began_ms=generation.began_ms,
        complete_ms=generation.complete_ms,
        retired_ms=generation.retired_ms,
        is_released=generation.is_released,
        released_by="" if generation.released is None else generation.released.by,
        released_ms=0 if generation.released is None else generation.released.at_ms,
        kept=kept_generation.why if kept_generation is not None and kept_generation.stays(generation) else "",
    )


def _place(name: str, founding: Founding | None, number: int) -> str:
    if founding is not None and founding.place:
        return place_of(founding.place, name, number)
    return SetLayout(name=name).backup_name(number)


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
