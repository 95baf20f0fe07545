"""The requests of Zeebe's management API that a checkpoint needs, by meaning.

`ZeebeOutcomeUnknown`: the request may be sent again unchanged, and must be, because its outcome is unknown.
`ParticipantUnreachable`: sending again makes no sense.
"""

from __future__ import annotations

from enum import StrEnum

from offsite.checkpoint.zeebe.client import (
    ZeebeAnswer,
    ZeebeBackup,
    ZeebeClient,
    ZeebeOutcomeUnknown,
    is_no_route,
    message_of,
    parse_backup,
    parse_highest,
    why_not_exporting,
)
from offsite.model.errors import ParticipantFailed, ParticipantUnreachable

_ROUTES = ("backupRuntime", "backups")
"""Zeebe 8.8 moved the endpoint to the first name; earlier versions, and parts that run alone, have the second."""
_BUSY = frozenset({408, 425, 429})


class Exporting(StrEnum):
    SOFT_PAUSE = "pause?soft=true"
    """Records are still exported, but none is deleted from the log: the exported position stands still."""
    RESUME = "resume"


class Management:
    """A cluster. Remembers only which of the two endpoints exists."""

    def __init__(self, client: ZeebeClient) -> None:
        self._client = client
        self._route: str | None = None

    @property
    def where(self) -> str:
        return self._client.where

    def begin(self, backup: int) -> bool:
        """Request a backup of the id. False where Zeebe has the id or a higher id, which Zeebe does not tell apart.
        Raises `ParticipantFailed` for a request that Zeebe never accepts."""
        answer = self._client.ask("POST", self._backups(backup), {"backupId": backup})
        if answer.status in {200, 202}:
            if message_of(answer):
                return True
            raise ParticipantUnreachable(
                f"{self.where} does not answer as Zeebe does",
                hint="check that this is the management port of a Zeebe gateway",
            )
        if answer.status == 409:
            return False
        if answer.status == 400:
            raise ParticipantFailed(
                f"Zeebe does not take backup {backup}: {message_of(answer)}",
                hint="Zeebe needs a backup store, and must accept chosen ids (no continuous backups)",
            )
        raise self._refused(answer)

    def find(self, backup: int) -> ZeebeBackup | None:
        """Zeebe's knowledge of a backup; None where unknown, which may be the case for a moment after the beginning."""
        route = self._backups(backup)
        answer = self._client.ask("GET", f"{route}/{backup}")
        if answer.status == 200:
            return parse_backup(answer, backup)
        if answer.status == 404 and not is_no_route(answer):
            return None
        raise self._refused(answer)

    def highest(self, backup: int) -> int:
        """The highest listed id. Deleted ids are not listed."""
        answer = self._client.ask("GET", self._backups(backup))
        if answer.status == 200:
            return parse_highest(answer)
        raise self._refused(answer)

    def delete(self, backup: int) -> None:
        """Delete a backup; do nothing where none exists."""
        answer = self._client.ask("DELETE", f"{self._backups(backup)}/{backup}")
        is_gone = answer.status == 404 and not is_no_route(answer)
        if not (is_gone or answer.status in {200, 204}):
            raise self._refused(answer)

    def exporting(self, action: Exporting) -> None:
        """Pause or resume exporting on all partitions. After an error some partitions may have changed."""
        answer = self._client.ask("POST", f"exporting/{action}")
        if 400 <= answer.status < 500 or 300 <= answer.status < 400:
            raise self._refused(answer)
        if why := why_not_exporting(answer):
            raise ZeebeOutcomeUnknown(f"{self.where}: {why}")

    def _backups(self, backup: int) -> str:
        """The existing endpoint: the first that does not report itself as missing."""
        if self._route is None:
            self._route = next((route for route in _ROUTES if self._has(route, backup)), None)
        if self._route is None:
            raise ParticipantUnreachable(
                f"{self.where} has no endpoint for backups",
                hint=(
                    "check that this is the management port of a Zeebe gateway (9600), and that its backups are enabled"
                ),
            )
        return self._route

    def _has(self, route: str, backup: int) -> bool:
        answer = self._client.ask("GET", f"{route}/{backup}")
        if is_no_route(answer):
            return False
        if _is_perhaps_later(answer):
            raise self._refused(answer)
        return True

    def _refused(self, answer: ZeebeAnswer) -> Exception:
        said = f"{self.where} answers {answer.status} {message_of(answer)}".rstrip()
        if _is_perhaps_later(answer):
            return ZeebeOutcomeUnknown(said)
        if answer.status in {401, 403}:
            return ParticipantUnreachable(said, hint="give credentials: --zeebe-token-file")
        if 300 <= answer.status < 400:
            return ParticipantUnreachable(
                f"{self.where} redirects to another address ({answer.status})", hint="give that address: --zeebe"
            )
        return ParticipantUnreachable(said, hint="check that this is the management port of a Zeebe gateway")


def _is_perhaps_later(answer: ZeebeAnswer) -> bool:
    """Whether a later request may succeed. 500 counts too: a cluster with unknown leaders answers 500."""
    return answer.status in _BUSY or answer.status >= 500
