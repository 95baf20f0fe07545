"""A page that a command writes into a file, whole or not at all."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from offsite.cli.output import note
from offsite.model.errors import BadOption
from offsite.model.ids import random_id

_PRIVATE = 0o600
"""Mode of a new page, which names topics and places. A mode set by a person, for a web server, is kept."""
_HINT = "name a file in a folder that you can write to"


def check_writable(file: Path | None) -> None:
    """Return if a page can be written into `file`, as far as can be known before the work. Raises `BadOption`."""
    if file is not None and (file.is_dir() or not os.access(file.parent, os.W_OK)):
        raise BadOption(f"{file} cannot be written", hint=_HINT)


def write_page(file: Path, page: str) -> None:
    """Write the page; only the owner can read a new file, and an old one keeps its mode. Raises `BadOption`."""
    from offsite.stores.plain_files import check_replaceable

    beside = file.with_name(f".{file.name}.{random_id()}")
    try:
        check_replaceable(file)
        mode = stat.S_IMODE(file.stat().st_mode) if file.exists() else _PRIVATE
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w") as stream:
            stream.write(page)
        beside.replace(file)  # whoever has it open in a browser never sees half of one
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise BadOption(f"{file} cannot be written: {error.strerror}", hint=_HINT) from error
    note(f"written to {file}")
