"""The file of `--notify`: who is told by messages, and which addresses are pinged.

Properties, a name may come again: `send = URL` for messages about failures and changes, `send.every`, `send.drill` …
for other events; `ping = URL`, or `ping.backup` … for one kind of command. The URLs hold passwords, so the file is
a secret, and no error, log or result shows more of a URL than its scheme.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import urlsplit

from offsite.model.errors import BadOption
from offsite.model.journal import warned
from offsite.model.machine import exposure
from offsite.model.secret import Secret
from offsite.model.untrusted.text import NotUtf8, Property, decode_text, parse_properties
from offsite.notify.event import Event, EventKind

ADDRESSES_MAX = 16
_FILE_MAX_BYTES = 64 << 10
_SCHEME = re.compile(r"[a-z][a-z0-9.+-]{0,30}(?=://)", re.IGNORECASE)
_HINT = "see: docs/how-to/be-told.md"
_NAMES = "write it as send = URL, send.failure, send.change, send.drill, send.every, ping, or ping.backup and the like"
JOBS = {
    "backup": frozenset({"backup run", "backup follow"}),
    "generations": frozenset({"generations run"}),
    "restore": frozenset({"restore run"}),
    "drill": frozenset({"restore drill"}),
    "verify": frozenset({"verify"}),
    "status": frozenset({"status"}),
    "serve": frozenset({"serve"}),
}
"""Names in the file, and the commands that each means."""


class SendWhen(StrEnum):
    """Which events a message is sent for. The default: failures and changes."""

    DEFAULT = ""
    FAILURE = "failure"
    CHANGE = "change"
    DRILL = "drill"
    EVERY = "every"

    def fits(self, event: Event) -> bool:
        kind = event.kind
        if kind in {EventKind.BEGAN, EventKind.ROUND}:
            return False
        is_change = not kind.is_end
        match self:
            case SendWhen.DEFAULT:
                return is_change or kind.is_bad
            case SendWhen.FAILURE:
                return kind.is_bad
            case SendWhen.CHANGE:
                return is_change
            case SendWhen.DRILL:
                return kind.is_end and event.command in JOBS["drill"] | JOBS["verify"]
            case SendWhen.EVERY:
                return True


@dataclass(frozen=True, slots=True, kw_only=True)
class SendAddress:
    """`scheme` and `line` name it for people."""

    url: Secret
    when: SendWhen
    scheme: str
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PingAddress:
    """`commands`: those that ping it; empty for all."""

    url: Secret
    commands: frozenset[str]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    sends: tuple[SendAddress, ...] = ()
    pings: tuple[PingAddress, ...] = ()


def read_addresses(path: Path) -> Addresses:
    """Read the file. Raises `BadOption` with the line, which shows no URL; warns where others can read the file."""
    try:
        with path.open("rb") as opened:
            why, data = exposure(os.fstat(opened.fileno())), opened.read(_FILE_MAX_BYTES + 1)
    except OSError as error:
        raise BadOption(f"the file of --notify cannot be read: {error.strerror}", hint=_HINT) from error
    if len(data) > _FILE_MAX_BYTES:
        raise BadOption(f"the file of --notify has more than {_FILE_MAX_BYTES} bytes", hint=_HINT)
    try:
        addresses = parse_addresses(parse_properties(decode_text(data)))
    except NotUtf8 as error:
        raise BadOption(f"the file of --notify cannot be read: {error}", hint=_HINT) from None
    if why:
        warned("exposed_secret", why=f"{path} contains a secret, and {why}")
    return addresses


def parse_addresses(properties: Iterable[Property]) -> Addresses:
    """Raises `BadOption` with the line."""
    sends, pings = list[SendAddress](), list[PingAddress]()
    for setting in properties:
        name, _, of = setting.name.partition(".")
        if name == "send" and of in set(SendWhen):
            sends.append(_send(setting, SendWhen(of)))
        elif name == "ping" and (not of or of in JOBS):
            pings.append(_ping(setting, JOBS.get(of, frozenset())))
        else:
            raise BadOption(_at(setting, "it begins with no name of this file"), hint=_NAMES)  # it may be half a URL
    if max(len(sends), len(pings)) > ADDRESSES_MAX:
        raise BadOption(f"the file of --notify has more than {ADDRESSES_MAX} addresses of a kind")
    if sends and importlib.util.find_spec("apprise") is None:
        raise BadOption("messages need the package apprise", hint="install it: pip install 'offsite[notify]'")
    return Addresses(sends=tuple(sends), pings=tuple(pings))


def _send(setting: Property, when: SendWhen) -> SendAddress:
    scheme = _SCHEME.match(setting.value)
    if scheme is None:
        raise BadOption(_at(setting, "the value is no URL of Apprise"), hint="write it as mailto://… or slack://…")
    return SendAddress(url=Secret(setting.value), when=when, scheme=scheme[0].lower(), line=setting.line)


def _ping(setting: Property, commands: frozenset[str]) -> PingAddress:
    try:
        parts = urlsplit(setting.value)
        is_good = (
            parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        )
    except ValueError:
        is_good = False
    if not is_good or not setting.value.isascii() or not setting.value.isprintable() or " " in setting.value:
        raise BadOption(_at(setting, "the value is no http:// or https:// URL without a login"), hint=_HINT)
    return PingAddress(url=Secret(setting.value), commands=commands, line=setting.line)


def _at(setting: Property, problem: str) -> str:
    return f"line {setting.line} of the file of --notify: {problem}"
