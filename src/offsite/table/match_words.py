"""The conditions of a search, as people write them: on a command line, in a form, in a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from offsite.model.errors import BadOption
from offsite.table.scan import RecordMatch
from offsite.table.value_condition import parse_condition

CONDITIONS = ("key", "key_hex", "value", "header", "where")
"""The names of conditions; `header` and `where` may be given several times."""


def parse_match(conditions: Mapping[str, Sequence[str]]) -> RecordMatch:
    """Parse conditions by name. Raises `BadOption`, which quotes no condition."""
    for name in ("key", "key_hex", "value"):
        if len(conditions.get(name, ())) > 1:
            raise BadOption(f"{name.replace('_', '-')} is given twice", hint="give it once")
    key, key_hex, value = (next(iter(conditions.get(name, ())), None) for name in ("key", "key_hex", "value"))
    if key is not None and key_hex is not None:
        raise BadOption("--key and --key-hex both name the key", hint="give one of them")
    match = RecordMatch(
        key=_from_hex(key_hex) if key_hex is not None else _encoded(key),
        value_holds=_encoded(value),
        headers=tuple(_header(header) for header in conditions.get("header", ())),
        where=tuple(map(parse_condition, conditions.get("where", ()))),
    )
    if match == RecordMatch():
        raise BadOption(
            "no search condition is given",
            hint="give --key, --key-hex, --value, --header, --where or --match-file; offsite cat shows all",
        )
    return match


def _header(text: str) -> tuple[str, bytes | None]:
    name, separator, value = text.partition("=")
    return name, _encoded(value) if separator else None


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")  # as it came from the command line


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise BadOption("the key is not in hex", hint="write two digits for each byte, as 00ff12") from error
