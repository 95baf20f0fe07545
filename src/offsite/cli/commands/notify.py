"""`offsite notify test`: one test message to each address of a file of --notify, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.options import Output
from offsite.cli.output import Line, OutputFormat, emit
from offsite.model.errors import BadOption

if TYPE_CHECKING:
    from offsite.notify.event import Event
    from offsite.notify.teller import Delivery

EXIT_NOT_TOLD = 3
COMMAND = "notify test"

app = typer.Typer(help="Try out who is told by --notify.", no_args_is_help=True)


@app.callback()
def _of_notify() -> None:
    """A group, because more may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedOut:
    """`deliveries`: one for each address, in the order of the file: pings, then messages."""

    deliveries: tuple[Delivery, ...]


@app.command("test")
def try_out(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of --notify.")],
    output: Output = OutputFormat.TABLE,
) -> None:
    """Send one test message to each address of the file, whatever the address is for.

    Says what came of it for each. A ping counts as a success at its service. Exit code 3 when one did not arrive.
    """
    from offsite.cli.telling import messages_of
    from offsite.model.clock import SystemClock
    from offsite.notify.addresses import SendWhen
    from offsite.notify.teller import deliver

    clock = SystemClock()
    receivers = messages_of(file, COMMAND, when=SendWhen.EVERY)
    if not receivers:
        raise BadOption(f"{file} names no address", hint="see: docs/how-to/be-told.md")
    event = _event(clock.now_ms())
    deliveries = [delivery for receiver in receivers for delivery in deliver(receiver, event, clock=clock)]
    emit(TriedOut(deliveries=tuple(deliveries)), output=output, render=_render)
    if not all(delivery.worked for delivery in deliveries):
        raise typer.Exit(EXIT_NOT_TOLD)


def _event(now_ms: int) -> Event:
    from offsite.model.ids import random_id
    from offsite.notify.event import Event, EventKind

    message = "This is a test: messages of offsite arrive here. Nothing has happened."
    return Event(
        kind=EventKind.SUCCEEDED, command=COMMAND, run=random_id(16), at_ms=now_ms, began_ms=now_ms, message=message
    )


def _render(report: TriedOut) -> Iterator[Line]:
    for delivery in report.deliveries:
        outcome = "sent" if delivery.worked else f"NOT sent: {delivery.problem}"
        yield f"{delivery.to}: {outcome} ({delivery.took_s:.1f} s)"
