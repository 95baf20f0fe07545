"""The head of a backup, as commands print the head and people keep it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from offsite.model.errors import BadOption
from offsite.model.untrusted.json_codec import Count

_HEAD = re.compile(r"(\d{1,18}):([0-9a-f]{8,64})", re.ASCII)
_SHOWN_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A commit's number and the SHA-256 of the commit's bytes, hexadecimal, or at least the first 8 digits."""

    commit: Count
    hash: str

    def __str__(self) -> str:
        return f"{self.commit}:{self.hash}"

    @property
    def short(self) -> str:
        """The short form, for people; accepted as input too."""
        return f"{self.commit}:{self.hash[:_SHOWN_DIGITS]}"


def parse_head(text: str) -> Head:
    """Parse a head as commands print it, such as `12:0123abcd…`. Raises `BadOption`."""
    match = _HEAD.fullmatch(text.strip().lower())
    if match is None:
        raise BadOption(f"{text!r} is not a head", hint="write it as offsite status prints it: 12:0123456789abcdef")
    return Head(commit=int(match[1]), hash=match[2])
