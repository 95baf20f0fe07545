"""Commands of a person that run when something happens.

A hook gets the event as JSON on its standard input and in its environment, never in its text: names of topics and
messages may be those of strangers. It runs as the same user, in a process group of its own, which is gone when the
hook is over. Whatever it does, the run goes on, and keeps its exit code.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from offsite.model.errors import BadOption
from offsite.model.units import format_duration
from offsite.model.untrusted.text import printable
from offsite.notify.child import ChildEnd, ChildResult, clean_environment, run_child
from offsite.notify.event import Event, EventKind
from offsite.notify.teller import Delivery, Limit

TIMEOUT_S = 60.0
HOOKS_MAX = 16
_SHELL = "/bin/sh"
_LINES_MAX = 100


class HookMoment(StrEnum):
    """When a hook runs."""

    BEFORE = "before"
    AFTER = "after"
    FAILURE = "failure"
    RECOVERY = "recovery"

    def fits(self, kind: EventKind) -> bool:
        match self:
            case HookMoment.BEFORE:
                return kind is EventKind.BEGAN
            case HookMoment.AFTER:
                return kind.is_end
            case HookMoment.FAILURE:
                return kind.is_bad
            case HookMoment.RECOVERY:
                return kind.is_recovery


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """`command`: for a shell; it may hold a secret of its author, and is never shown. `say`: takes each line that the
    hook prints. A `Receiver`."""

    moment: HookMoment
    command: str = field(repr=False)
    say: Callable[[str], None]
    timeout_s: float = TIMEOUT_S
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @property
    def name(self) -> str:
        return f"hook {self.moment.value}"

    def wants(self, event: Event) -> bool:
        return self.moment.fits(event.kind)

    def deliver(self, event: Event, limit: Limit) -> list[Delivery]:
        began_s = limit.clock.monotonic_s()
        problem = self._run(event, limit)
        took_s = limit.clock.monotonic_s() - began_s
        return [Delivery(to=self.name, event=event.kind, took_s=round(took_s, 3), problem=problem)]

    def _run(self, event: Event, limit: Limit) -> str:
        """Run the command. Returns what went wrong, or nothing."""
        if limit.left_s() <= 0:
            return "it was not started: the run has to end at once"
        allowed_s = limit.left_s()
        try:
            result = run_child(
                [_SHELL, "-c", self.command],
                given=event.encode(),
                environment=clean_environment(self.environment) | event.environment(),
                left_s=limit.left_s,
            )
        except (OSError, ValueError) as error:  # a command with a NUL byte is a ValueError
            return f"it cannot be started: {getattr(error, 'strerror', None) or type(error).__name__}"
        self._show(result)
        return _problem(result, allowed_s=min(allowed_s, self.timeout_s))

    def _show(self, result: ChildResult) -> None:
        lines = result.output.decode(errors="replace").splitlines()
        for line in lines[:_LINES_MAX]:
            self.say(f"{self.name}: {printable(line)}")
        more_lines = len(lines) - _LINES_MAX
        if result.left_out_bytes or more_lines > 0:
            self.say(f"{self.name}: (it printed more, which is left out)")


def _problem(result: ChildResult, *, allowed_s: float) -> str:
    match result.end:
        case ChildEnd.TIME:
            return f"it was killed: it had not ended after {format_duration(allowed_s)}, or the run had to end"
        case ChildEnd.OUTPUT:
            return "it was killed: it prints without end"
        case ChildEnd.ITSELF if result.exit_code is None:
            return "it does not die"
        case ChildEnd.ITSELF if result.exit_code < 0:
            return f"signal {-result.exit_code} ended it"
        case ChildEnd.ITSELF:
            return f"it ended with exit code {result.exit_code}" if result.exit_code else ""


def parse_hook(text: str, *, say: Callable[[str], None], timeout_s: float) -> Hook:
    """Parse `MOMENT=COMMAND`. Raises `BadOption`, which shows nothing of the command."""
    name, separator, command = text.partition("=")
    moments = ", ".join(HookMoment)
    if not separator or name not in set(HookMoment):
        shown = repr(name[:20]) if separator else "a text without ="
        raise BadOption(
            f"--hook does not begin with one of {moments}: {shown}", hint="write it as --hook failure='mail -s …'"
        )
    if not command.strip():
        raise BadOption(f"--hook {name} has no command", hint=f"write it as --hook {name}='COMMAND'")
    return Hook(moment=HookMoment(name), command=command, say=say, timeout_s=timeout_s)
