"""Whether ksqlDB can read a command: the rules of its classes CommandId and Command, as far as its own restore checks
them.

ksqlDB refuses a command of an unknown newer version, and an unreadable command; the server then runs degraded. Its
restore refuses the whole file, or skips such commands on request (`--skip-incompatible-commands`).
"""

from __future__ import annotations

import re

from offsite.log.records.record import Record
from offsite.model.untrusted.bounded_json import BadJson, parse_json

VERSION = 18
"""The newest command version of ksqlDB so far."""
_TOLD_MAX = 1_000_000
_KEY = re.compile(r"(topic|stream|table|cluster|type|pause|resume|terminate)/.+/[a-z_]+", re.DOTALL | re.IGNORECASE)


def why_incompatible(record: Record, *, version: int = VERSION) -> str:
    """Why a ksqlDB with the newest command version `version` refuses the command; empty if it accepts the command."""
    if record.key is None or record.value is None:
        return "it has no key" if record.key is None else "it has no value"
    key, command = _json(record.key), _json(record.value)
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        return "its key is not TYPE/ENTITY/ACTION"
    if not isinstance(command, dict) or not isinstance(command.get("statement"), str):
        return "its value is not a command with a statement"
    command_version = command.get("version")
    if command_version is None or (type(command_version) is int and command_version <= version):
        return ""
    is_number = (
        type(command_version) is int and command_version < _TOLD_MAX
    )  # other values can be megabytes, and hostile
    return (
        f"it has version {command_version}, but ksqlDB knows {version}"
        if is_number
        else "its version is not a version number"
    )


def _json(data: bytes) -> object:
    try:
        return parse_json(data)
    except BadJson:
        return None
