"""The archive that an imported backup came from: it belongs to that one, as other backups belong to one cluster."""

from __future__ import annotations

from offsite.repository.descriptor import IMPORTED_FROM, BackupDescriptor

_FORMAT = "import.format"


def origin_options(format_name: str, place: str) -> tuple[tuple[str, str], ...]:
    """The options of a backup that is imported from there."""
    return (_FORMAT, format_name), (IMPORTED_FROM, place)


def import_origin(descriptor: BackupDescriptor) -> str:
    """Description of the archive that a backup was imported from; empty for a backup of a cluster."""
    options = dict(descriptor.options)
    return f"the {options[_FORMAT]} archive {options[IMPORTED_FROM]}" if descriptor.is_import else ""
