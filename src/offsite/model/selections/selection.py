"""Which topics and consumer groups are meant.

Topics: literal names, globs and regular expressions, minus excludes, minus internal topics. Syntax of one pattern:
`orders` (literal), `orders-*` (glob: `*`, `?`, `[...]`), `regex:^orders-[0-9]+$` (searched, not anchored). How several
stand in one text is `pattern_list`'s.

Groups: `all`, `none`, or patterns of the same syntax. But a group may have any name: nothing is checked beyond what can
be read.
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
"""Prefix of every topic that a drill makes: the id of its attempt and the name of the topic follow."""
_NO_TOPIC_HINT = "a glob has *, ? and [...]; write two patterns, or regex:^orders-(eu|us)$"
_UNREADABLE = (re.error, RecursionError, OverflowError)
_DRILL_COPY = re.compile(rf"{SCRATCH_PREFIX}[0-9a-f]{{8}}-.")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """A frozen choice of topics. `internal` lets patterns match topics that Kafka or its tools own (`__*`)."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    internal: bool = False

    def select(
        self, topics: Iterable[str], *, internal: frozenset[str] = frozenset(), hidden: frozenset[str] = frozenset()
    ) -> tuple[str, ...]:
        """Names of `topics` that are meant, sorted. No pattern means one of `hidden`; a literal selects what is hidden,
        or internal, even unasked.

        A literal that is not among `topics` is not an error here: see `missing`.
        """
        names = frozenset(topics)
        literals = {p for p in self.include if is_literal(p)} & names
        hidden |= frozenset() if self.internal else internal
        matched = {n for n in names - hidden if any(_matches(p, n) for p in self.include)}
        return tuple(sorted(n for n in matched | literals if not any(_matches(p, n) for p in self.exclude)))

    def missing(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Literal names that are not among `topics`, sorted."""
        return tuple(sorted({p for p in self.include if is_literal(p)} - frozenset(topics)))


def is_drill_copy(topic: str) -> bool:
    """Whether it is a topic that a drill made for a while. In a cluster no pattern means one: it would back up the
    backup. What a backup holds is all meant, whatever its name."""
    return _DRILL_COPY.match(topic) is not None


def drill_copies(topics: Iterable[str]) -> frozenset[str]:
    """Those of `topics` that drills made, to be hidden from the patterns of a backup."""
    return frozenset(filter(is_drill_copy, topics))


def parse_selection(include: Iterable[str], exclude: Iterable[str] = (), *, internal: bool = False) -> TopicSelection:
    """Read patterns, one an element. Raises `BadOption` for an unreadable one, `BadName` for an impossible literal."""
    chosen = tuple(_read(include))
    if not chosen:
        raise BadOption("no topics selected", hint="name topics with --topics 'orders,payments-*,regex:^audit'")
    return TopicSelection(include=chosen, exclude=tuple(_read(exclude)), internal=internal)


def no_topics(selection: TopicSelection) -> NoSuchTopic:
    """The error for a selection that matched nothing."""
    wanted = ", ".join(selection.include)
    return NoSuchTopic(f"no topic matches {wanted}", hint="list the topics of the cluster with: kcat -L -b BOOTSTRAP")


def is_literal(pattern: str) -> bool:
    return not pattern.startswith(REGEX_PREFIX) and _GLOB_CHARACTERS.isdisjoint(pattern)


def is_readable(pattern: str) -> bool:
    """Whether names can be compared with a pattern: `regex:(` is none."""
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
        raise BadOption(f"{pattern!r} has a comma, and no topic has", hint="each pattern is an element of its own")
    if is_literal(pattern):
        check_topic_name(pattern)
    elif not is_possible(pattern):
        raise BadOption(f"{pattern!r} means no topic: none has such a name", hint=_NO_TOPIC_HINT)
    check_not_empty(pattern)
    try:
        _compile(pattern)
    except _UNREADABLE as error:
        raise BadOption(f"{pattern!r} is not a regular expression: {error}", hint="quote it for the shell") from error


def check_not_empty(pattern: str) -> None:
    """Check that it is not what is left of `regex:$PATTERN` without a value, which would mean everything. Raises
    `BadOption`."""
    if pattern == REGEX_PREFIX:
        raise BadOption(f"{pattern!r} is an empty regular expression", hint="write * for all")


def _compile(pattern: str) -> re.Pattern[str]:
    if pattern.startswith(REGEX_PREFIX):
        return re.compile(pattern.removeprefix(REGEX_PREFIX))
    return re.compile(rf"\A{translate(pattern)}")  # it is searched for: a name or glob means the whole of a name


def _matches(pattern: str, name: str) -> bool:
    return _compile(pattern).search(name) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPatterns:
    """A frozen choice of groups. No pattern: no group."""

    include: tuple[str, ...]

    def __str__(self) -> str:
        return join_patterns(self.include)

    def __bool__(self) -> bool:
        return bool(self.include)

    def select(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Names of `groups` that are meant, sorted."""
        return TopicSelection(include=self.include).select(groups)

    def missing(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Literal names that are not among `groups`, sorted."""
        return TopicSelection(include=self.include).missing(groups)

    @property
    def literals(self) -> frozenset[str]:
        """The groups that are named in full."""
        return frozenset(filter(is_literal, self.include))


ALL_GROUPS = GroupPatterns(include=("*",))
NO_GROUPS = GroupPatterns(include=())


def parse_groups(values: Iterable[str]) -> GroupPatterns:
    """Read patterns, one an element; none means all. Raises `BadOption` for a pattern that cannot be read, and where
    all are empty: who gave nothing did not mean all."""
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
