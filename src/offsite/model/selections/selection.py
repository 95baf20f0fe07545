"""Selection of topics and consumer groups.

Topics: literal names, globs and regular expressions, minus excludes, minus internal topics. Syntax of one pattern:
`orders` (literal), `orders-*` (glob: `*`, `?`, `[...]`), `regex:^orders-[0-9]+$` (searched, not anchored).
`pattern_list` defines several patterns in one text.

Groups: `all`, `none`, or patterns of the same syntax. A group may have any name, so nothing is checked except
readability.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import translate

from offsite.model.errors import BadOption, NoSuchTopic
from offsite.model.selections.pattern_list import REGEX_PREFIX, has_several, is_possible, join_patterns
from offsite.model.untrusted.names import check_topic_name

_GLOB_CHARACTERS = frozenset("*?[")
ALL, NONE = "all", "none"
SCRATCH_PREFIX = "offsite-drill-"
"""Prefix of every topic made by a drill: the id of the attempt and the name of the topic follow."""
_NO_TOPIC_HINT = "globs support *, ? and [...]; write two patterns, or regex:^orders-(eu|us)$"
_UNREADABLE = (re.error, RecursionError, OverflowError)
_DRILL_COPY = re.compile(rf"{SCRATCH_PREFIX}[0-9a-f]{{8}}-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """A frozen selection of topics. `internal` lets patterns match topics of Kafka or its tools (`__*`)."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    internal: bool = False

    def select(
        self, topics: Iterable[str], *, internal: frozenset[str] = frozenset(), hidden: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Return the selected names of `topics`, sorted. Patterns never select `hidden` topics; a literal name selects
        even hidden or internal topics.

        A literal missing in `topics` is no error here: see `missing`.
        """
        names = frozenset(topics)
        literals = {p for p in self.include if is_literal(p)} & names
        hidden |= frozenset() if self.internal else internal
        matched = {n for n in names - hidden if any(_matches(p, n) for p in self.include)}
        return tuple(sorted(n for n in matched | literals if not any(_matches(p, n) for p in self.exclude)))

    def missing(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the literal names missing in `topics`, sorted."""
        return tuple(sorted({p for p in self.include if is_literal(p)} - frozenset(topics)))


def is_drill_copy(topic: str) -> bool:
    """Whether a drill made the topic for a while. In a cluster no pattern selects such a topic: it would back up the
    backup. In a backup every topic is selectable, whatever the name."""
    return _DRILL_COPY.match(topic) is not None


def drill_copies(topics: Iterable[str]) -> frozenset[str]:
    """Return the topics made by drills, to be hidden from the patterns of a backup."""
    return frozenset(filter(is_drill_copy, topics))


def parse_selection(include: Iterable[str], exclude: Iterable[str] = (), *, internal: bool = False) -> TopicSelection:
    """Parse patterns, one per element. Raises `BadOption` for an unreadable pattern, `BadName` for an impossible
    literal."""
    chosen = tuple(_read(include))
    if not chosen:
        raise BadOption("no topics selected", hint="name topics with --topics 'orders,payments-*,regex:^audit'")
    return TopicSelection(include=chosen, exclude=tuple(_read(exclude)), internal=internal)


def no_topics(selection: TopicSelection) -> NoSuchTopic:
    """Return the error for a selection without a match."""
    patterns = ", ".join(selection.include)
    return NoSuchTopic(f"no topic matches {patterns}", hint="list the topics of the cluster with: kcat -L -b BOOTSTRAP")


def is_literal(pattern: str) -> bool:
    return not pattern.startswith(REGEX_PREFIX) and _GLOB_CHARACTERS.isdisjoint(pattern)


def is_readable(pattern: str) -> bool:
    """Whether names can be compared with the pattern: not with `regex:(`."""
    try:
        _compile(pattern)
    except _UNREADABLE:
        return False
    return True


def _read(values: Iterable[str]) -> Iterable[str]:
    for pattern in map(str.strip, values):
        if pattern:
            _check(pattern)
            yield pattern


def _check(pattern: str) -> None:
    if has_several(pattern):
        raise BadOption(
            f"{pattern!r} has a comma, but topic names have no commas", hint="give each pattern as a separate element"
        )
    if is_literal(pattern):
        check_topic_name(pattern)
    elif not is_possible(pattern):
        raise BadOption(f"{pattern!r} matches no possible topic name", hint=_NO_TOPIC_HINT)
    check_not_empty(pattern)
    try:
        _compile(pattern)
    except _UNREADABLE as error:
        raise BadOption(f"{pattern!r} is not a regular expression: {error}", hint="quote it for the shell") from error


def check_not_empty(pattern: str) -> None:
    """Check for the remains of `regex:$PATTERN` with an empty variable, which would mean everything. Raises
    `BadOption`."""
    if pattern == REGEX_PREFIX:
        raise BadOption(f"{pattern!r} is an empty regular expression", hint="use * for all")


def _compile(pattern: str) -> re.Pattern[str]:
    if pattern.startswith(REGEX_PREFIX):
        return re.compile(pattern.removeprefix(REGEX_PREFIX))
    return re.compile(rf"\A{translate(pattern)}")  # `_matches` searches: a name or glob must match the whole name


def _matches(pattern: str, name: str) -> bool:
    return _compile(pattern).search(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPatterns:
    """A frozen selection of groups. Without patterns: no group."""

    include: tuple[str, ...]

    def __str__(self) -> str:
        return join_patterns(self.include)

    def __bool__(self) -> bool:
        return bool(self.include)

    def select(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the selected names of `groups`, sorted."""
        return TopicSelection(include=self.include).select(groups)

    def missing(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the literal names missing in `groups`, sorted."""
        return TopicSelection(include=self.include).missing(groups)

    @property
    def literals(self) -> frozenset[str]:
        """The groups named in full."""
        return frozenset(filter(is_literal, self.include))


ALL_GROUPS = GroupPatterns(include=("*",))
NO_GROUPS = GroupPatterns(include=())


def parse_groups(values: Iterable[str]) -> GroupPatterns:
    """Parse patterns, one per element; no pattern means all. Raises `BadOption` for an unreadable pattern, and where
    all patterns are empty: an empty option does not mean all."""
    texts = tuple(values)
    patterns = tuple(filter(None, map(str.strip, texts)))
    if texts and not patterns:
        raise BadOption("no groups selected", hint="write all, none, or names: --groups 'readers,billing-*'")
    if not patterns or patterns == (ALL,):
        return ALL_GROUPS
    if patterns == (NONE,):
        return NO_GROUPS
    chosen = GroupPatterns(include=patterns)
    for pattern in patterns:
        check_not_empty(pattern)
    try:
        chosen.select([""])
    except _UNREADABLE as error:
        raise BadOption(
            f"{join_patterns(patterns)!r} cannot be read: {error}", hint="quote it for the shell"
        ) from error
    return chosen
