"""A backup of a command topic: read once, or followed, woken by the broker for new commands, and checking the topic
itself every second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from offsite.backup.outages import Outages
from offsite.metastore.folder import MetastorePlace, exposure_warning, locked, make_folder
from offsite.metastore.live import LiveBackup
from offsite.metastore.source import CommandSource
from offsite.metastore.status import MetastoreVerdict, MetastoreView
from offsite.model.clock import Clock
from offsite.model.errors import CommandsLost, NoSuchTopic, OffsiteError, SourceTruncated, TopicReplaced
from offsite.model.uninterrupted import let_interrupt

_LOST = {
    MetastoreVerdict.GONE: "there is no topic {topic}, but its backup has {missing} commands",
    MetastoreVerdict.EMPTIED: "{topic} has no commands, but its backup has {missing}",
    MetastoreVerdict.SHORTENED: "{topic} ends before its backup: {missing} commands are missing",
    MetastoreVerdict.TRIMMED: "{topic} no longer has {missing} of its commands",
}
LOOK_EVERY_S = 1.0
"""Seconds between two checks of the topic itself: existence, identity, completeness."""
LOOK_AGAIN_S = 0.2
_WAIT_MAX_MS = 500


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


def follow_topic(
    live: LiveBackup,
    source: CommandSource,
    *,
    outages: Outages,
    clock: Clock,
    on_look: Callable[[MetastoreView], None],
) -> None:
    """Keep the file current until `KeyboardInterrupt`. `on_look` receives the view after every check of the topic.
    Raises what `outages` does not wait out."""
    following = _Following(live, source, clock, on_look)
    while True:
        try:
            following.look()
            outages.worked()
            following.take_news()
        except (SourceTruncated, TopicReplaced, NoSuchTopic):
            clock.sleep(LOOK_AGAIN_S)  # the next check finds the new state
        except OffsiteError as error:
            outages.wait(error)


class _Following:
    def __init__(
        self, live: LiveBackup, source: CommandSource, clock: Clock, on_look: Callable[[MetastoreView], None]
    ) -> None:
        self._live, self._source, self._clock, self._on_look = live, source, clock, on_look

    def look(self) -> None:
        self._on_look(self._live.catch_up())

    def take_news(self) -> None:
        """Take new commands until the next check is due."""
        until_s = self._clock.monotonic_s() + LOOK_EVERY_S
        while (left_s := until_s - self._clock.monotonic_s()) > 0:
            let_interrupt()
            if not self._live.is_there:
                self._clock.sleep(min(left_s, _WAIT_MAX_MS / 1000))
            elif self._source.await_more(self._live.seen_end, max_wait_ms=min(_WAIT_MAX_MS, int(left_s * 1000) + 1)):
                self._on_look(self._live.go_on())
