"""The retention policy of a backup, as written by a person.

Without a rule a backup mirrors its topics: data expires with the topics' own retention. With rules the restore points
named by a rule are kept, and all remaining points go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypedDict, Unpack

from offsite.model.errors import BadOption
from offsite.model.options import Option, with_defaults
from offsite.model.units import format_duration, format_size, parse_duration_s, parse_size

MIRROR = "mirror"
OFF = "off"
MOST_POINTS = 10_000
"""The most restore points of one rule: a plan reads each of them."""


class PolicyWords(TypedDict, total=False):
    """Options for the retention of a backup. Durations are written as `36h`, `7d` or `4w`, sizes as `10GiB`. Without
    any of the `keep` rules the backup mirrors the topics' own retention."""

    keep_age: Annotated[str | None, Option("Keep every restore point that is younger than this duration, such as 7d.")]
    keep_hourly: Annotated[int | None, Option("Keep the newest restore point of each of the last N hours (UTC).")]
    keep_daily: Annotated[int | None, Option("Keep the newest restore point of each of the last N days (UTC).")]
    keep_weekly: Annotated[
        int | None, Option("Keep the newest restore point of each of the last N weeks, from Monday on (UTC).")
    ]
    keep_monthly: Annotated[int | None, Option("Keep the newest restore point of each of the last N months (UTC).")]
    keep_yearly: Annotated[int | None, Option("Keep the newest restore point of each of the last N years (UTC).")]
    max_bytes: Annotated[
        str | None,
        Option(
            "Delete the oldest restore points until the rest fits into this size, such as 10GiB. Pinned restore "
            "points and the newest one are kept."
        ),
    ]
    floor: Annotated[
        str | None,
        Option("Refuse a deletion after which a moment of this time span, such as 7d, could no longer be restored."),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """The retention of a backup. Times in milliseconds, numbers in restore points, the size in stored bytes. None: no
    such rule. Without a rule for points the backup mirrors the topics' retention."""

    keep_age_ms: int | None = None
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    max_bytes: int | None = None
    floor_ms: int = 0

    @property
    def mirrors(self) -> bool:
        """Whether no rule names restore points to keep, so the topics' own retention decides."""
        return self.keep_age_ms is None and not any(self.counts.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """How many buckets of each kind keep a restore point, by the rule's name."""
        return {
            "hourly": self.hourly,
            "daily": self.daily,
            "weekly": self.weekly,
            "monthly": self.monthly,
            "yearly": self.yearly,
        }


def parse_policy(**options: Unpack[PolicyWords]) -> RetentionPolicy:
    """The policy given by options. Raises `BadOption`."""
    words = with_defaults(PolicyWords, options)
    keep_age, size, floor = words["keep_age"], words["max_bytes"], words["floor"]
    return RetentionPolicy(
        keep_age_ms=None if keep_age is None else _milliseconds(keep_age),
        hourly=_number(words["keep_hourly"], "--keep-hourly"),
        daily=_number(words["keep_daily"], "--keep-daily"),
        weekly=_number(words["keep_weekly"], "--keep-weekly"),
        monthly=_number(words["keep_monthly"], "--keep-monthly"),
        yearly=_number(words["keep_yearly"], "--keep-yearly"),
        max_bytes=None if size is None else parse_size(size, "--max-bytes"),
        floor_ms=0 if floor is None else _milliseconds(floor),
    )


def parse_retain(text: str) -> RetentionPolicy | None:
    """The policy in one text, for a continuous run: `mirror`, or rules separated by commas
    (`keep-age=7d,keep-monthly=84`); None for `off`. Raises `BadOption`."""
    if text == OFF:
        return None
    words: dict[str, object] = {}
    for part in text.split(",") if text != MIRROR else ():
        name, is_set, value = (token.strip() for token in part.partition("="))
        option = name.replace("-", "_")
        if option not in PolicyWords.__annotations__ or not is_set or option in words:
            raise _no_rule(part)
        words[option] = value if option in {"keep_age", "max_bytes", "floor"} else _count(value, part)
    return parse_policy(**words)  # type: ignore[arg-type]  # the names were checked above


def rule_of(policy: RetentionPolicy) -> str:
    """The policy in words."""
    rules = ["the retention of the topics"] if policy.mirrors else []
    if policy.keep_age_ms is not None:
        rules.append(f"age {format_duration(policy.keep_age_ms / 1000)}")
    rules += [f"{name} {number}" for name, number in policy.counts.items() if number]
    if policy.max_bytes is not None:
        rules.append(f"at most {format_size(policy.max_bytes)}")
    return "not kept by " + ", ".join(rules)


def _count(value: str, part: str) -> int:
    if not value.isascii() or not value.isdecimal() or len(value) > len(str(MOST_POINTS)):
        raise _no_rule(part)
    return int(value)


def _no_rule(part: str) -> BadOption:
    return BadOption(
        f"--retain: {part[:100]!r} is not a rule",
        hint="write off, mirror, or rules: keep-age=7d,keep-daily=30,floor=3d",
    )


def _number(value: int | None, option: str) -> int:
    if value is None:
        return 0
    if not 0 <= value <= MOST_POINTS:
        raise BadOption(f"{option}: {value} is not a number from 0 to {MOST_POINTS}")
    return value


def _milliseconds(text: str) -> int:
    return int(parse_duration_s(text) * 1000)
