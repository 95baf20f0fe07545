"""Brings a declared backup one step nearer to its spec, and reports the new state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.model.errors import OffsiteError, RestoreRunning
from offsite.operator.decide.backup import Condition, ConditionType, check, decide
from offsite.operator.decide.seen import BackupSeen
from offsite.operator.decide.wanted import Place, Wanted
from offsite.operator.world.act import Hands
from offsite.operator.world.look import look


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """The state after one reconciliation. Without conditions the backup is as declared."""

    seen: BackupSeen
    conditions: tuple[Condition, ...]


def reconcile(hands: Hands, wanted: Wanted, places: Iterable[Place]) -> Reconciled:
    """Observe, execute the decided steps, observe again. `places`: all places in which the resource may have backups.
    Raises the errors of an observation: then nothing was decided."""
    everywhere = (*places, wanted.place)
    seen, slot = look(hands.eyes, wanted.uid, everywhere, ledger=wanted.ledger), hands.slots.of(wanted.uid)
    problems = []
    for step in decide(wanted, seen, slot).steps:
        try:
            hands.carry_out(wanted, step, seen=seen)
        except RestoreRunning as error:
            problems.append(Condition(type=ConditionType.INCORRECT_BACKUP_STATE, message=error.message))
        except OffsiteError as error:
            said = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
            problems.append(Condition(type=ConditionType.MISCONFIGURED_BACKUP, message=said))
    seen, slot = look(hands.eyes, wanted.uid, everywhere, ledger=wanted.ledger), hands.slots.of(wanted.uid)
    return Reconciled(seen=seen, conditions=_merged(problems, check(wanted, seen, slot)))


def _merged(problems: Iterable[Condition], found: Iterable[Condition]) -> tuple[Condition, ...]:
    """Keep one condition of every type: a failed step says more than an unfinished one."""
    by_type = {each.type: each for each in found} | {each.type: each for each in problems}
    return tuple(by_type[kind] for kind in ConditionType if kind in by_type)
