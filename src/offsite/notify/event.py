"""What happened, as hooks and messages learn of it: one value with one JSON form.

An event never holds contents of records, nor a secret: it takes the messages of offsite's own errors, and whole
numbers of results. Names of topics and groups may be those of strangers, so every text is one line of visible
characters, and no text is ever part of a command.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite.model.plain import Plain, plain
from offsite.model.units import format_time
from offsite.model.untrusted.text import printable

VERSION = 1
"""Of the JSON form. Fields are added without a new version."""
_TEXT_MAX = 1000
"""Characters of a text: the whole event fits into variables of a process, and into a message."""
_NUMBERS_MAX = 100
DETAILS_MAX = 10
ENVIRONMENT_PREFIX = "OFFSITE_"


class EventKind(StrEnum):
    """What happened."""

    BEGAN = "began"
    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    OUTAGE = "outage"
    OUTAGE_OVER = "outage_over"
    LEFT_BEHIND = "left_behind"
    CAUGHT_UP = "caught_up"
    LOSS = "loss"
    ROUND = "round"
    NOT_SAFE = "not_safe"
    SAFE_AGAIN = "safe_again"
    SOURCE_LOSS = "source_loss"
    UNREAD = "unread"
    READ_AGAIN = "read_again"

    @property
    def meaning(self) -> str:
        """A sentence for the reference page."""
        return _MEANINGS[self]

    @property
    def is_end(self) -> bool:
        """Whether the command ended."""
        return self in _ENDS

    @property
    def is_bad(self) -> bool:
        """Whether a person should look."""
        return self in _BAD

    @property
    def is_recovery(self) -> bool:
        """Whether what was bad is good again."""
        return self in _RECOVERIES


_MEANINGS = {
    EventKind.BEGAN: "The command began. Nothing was done yet.",
    EventKind.SUCCEEDED: "The command ended with exit code 0.",
    EventKind.PARTIAL: "The command ended with exit code 3: finished, with holes or left-out parts.",
    EventKind.FAILED: "The command ended with another exit code.",
    EventKind.INTERRUPTED: "A signal ended the command before its end: exit code 130, 143 or 129.",
    EventKind.OUTAGE: "A run that follows has copied nothing for a minute because of an error, and keeps trying.",
    EventKind.OUTAGE_OVER: "The outage is over: a round succeeded, or a commit was made.",
    EventKind.LEFT_BEHIND: "A run that follows leaves partitions behind that it cannot read.",
    EventKind.CAUGHT_UP: "All partitions are copied again.",
    EventKind.LOSS: "A round of a run that follows found that the source had lost records: holes, or a log cut back.",
    EventKind.ROUND: "A round of a run that follows succeeded, or `serve` found all safe. Only pings learn of it, at "
    "most once a minute.",
    EventKind.NOT_SAFE: "`serve` or `status --watch` found that a backup needs attention, or is damaged.",
    EventKind.SAFE_AGAIN: "The backup is safe again.",
    EventKind.SOURCE_LOSS: "`serve` found that a source lost topics that the backup has.",
    EventKind.UNREAD: "A repository that `serve` or `status --watch` shows has not been readable for a minute.",
    EventKind.READ_AGAIN: "The repository is readable again.",
}
FIELD_MEANINGS = {
    "version": "Of this form: 1. Fields may be added without another version.",
    "event": "What happened: see above.",
    "command": "The command: `backup run`, `backup follow`, `restore run`, `verify`, `status`, `serve` …",
    "repository": "Name of the repository among several of a coordinator. Else empty.",
    "backup": "Name of the backup, or of the set of generations. Empty for a command without one.",
    "run": "16 random digits that all events of one process share.",
    "at": "Time of the event.",
    "began": "Begin of the command, or of the outage.",
    "took_s": "Seconds since then. Null at the begin.",
    "exit_code": "Exit code of the command. Null before its end.",
    "error": "Id of the error, such as `OFF-1501`; `OFFSITE_ERROR_ID` in the environment. Empty without one.",
    "message": "Message of the error, or first line of the result.",
    "hint": "What to do next. May be empty.",
    "details": "At most 10 lines about what is not as it should be. JSON only.",
    "numbers": "Whole numbers of the result, and lengths of its lists, by their names in `-o json`. JSON only.",
}
"""Each field of the JSON form, for the reference page."""
_ENDS = frozenset({EventKind.SUCCEEDED, EventKind.PARTIAL, EventKind.FAILED, EventKind.INTERRUPTED})
_BAD = frozenset(
    {
        EventKind.PARTIAL,
        EventKind.FAILED,
        EventKind.INTERRUPTED,
        EventKind.OUTAGE,
        EventKind.LEFT_BEHIND,
        EventKind.LOSS,
        EventKind.NOT_SAFE,
        EventKind.SOURCE_LOSS,
        EventKind.UNREAD,
    }
)
_RECOVERIES = frozenset({EventKind.OUTAGE_OVER, EventKind.CAUGHT_UP, EventKind.SAFE_AGAIN, EventKind.READ_AGAIN})


def ending(exit_code: int) -> EventKind:
    """The kind of event for the end of a command that no signal ended."""
    return {0: EventKind.SUCCEEDED, 3: EventKind.PARTIAL}.get(exit_code, EventKind.FAILED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `run`: a random id that all events of a process share. `at_ms`, `began_ms`: epoch ms of the event, and
    of the begin of the command (or of the outage). `took_s`: seconds since then. `exit_code`: None before the end.
    `repository`: its name among several. `error`, `message`, `hint`: of the error, or of the result. `details`: the
    first lines that say why a result is not as it should be. `numbers`: whole numbers of the result, and lengths of its
    lists, by their names in `-o json`."""

    kind: EventKind
    command: str
    run: str
    at_ms: int
    began_ms: int
    repository: str = ""
    backup: str = ""
    took_s: float | None = None
    exit_code: int | None = None
    error: str = ""
    message: str = ""
    hint: str = ""
    details: tuple[str, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Plain]:
        """The JSON form."""
        return {
            "version": VERSION,
            "event": self.kind.value,
            "command": self.command,
            "repository": _safe(self.repository),
            "backup": _safe(self.backup),
            "run": self.run,
            "at": format_time(self.at_ms),
            "began": format_time(self.began_ms),
            "took_s": None if self.took_s is None else round(self.took_s, 3),
            "exit_code": self.exit_code,
            "error": self.error,
            "message": _safe(self.message),
            "hint": _safe(self.hint),
            "details": [_safe(line.strip()) for line in self.details[:DETAILS_MAX]],
            "numbers": {_safe(name): number for name, number in self.numbers.items()},
        }

    def encode(self) -> bytes:
        """The JSON form in one line, ASCII alone."""
        return json.dumps(self.document()).encode() + b"\n"

    def environment(self) -> dict[str, str]:
        """The fields but details and numbers as variables of a process: `OFFSITE_EVENT`, `OFFSITE_EXIT_CODE` … A field
        without a value is an empty variable."""
        fields = self.document()
        del fields["details"], fields["numbers"]
        fields["error_id"] = fields.pop("error")
        return {
            f"{ENVIRONMENT_PREFIX}{name.upper()}": "" if value is None else str(value) for name, value in fields.items()
        }

    @property
    def title(self) -> str:
        """A line for people: what happened to what."""
        subject = "/".join(_safe(name) for name in (self.repository, self.backup) if name)
        of = f" of {subject}" if subject else ""
        return f"offsite: {self.command}{of}: {self.kind.value.replace('_', ' ')}"


def numbers_of(result: object) -> dict[str, int]:
    """The whole numbers of a result, and the lengths of its lists, by their names in `-o json`. Texts stay behind."""
    document = plain(result)
    numbers = {
        name: len(value) if isinstance(value, list) else value
        for name, value in (document.items() if isinstance(document, dict) else ())
        if isinstance(value, int | list) and not isinstance(value, bool)
    }
    return dict(list(numbers.items())[:_NUMBERS_MAX])


def _safe(text: str) -> str:
    line = printable(text)
    return line if len(line) <= _TEXT_MAX else f"{line[:_TEXT_MAX]}…"
