"""Fields of a resource as options of a command. Pure.

The parameters of a backup are options of `offsite backup run`, by name, that may change in place. In a command line
any text of a person stays the value of its option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from offsite.model.errors import BadName, BadOption, BadResource
from offsite.model.names import suggest_name
from offsite.model.options import CompressionChoice, parse_choice
from offsite.model.selection import (
    PATTERN_OPTIONS,
    REGEX_PREFIX,
    escape_pattern,
    parse_groups,
    parse_selection,
    split_patterns,
)
from offsite.model.units import parse_duration_s, parse_rate
from offsite.operator.resources.backup import BackupSpec

T = TypeVar("T")
REGEX_MAX_CHARS = 4096
"""Limit on all regular expressions of a resource together: every round parses them, and parsing a character set may
take a hundred times longer than its length suggests."""

DEFAULTS: Mapping[str, str] = {
    "interval": "10s",
    "collect-after": "24h",
    "read-limit": "",
    "write-limit": "",
    "compression": "",
    "groups": "",
}
"""All parameters with their defaults; empty: the default of the command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """`interval_s`: seconds between two rounds. `collect_after_s`: seconds that replaced objects are kept. Remaining
    values as written by the person; None: default."""

    interval_s: float
    collect_after_s: float
    read_limit: str | None
    write_limit: str | None
    compression: str | None
    groups: Sequence[str] | None


def parse_parameters(values: Mapping[str, str]) -> Parameters:
    """Raises `BadResource` for an unknown parameter, or a value that cannot be parsed."""
    for name in values:
        if name not in DEFAULTS:
            raise BadResource(
                f"spec.parameters.{name}: there is no such parameter", hint=suggest_name(name, tuple(DEFAULTS))
            )
    words = {**DEFAULTS, **values}
    return Parameters(
        interval_s=_seconds(words, "interval"),
        collect_after_s=_seconds(words, "collect-after"),
        read_limit=words["read-limit"] or None,
        write_limit=words["write-limit"] or None,
        compression=words["compression"] or None,
        groups=tuple(split_patterns(words["groups"])) or None,
    )


def check_words(spec: BackupSpec, parameters: Parameters) -> None:
    """Check that agents can parse their options. An agent with an exit at its start would copy nothing, and would block
    the slot of its initial copy. Raises `BadResource`."""
    durations = {
        "snapshotDuration": spec.snapshot_duration,
        "expiry.maximumRetention": spec.expiry.maximum_retention,
        "expiry.minimumRestorable": spec.expiry.minimum_restorable,
    }
    for name, text in durations.items():
        if text:
            _read(name, partial(parse_duration_s, text))
    patterns = map(str.strip, (*spec.topics, *spec.exclude))
    if sum(len(pattern) for pattern in patterns if pattern.startswith(REGEX_PREFIX)) > REGEX_MAX_CHARS:
        raise BadResource(
            f"spec.topics and spec.exclude: their regular expressions have more than {REGEX_MAX_CHARS} characters",
            hint="name topics, or write globs",
        )
    if spec.topics:
        _read("topics", partial(parse_selection, spec.topics, spec.exclude))
    _read("parameters.groups", partial(parse_groups, parameters.groups or ()))
    if parameters.compression:
        _read("parameters.compression", partial(parse_choice, CompressionChoice, parameters.compression))
    for name, limit in (("read-limit", parameters.read_limit), ("write-limit", parameters.write_limit)):
        if limit:
            _read(f"parameters.{name}", partial(parse_rate, limit, name))


def _seconds(words: Mapping[str, str], name: str) -> float:
    return _read(f"parameters.{name}", partial(parse_duration_s, words[name]))


def _read(name: str, parse: Callable[[], T]) -> T:
    try:
        return parse()
    except (BadOption, BadName) as error:
        raise BadResource(f"spec.{name}: {error.message}", hint=error.hint) from error


def option_words(who: str, words: Mapping[str, str | int | tuple[str, ...] | None]) -> tuple[str, ...]:
    """`{"topics": ("a", "b"), "commit": None}` → `--topics=a --topics=b`. Every argument is one option with its value,
    hence no value can become an option. `who`: the resource, for errors. Raises `BadResource` for characters unfit for
    a command line."""
    options = [(name, text) for name, value in words.items() for text in _values(value)]
    for name, text in options:
        if not _is_plain(text):
            raise BadResource(
                f"{who}: {name} contains characters that a command line cannot have", hint="remove these characters"
            )
    return tuple(f"--{name}={escape_pattern(text) if name in PATTERN_OPTIONS else text}" for name, text in options)


def _values(value: str | int | tuple[str, ...] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (str(value),)


def _is_plain(text: str) -> bool:
    """Whether the text has no NUL, and can be encoded in UTF-8."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
