"""Reads forms of our pages: bounded, and only with the secret word of the page."""

from __future__ import annotations

from urllib.parse import parse_qsl

from fastapi import Request

from offsite.model.errors import BadOption, NotAllowed
from offsite.model.selection import split_patterns

_FIELDS_MAX = 200
WORD = "word"
ONCE = "once"
"""A field that every page fills with a new value: a form sent twice, by two clicks, starts one job."""


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raises `NotAllowed` for a foreign form, `BadOption`."""
    try:
        pairs = parse_qsl((await request.body()).decode(), keep_blank_values=True, max_num_fields=_FIELDS_MAX)
    except (UnicodeDecodeError, ValueError) as error:
        raise BadOption(f"this is not a form: {error}", hint="use the form of the page") from error
    fields = dict(pairs)
    if not request.app.state.guarded.sessions.is_form_word(fields.pop(WORD, ""), request.state.cookie):
        raise NotAllowed(
            "this form is not from this server, or it is from an earlier session", hint="load its page again"
        )
    return fields


def split_list(text: str) -> list[str] | None:
    """Split a field at commas and lines; None: empty."""
    return [pattern for line in text.splitlines() for pattern in split_patterns(line)] or None


def parse_number(text: str, noun: str) -> int | None:
    """Return the number in a field; None: empty. Raises `BadOption`."""
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdecimal()) or len(text.strip()) > 19:
        raise BadOption(f"{text[:60]!r} is not a number of a {noun}", hint="write only digits")
    return int(text)
