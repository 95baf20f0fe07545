"""Parameters of a declared backup: options of `offsite backup run` by their names, that may change while it goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from offsite.model.errors import BadOption, BadResource
from offsite.model.time import parse_duration_s
from offsite.operator.resources.parse import meant

DEFAULTS: Mapping[str, str] = {
    "interval": "10s",
    "collect-after": "24h",
    "read-limit": "",
    "write-limit": "",
    "compression": "",
    "groups": "",
}
"""What there is, and what it is when it is not given; empty: the command's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """`interval_s`: from one round to the next; `collect_after_s`: what was replaced is kept so long. The others as a
    person writes them, None for the default."""

    interval_s: float
    collect_after_s: float
    read_limit: str | None
    write_limit: str | None
    compression: str | None
    groups: Sequence[str] | None


def parse_parameters(given: Mapping[str, str]) -> Parameters:
    """Raises `BadResource` for one that there is not, or that cannot be read."""
    for name in given:
        if name not in DEFAULTS:
            raise BadResource(f"spec.parameters.{name}: there is no such parameter", hint=meant(name, tuple(DEFAULTS)))
    words = {**DEFAULTS, **given}
    return Parameters(
        interval_s=_seconds(words, "interval"),
        collect_after_s=_seconds(words, "collect-after"),
        read_limit=words["read-limit"] or None,
        write_limit=words["write-limit"] or None,
        compression=words["compression"] or None,
        groups=tuple(filter(None, map(str.strip, words["groups"].split(",")))) or None,
    )


def _seconds(words: Mapping[str, str], name: str) -> float:
    try:
        return parse_duration_s(words[name])
    except BadOption as error:
        raise BadResource(f"spec.parameters.{name}: {error.message}", hint=error.hint) from error
