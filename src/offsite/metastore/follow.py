"""A backup that follows a topic: woken by the broker for new commands, and checking the topic itself every second."""

from __future__ import annotations

from collections.abc import Callable

from offsite.backup.outages import Outages
from offsite.metastore.live import LiveBackup
from offsite.metastore.source import CommandSource
from offsite.metastore.view import MetastoreView
from offsite.model.clock import Clock
from offsite.model.errors import NoSuchTopic, OffsiteError, SourceTruncated, TopicReplaced
from offsite.model.uninterrupted import let_interrupt

LOOK_EVERY_S = 1.0
"""Seconds between two checks of the topic itself: existence, identity, completeness."""
LOOK_AGAIN_S = 0.2
_WAIT_MAX_MS = 500


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
