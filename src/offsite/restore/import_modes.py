"""Whose import a subject of the target's registry is in: a restore stores the modes before it opens the first subject,
and a later run, after a kill, goes on only with subjects that such a restore opened.

A restore that was killed so early has no topics, and the same command begins a new one. So all unfinished restores
count that this installation began.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from offsite.repository.backup import Backup
from offsite.repository.local_memory import is_written_here, note_written
from offsite.repository.restores.import_modes import get_import_modes, put_import_modes
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import try_unfinished_restores
from offsite.schemas.register import IMPORT


def earlier_modes(backup: Backup, registry: str) -> dict[str, str]:
    """By subject, the modes at the registry with the address `registry` before unfinished restores imported into them.
    What this installation did not write counts for nothing. Raises the errors of the store."""
    store, modes = backup.record_store, dict[str, str]()
    for restore in try_unfinished_restores(store, backup.layout):
        layout = RestoreLayout(backup=backup.layout, restore=restore.restore)
        if is_written_here(store, layout.import_modes_key):
            before = get_import_modes(store, layout, registry) or {}
            modes |= {subject: mode for subject, mode in before.items() if mode != IMPORT}
    return modes


def keep_modes(
    backup: Backup, layout: RestoreLayout, registry: str, modes: Mapping[str, str], earlier: Mapping[str, str]
) -> dict[str, str]:
    """`modes`, which subjects have now, where no `earlier` restore opened them; stored for restore `layout`. Raises
    `RestoreTakenOver`."""
    before = {subject: earlier.get(subject, mode) if mode == IMPORT else mode for subject, mode in modes.items()}
    store = backup.record_store
    if get_import_modes(store, layout, registry) is None:
        put_import_modes(store, layout, registry, before, on_record=partial(note_written, store))
    return before
