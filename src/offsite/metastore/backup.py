"""Reads a command topic once and brings the backup file up to date."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from offsite.metastore.folder import exposure_warning, locked, make_folder
from offsite.metastore.live import LiveBackup
from offsite.metastore.options import MetastorePlace
from offsite.metastore.source import CommandSource
from offsite.metastore.view import MetastoreVerdict, MetastoreView
from offsite.model.clock import Clock
from offsite.model.errors import CommandsLost

_LOST = {
    MetastoreVerdict.GONE: "there is no topic {topic}, but its backup has {missing} commands",
    MetastoreVerdict.EMPTIED: "{topic} has no commands, but its backup has {missing}",
    MetastoreVerdict.SHORTENED: "{topic} ends before its backup: {missing} commands are missing",
    MetastoreVerdict.TRIMMED: "{topic} no longer has {missing} of its commands",
}


@contextmanager
def live_backup(source: CommandSource, place: MetastorePlace, *, clock: Clock) -> Iterator[LiveBackup]:
    """A block with exclusive access to the files of this topic in this folder. Raises `BackupFileInUse`,
    `BadOption`."""
    make_folder(place.location)
    with (
        locked(place.location, place.topic),
        closing(LiveBackup(source, place.location, place.form, clock=clock)) as live,
    ):
        yield live


def warnings_of(place: MetastorePlace) -> list[str]:
    """Warnings about the folder of the files."""
    return [warning] if place.location.is_dir() and (warning := exposure_warning(place.location)) else []


def lost_commands_error(view: MetastoreView) -> CommandsLost | None:
    """The error for a loss of commands held by the file; None without a loss."""
    if not view.verdict.is_alarm:
        return None
    file = view.older or view.file
    return CommandsLost(
        _LOST[view.verdict].format(topic=view.topic, missing=view.missing),
        hint=f"nothing was removed from {file}: stop ksqlDB, then offsite metastore restore {file}",
    )
