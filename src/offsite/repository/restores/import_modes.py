"""The modes that subjects at a target's registry had before a restore set them to IMPORT: one create-only object,
stored before the first of them changes. A subject in that mode without it is somebody else's import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from offsite.model.untrusted.json_codec import Spare
from offsite.repository.json_form import StoredForm
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import put_first
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectMode:
    """`mode`: of the subject itself; empty without one."""

    subject: str
    mode: Spare[str] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportModes:
    """The subjects of a restore at the registry with the address `registry`, never a login."""

    registry: str
    subjects: tuple[SubjectMode, ...] = ()


_FORM = StoredForm(ImportModes)


def put_import_modes(
    store: Store,
    layout: RestoreLayout,
    registry: str,
    modes: Mapping[str, str],
    *,
    on_record: Callable[[str, bytes], None],
) -> None:
    """Store `modes`, by subject. `on_record` gets key and bytes before. Raises `RestoreTakenOver` if another process
    was faster."""
    subjects = tuple(SubjectMode(subject=subject, mode=mode) for subject, mode in sorted(modes.items()))
    data = _FORM.encode(ImportModes(registry=registry, subjects=subjects))
    on_record(layout.import_modes_key, data)
    put_first(store, layout, layout.import_modes_key, data, otherwise="began to import schemas for")


def get_import_modes(store: Store, layout: RestoreLayout, registry: str) -> dict[str, str] | None:
    """The modes by subject; None before, and for another registry. Raises `DamagedObject`, `FormatTooNew`."""
    data = store.get(layout.import_modes_key)
    if data is None:
        return None
    stored = _FORM.decode(data, key=layout.import_modes_key)
    return {subject.subject: subject.mode for subject in stored.subjects} if stored.registry == registry else None
