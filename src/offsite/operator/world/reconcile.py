"""Brings a declared backup one step nearer to its spec, and reports the new state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.model.errors import OffsiteError, RestoreRunning
from offsite.operator.decide.backup import BackupCondition, ConditionType, check, decide
from offsite.operator.decide.seen import ObservedBackup
from offsite.operator.decide.wanted import DesiredBackup, RepositoryPlace
from offsite.operator.world.act import BackupExecutor
from offsite.operator.world.look import observe_backup


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconciledBackup:
    """The state after one reconciliation. Without conditions the backup is as declared."""

    observed: ObservedBackup
    conditions: tuple[BackupCondition, ...]


def reconcile(executor: BackupExecutor, desired: DesiredBackup, places: Iterable[RepositoryPlace]) -> ReconciledBackup:
    """Observe, execute the decided steps, observe again. `places`: all places in which the resource may have backups.
    Raises the errors of an observation: then nothing was decided."""
    everywhere = (*places, desired.place)
    observed, slot = (
        observe_backup(executor.observer, desired.uid, everywhere, ledger=desired.ledger),
        executor.slots.availability(desired.uid),
    )
    problems = []
    for step in decide(desired, observed, slot).steps:
        try:
            executor.carry_out(desired, step, observed=observed)
        except RestoreRunning as error:
            problems.append(BackupCondition(type=ConditionType.INCORRECT_BACKUP_STATE, message=error.message))
        except OffsiteError as error:
            said = f"{error.id}: {error.message}{'; ' if error.hint else ''}{error.hint}"
            problems.append(BackupCondition(type=ConditionType.MISCONFIGURED_BACKUP, message=said))
    observed, slot = (
        observe_backup(executor.observer, desired.uid, everywhere, ledger=desired.ledger),
        executor.slots.availability(desired.uid),
    )
    return ReconciledBackup(observed=observed, conditions=_merged(problems, check(desired, observed, slot)))


def _merged(problems: Iterable[BackupCondition], conditions: Iterable[BackupCondition]) -> tuple[BackupCondition, ...]:
    """Keep one condition of every type: a failed step says more than an unfinished one."""
    by_type = {condition.type: condition for condition in conditions} | {
        condition.type: condition for condition in problems
    }
    return tuple(by_type[kind] for kind in ConditionType if kind in by_type)
