"""Compacts in a run that follows: some regions at a time between rounds, where the backup deletes at all.

Compaction never ends a round, and delays none for long. A region larger than a step is left to `offsite compact run`,
and named. A failure is logged, and tried again later.
"""

from __future__ import annotations

from dataclasses import replace

from offsite.engine.runner import Runner
from offsite.model.clock import Clock
from offsite.model.errors import CommitLost, Damaged, OffsiteError
from offsite.model.journal import decided, noted, warned
from offsite.model.units import MIB
from offsite.repository.backup import Backup
from offsite.repository.state import BackupState
from offsite.upkeep.compaction.copy.regions import Region
from offsite.upkeep.compaction.plan import CompactionRequest, first_regions, plan_compaction
from offsite.upkeep.compaction.run import compact

STEP_BYTES = 256 * MIB
"""Raw bytes of the regions of a step: rounds of the backup wait for the step."""
RETRY_S = 600.0
"""Seconds after a failure."""


class Compacting:
    """Compacts due regions every `every_s` seconds; does nothing unless `is_wanted`."""

    def __init__(self, *, is_wanted: bool, runner: Runner, clock: Clock, every_s: float) -> None:
        self._is_wanted, self._runner = is_wanted, runner
        self._clock, self._every_s = clock, every_s
        self._next_s = clock.monotonic_s() + every_s

    def step(self, backup: Backup, state: BackupState) -> BackupState | None:
        """Compact some regions of `state`, the newest state, if due. Returns the state with the commit of the step.
        Raises no `OffsiteError`."""
        if not self._is_wanted or self._clock.monotonic_s() < self._next_s:
            return None
        try:
            return self._compact(backup, state)
        except CommitLost as error:  # another writer committed first: repeated later
            decided("compaction_overtaken", commit=state.seq, error=error.id, why=error.message)
            self._next_s = self._clock.monotonic_s() + min(RETRY_S, self._every_s)
            return None
        except OffsiteError as error:
            warned("compaction_failed", error=error.id, why=error.message)
            if isinstance(error, Damaged):
                backup.on_damage(error.message)
            self._next_s = self._clock.monotonic_s() + min(RETRY_S, self._every_s)
            return None

    def _compact(self, backup: Backup, state: BackupState) -> BackupState | None:
        plan = plan_compaction(backup, CompactionRequest(), head=state)
        fitting = tuple(region for region in plan.regions if _fits(region))
        chosen = tuple(first_regions(fitting, STEP_BYTES))
        compacted = compact(backup, replace(plan, regions=chosen), runner=self._runner) if chosen else None
        is_rest = compacted is None or compacted.left_alone or len(chosen) == len(fitting)
        self._next_s = self._clock.monotonic_s() + (self._every_s if is_rest else 0.0)
        return None if compacted is None or compacted.state.seq == state.seq else compacted.state


def _fits(region: Region) -> bool:
    """Whether a region fits into a step. A region that does not fit is logged."""
    if region.raw_bytes <= STEP_BYTES:
        return True
    noted("region_too_large", what=str(region.partition), bytes=region.raw_bytes, hint="offsite compact run")
    return False
