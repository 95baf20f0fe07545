"""Where an imported backup came from: it belongs to one archive, as other backups belong to one cluster."""

from __future__ import annotations

from offsite.repository.descriptor import BackupDescriptor

_FORMAT, _PLACE = "import.format", "import.from"


def origin_options(format_name: str, place: str) -> tuple[tuple[str, str], ...]:
    """The options of a backup that is imported from there."""
    return (_FORMAT, format_name), (_PLACE, place)


def import_origin(descriptor: BackupDescriptor) -> str:
    """The archive, in words; empty for a backup of a cluster."""
    options = dict(descriptor.options)
    return f"the {options[_FORMAT]} archive {options[_PLACE]}" if _PLACE in options else ""
