"""The archive of an imported backup: the backup belongs to it, as other backups belong to a cluster."""

from __future__ import annotations

from offsite.repository.descriptor import IMPORTED_FROM, BackupDescriptor

_FORMAT = "import.format"


def origin_options(format_name: str, place: str) -> tuple[tuple[str, str], ...]:
    """The options of a backup imported from the place."""
    return (_FORMAT, format_name), (IMPORTED_FROM, place)


def import_origin(descriptor: BackupDescriptor) -> str:
    """A description of the archive of an imported backup; empty for a backup of a cluster."""
    options = dict(descriptor.options)
    return f"the {options[_FORMAT]} archive {options[IMPORTED_FROM]}" if descriptor.is_import else ""
