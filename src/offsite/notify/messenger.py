"""Messages to people, by Apprise: mail, Slack, PagerDuty, webhooks and more.

Apprise runs in a process of its own (`notify/send.py`), with limits of time and memory: what a server does to it, be
it an answer that never ends, does nothing to the run. The addresses go there over a pipe, and nothing of what the
process prints but its verdicts is read.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import dataclass, replace

from offsite.model.machine import OWN_PYTHON
from offsite.model.names import amount
from offsite.model.units import format_duration
from offsite.model.untrusted.text import printable
from offsite.notify.addresses import SendAddress, SendWhen
from offsite.notify.child import ChildEnd, clean_environment, run_child
from offsite.notify.event import DETAILS_MAX, Event, EventKind
from offsite.notify.memory import LastTold, ToldMemory
from offsite.notify.teller import Delivery, Limit

TIMEOUT_S = 30.0
_REPORT_S = 3.0
"""Seconds that the process has to say what it knows, before it is killed."""
_WORDS = "from offsite.notify.send import main; main()"
_NEVER_HIDDEN = frozenset(
    {
        EventKind.SUCCEEDED,
        *(EventKind.NOT_SAFE, EventKind.SAFE_AGAIN, EventKind.SOURCE_LOSS, EventKind.UNREAD, EventKind.READ_AGAIN),
    }
)
"""What says something new each time, or is told once by whoever tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Messenger:
    """Sends each event to the addresses that it fits. A `Receiver`."""

    addresses: tuple[SendAddress, ...]
    memory: ToldMemory
    timeout_s: float = TIMEOUT_S

    def wants(self, event: Event) -> bool:
        return _ends_trouble(event) or any(address.when.fits(event) for address in self.addresses)

    def deliver(self, event: Event, limit: Limit) -> list[Delivery]:
        last = self.memory.last()
        works_again = event.kind is EventKind.SUCCEEDED and last is not None and last.kind.is_bad
        addresses = [
            address
            for address in self.addresses
            if address.when.fits(event) or (works_again and address.when in {SendWhen.DEFAULT, SendWhen.CHANGE})
        ]
        if not addresses:
            if last is not None and last.kind.is_bad and _ends_trouble(event):  # the next trouble is another one
                self.memory.keep(LastTold.of(event))
            return []
        if last is not None and last.hides(event) and event.kind not in _NEVER_HIDDEN:
            self.memory.keep(replace(last, left_out=last.left_out + 1))
            return []
        began_s = limit.clock.monotonic_s()
        problems = _sent(addresses, title_of(event, works_again=works_again), body_of(event, last), event, limit)
        if not all(problems) or event.kind.is_recovery:  # somebody knows it, or it is not told again
            self.memory.keep(LastTold.of(event))
        took_s = round(limit.clock.monotonic_s() - began_s, 3)
        return [
            Delivery(
                to=f"message of line {address.line} ({address.scheme})",
                event=event.kind,
                took_s=took_s,
                problem=problem,
            )
            for address, problem in zip(addresses, problems, strict=True)
        ]


def _ends_trouble(event: Event) -> bool:
    return event.kind is EventKind.SUCCEEDED or event.kind.is_recovery


def title_of(event: Event, *, works_again: bool) -> str:
    return f"{event.title}{', and works again' if works_again else ''}"


def body_of(event: Event, last: LastTold | None) -> str:
    """The text of a message, lines of visible characters."""
    document = event.document()
    took = "" if event.took_s is None else f" after {format_duration(event.took_s)}"
    lines = [
        str(document["message"]),
        *(printable(line.strip()) for line in event.details[:DETAILS_MAX]),
        f"error {event.error}" if event.error else "",
        f"hint: {document['hint']}" if event.hint else "",
        "" if event.exit_code is None else f"exit code {event.exit_code}{took}",
        f"at {document['at']} on {printable(socket.gethostname())}",
        "" if last is None or not last.left_out else f"{amount(last.left_out, 'message')} like the last one left out",
    ]
    return "\n".join(line for line in lines if line)


def _sent(addresses: list[SendAddress], title: str, body: str, event: Event, limit: Limit) -> list[str]:
    """Send, and return for each address what went wrong, or nothing."""
    left_s = limit.left_s()
    if left_s <= 0:
        return ["no time was left"] * len(addresses)
    request = {
        "urls": [address.url.reveal() for address in addresses],
        "title": title,
        "body": body,
        "type": _type_of(event.kind),
        "within_s": max(left_s - _REPORT_S, 0.5),
    }
    try:
        result = run_child(
            [*OWN_PYTHON, "-c", _WORDS],
            given=json.dumps(request).encode(),
            environment=clean_environment(os.environ),
            left_s=limit.left_s,
        )
    except OSError as error:
        return [f"it cannot be sent: {error.strerror}"] * len(addresses)
    otherwise = {ChildEnd.TIME: "it takes too long", ChildEnd.OUTPUT: "it prints without end"}
    return _verdicts(result.output, len(addresses), otherwise.get(result.end, "the process that sends it has died"))


def _verdicts(output: bytes, count: int, otherwise: str) -> list[str]:
    try:
        verdicts = json.loads(output)
    except ValueError:
        return [otherwise] * count
    if not isinstance(verdicts, list) or len(verdicts) != count:
        return [otherwise] * count
    return [_PROBLEMS.get(str(verdict), otherwise) for verdict in verdicts]


_PROBLEMS = {
    "sent": "",
    "unknown": "Apprise does not understand the URL",
    "refused": "it was not accepted, or nobody answers",
    "late": "it takes too long",
    "broken": "Apprise fails",
}
"""What the process says of an address, in words."""


def _type_of(kind: EventKind) -> str:
    if kind in {EventKind.PARTIAL, EventKind.LEFT_BEHIND, EventKind.UNREAD}:
        return "warning"
    return "failure" if kind.is_bad else "success"
