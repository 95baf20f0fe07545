"""Tells hooks and messages how a command goes: its begin, its end however it ends, and changes of state between.

The command's exit code and outcome stay as they are. With hooks, the result is printed after them, so that it can say
what became of them (`notices` in JSON).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.output import Line, OutputFormat, ResultT, emit, exit_if_damaged, note, reported_damage
from offsite.cli.process import interrupted_exit_code, outcome_stands
from offsite.model.errors import BadOption, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import safe_line
from offsite.model.uninterrupted import notify_interruption, uninterrupted
from offsite.model.units import parse_duration_s
from offsite.model.untrusted.place import absolute_place
from offsite.notify.changes import FollowChanges
from offsite.notify.event import DETAILS_MAX, Event, EventKind, ending, numbers_of
from offsite.notify.hook import HOOKS_MAX, parse_hook
from offsite.notify.teller import Receiver, Teller

if TYPE_CHECKING:
    from offsite.follow.follower import Round
    from offsite.notify.addresses import SendWhen
    from offsite.overview.verdict_changes import VerdictChange, VerdictChanges

LEAVE_S = 25.0
"""Seconds for all that is told, from the signal that ends a command: five before a follower's end, and before that of a
pod."""
_HOOK_TIMEOUT_MAX_S = 3600.0
_KILLED_WITHIN_S = 5.0
_MESSAGES_S = 60.0
"""Seconds that messages may take at the end of a command, all together."""


NotifyFile = Annotated[
    Path | None,
    typer.Option(
        "--notify",
        envvar="OFFSITE_NOTIFY",
        metavar="FILE",
        help="A file that says who gets messages (send = a URL of Apprise), and which URLs are pinged (ping).",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeOptions:
    """Who is told, as typed."""

    hook: Annotated[
        list[str] | None,
        typer.Option(
            "--hook",
            metavar="WHEN=COMMAND",
            help="A command for /bin/sh, at the begin (before), at each end (after), at an exit code other than 0 and "
            "when a following run gets into trouble (failure), or out of it (recovery); may be repeated. It gets "
            "OFFSITE_EVENT, OFFSITE_EXIT_CODE … and the event as JSON on standard input.",
        ),
    ] = None
    hook_timeout: Annotated[
        str, typer.Option("--hook-timeout", help="How long a hook may take before it is killed: 1s to 1h.")
    ] = "60s"

    notify: NotifyFile = None

    def hooks(self) -> list[Receiver]:
        """Raises `BadOption`."""
        timeout_s = parse_duration_s(self.hook_timeout)
        if not 1 <= timeout_s <= _HOOK_TIMEOUT_MAX_S:
            raise BadOption(f"--hook-timeout {self.hook_timeout} is not from 1s to 1h")
        texts = self.hook or []
        if len(texts) > HOOKS_MAX:
            raise BadOption(f"more than {HOOKS_MAX} hooks", hint="let one script call the others")
        return [parse_hook(text, say=note, timeout_s=timeout_s) for text in texts]

    def messages(self, subject: str) -> list[Receiver]:
        """Raises `BadOption`."""
        return [] if self.notify is None else messages_of(self.notify, subject)


def messages_of(file: Path, subject: str, *, when: SendWhen | None = None) -> list[Receiver]:
    """Return who gets messages and pings by a file of --notify. `subject`: what they are about. `when`: whatever the
    file says of when. Raises `BadOption`."""
    from offsite.notify.addresses import read_addresses
    from offsite.notify.memory import ToldMemory
    from offsite.notify.messenger import Messenger
    from offsite.notify.ping import Pinger

    addresses = read_addresses(file)
    pingers: list[Receiver] = [Pinger(address=address) for address in addresses.pings]
    sends = addresses.sends if when is None else tuple(replace(address, when=when) for address in addresses.sends)
    memory = ToldMemory(f"{file.absolute()} {subject}")
    return [*pingers, Messenger(addresses=sends, memory=memory)] if sends else pingers


class Telling:
    """What a command says of itself. Without anybody to tell, `emit` prints at once, and all else does nothing."""

    def __init__(self, options: NoticeOptions, *, command: str, repo: str, backup: str) -> None:
        from offsite.model.clock import SystemClock

        self._clock = SystemClock()
        place = absolute_place(repo)
        self._subject = f"{options.notify and options.notify.absolute()} {place} {backup} {command}"
        hooks, messages = options.hooks(), options.messages(f"{place} {backup} {command}")
        self._hooks_s = sum(receiver.timeout_s for receiver in hooks)
        self._hooks = Teller(hooks, clock=self._clock, name="hooks", ends_first=True)
        self._messages = [Teller([receiver], clock=self._clock, name="messages") for receiver in messages]
        self._command, self._backup, self._run = command, backup, random_id(16)
        self._began_ms, self._began_s = self._clock.now_ms(), self._clock.monotonic_s()
        self._print: Callable[[], None] | None = None
        self._numbers: dict[str, int] = {}
        self._message, self._details = "", tuple[str, ...]()
        self._interrupts = 0
        self.is_heard = bool(hooks or messages)

    def concern(self, backup: str) -> None:
        """Name the backup, where it is known only after the begin."""
        self._backup = backup

    def emit(
        self,
        result: ResultT,
        *,
        output: OutputFormat,
        render: Callable[[ResultT], Iterable[Line]],
        troubles: Callable[[ResultT], Iterable[Line]] = lambda _: (),
    ) -> None:
        """Print the result of the command, once those who want to know are told. `troubles`: the lines about what is
        not as it should be."""
        if not self.is_heard:
            emit(result, output=output, render=render)
            return
        self._numbers = numbers_of(result)
        self._message = next((line for line in render(result) if isinstance(line, str)), "")
        lines = (line for line in troubles(result) if isinstance(line, str))
        self._details = tuple(islice(lines, DETAILS_MAX))
        self._print = lambda: emit(result, output=output, render=render, more={"notices": self._deliveries()})

    def counts(self) -> dict[str, int]:
        """How many hooks, messages and pings worked, failed, and were left out. Empty without anybody to tell."""
        tallies = [teller.tally for teller in self._tellers()]
        outcomes = ("worked", "failed", "left_out") if self.is_heard else ()
        return {outcome: sum(getattr(tally, outcome) for tally in tallies) for outcome in outcomes}

    def changes(self) -> FollowChanges:
        """A watch of a run that follows, which tells its changes."""
        return FollowChanges(self._change, clock=self._clock)

    def verdicts(self) -> VerdictChanges:
        """A watch of the verdict over the repository, which tells its changes."""
        from offsite.overview.verdict_changes import VerdictChanges

        return VerdictChanges(self._tell_verdict, clock=self._clock, subject=self._subject)

    def _tell_verdict(self, change: VerdictChange) -> None:
        event = self._event(change.kind, message=change.message, hint=change.hint)
        self._tell(replace(event, backup=change.backup, details=change.details))

    @contextmanager
    def of_command(self) -> Iterator[None]:
        """A block that is the command: tells its begin, and its end."""
        if not self.is_heard:
            yield
            return
        with notify_interruption(self._leave_soon):
            try:
                self._begin()
                yield
                exit_if_damaged()
            except BaseException as error:
                self._end(error)
                raise
            self._end(None)

    def _begin(self) -> None:
        with uninterrupted():
            self._tell(self._event(EventKind.BEGAN))
            self._hooks.settle(within_s=self._hooks_s + _KILLED_WITHIN_S)

    def _end(self, error: BaseException | None) -> None:
        with outcome_stands():
            try:
                with uninterrupted():
                    self._tell(self._end_event(error))
                    self._settle()
            except KeyboardInterrupt:  # the work is over
                self._settle()
        if self._print is not None:
            self._print()

    def _settle(self) -> None:
        try:
            until_s = self._clock.monotonic_s() + _MESSAGES_S
            if not self._hooks.settle(within_s=self._hooks_s + _KILLED_WITHIN_S):
                self._hooks.leave_within(0)
            for teller in self._messages:
                teller.settle(within_s=until_s - self._clock.monotonic_s())
                teller.leave_within(0)
        except KeyboardInterrupt:  # again: somebody does not want to wait
            for teller in self._tellers():
                teller.leave_within(0)
        for teller in self._tellers():
            teller.settle(within_s=_KILLED_WITHIN_S)

    def _leave_soon(self) -> None:
        """Called in the signal handler."""
        self._interrupts += 1
        for teller in self._tellers():
            teller.leave_within(LEAVE_S if self._interrupts == 1 else 0)

    def _change(
        self, kind: EventKind, *, since_ms: int | None = None, error: str = "", message: str = "", hint: str = ""
    ) -> None:
        self._tell(self._event(kind, since_ms=since_ms, error=error, message=message, hint=hint))

    def _tell(self, event: Event) -> None:
        for teller in self._tellers():
            teller.tell(event)

    def _tellers(self) -> list[Teller]:
        return [self._hooks, *self._messages]

    def _event(
        self,
        kind: EventKind,
        *,
        since_ms: int | None = None,
        exit_code: int | None = None,
        error: str = "",
        message: str = "",
        hint: str = "",
    ) -> Event:
        now_ms = self._clock.now_ms()
        took_s = self._clock.monotonic_s() - self._began_s if since_ms is None else (now_ms - since_ms) / 1000
        return Event(
            kind=kind,
            command=self._command,
            backup=self._backup,
            run=self._run,
            at_ms=now_ms,
            began_ms=self._began_ms if since_ms is None else since_ms,
            took_s=None if kind is EventKind.BEGAN else max(took_s, 0.0),
            exit_code=exit_code,
            error=error,
            message=message,
            hint=hint,
            details=self._details,
            numbers=self._numbers,
        )

    def _end_event(self, error: BaseException | None) -> Event:
        match error:
            case None:
                return self._event(EventKind.SUCCEEDED, exit_code=0, message=self._message)
            case typer.Exit(exit_code=exit_code):
                self._details = (*reported_damage(), *self._details)[:DETAILS_MAX]
                return self._event(ending(exit_code), exit_code=exit_code, message=self._message)
            case OffsiteError():
                kind, code = ending(error.exit_code), error.exit_code
                return self._event(kind, exit_code=code, error=error.id, message=error.message, hint=error.hint)
            case KeyboardInterrupt():
                code = interrupted_exit_code()
                return self._event(EventKind.INTERRUPTED, exit_code=code, message="a signal ended the command")
            case SystemExit(code=int() as exit_code):
                return self._event(ending(exit_code), exit_code=exit_code, message=self._message)
            case _:
                return self._event(EventKind.FAILED, exit_code=1, message=safe_line(error))

    def _deliveries(self) -> Sequence[object]:
        return [delivery for teller in self._tellers() for delivery in teller.tally.deliveries]


def tell_round(changes: FollowChanges, completed: Round) -> None:
    """Tell the changes that a finished round brought."""
    losses = list[str]()
    if (result := completed.result) is not None:
        losses += [hole.topic for hole in result.holes]
        losses += [branch.topic for branch in result.cut_back]
    changes.round(completed.state.left_behind, losses=losses)


@contextmanager
def telling(options: NoticeOptions, *, command: str, repo: str, backup: str) -> Iterator[Telling]:
    """A block that is a whole command. Raises `BadOption`, before anything is done or told."""
    news = Telling(options, command=command, repo=repo, backup=backup)
    with news.of_command():
        yield news
