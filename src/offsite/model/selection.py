r"""Selection of topics and consumer groups by patterns.

Topics: literal names, globs and regular expressions, minus excludes, minus internal topics. Syntax of one pattern:
`orders` (literal), `orders-*` (glob: `*`, `?`, `[...]`), `regex:^orders-[0-9]+$` (searched, not anchored).
Groups: `all`, `none`, or patterns of the same syntax. A group may have any name: only readability is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import translate
from itertools import pairwise

from offsite.model.errors import BadOption, NoSuchTopic
from offsite.model.names import check_topic_name

PATTERN_OPTIONS = frozenset(
    {"topics", "exclude", "groups", "rename", "expect_deletes", "participant_topics", "incarnation", "repartition"}
)
"""All options whose values are lists of patterns or names."""
_CLASS_MAX = 256
"""Characters of a set: an unclosed set is not searched without end."""
_TOKEN = re.compile(
    r"\\+,"  # a comma of a pattern
    r"|\\."
    rf"|\[[!^]?\]?(?:\\.|[^\]\\]){{0,{_CLASS_MAX}}}\]"  # [a,b]
    rf"|\{{[^{{}}]{{0,{_CLASS_MAX}}}\}}"  # {1,3}
    r"|.",
    re.DOTALL,
)
REGEX_PREFIX = "regex:"
_PLAIN_NAME = re.compile(r"(?!(?:all|none)\Z)[A-Za-z0-9._-]+")
_POSSIBLE_GLOB = re.compile(r"(?:[A-Za-z0-9._*?-]|\[[!^]?\]?[^]]*\])*")
_ALL, _NOTHING = "regex:^", "regex:(?!)"
_SEPARATOR, _ESCAPED = ",", r"\,"

_GLOB_CHARACTERS = frozenset("*?[")
ALL, NONE = "all", "none"
SCRATCH_PREFIX = "offsite-drill-"
"""Prefix of every topic made by a drill: the id of the attempt and the name of the topic follow."""
_NO_TOPIC_HINT = "globs support *, ? and [...]; write two patterns, or regex:^orders-(eu|us)$"
_UNREADABLE = (re.error, RecursionError, OverflowError)
_DRILL_COPY = re.compile(rf"{SCRATCH_PREFIX}[0-9a-f]{{8}}-.")


def split_patterns(text: str) -> list[str]:
    r"""Return the patterns of `text`, without surrounding blanks; empty patterns are left out.

    Several patterns in one text, as in a command line or a form field: `orders,regex:^rx-[0-9]{1,3}$`. A comma
    separates, but not inside closed brackets, braces or parentheses; `\,` is a comma of a pattern anywhere. A list (of
    YAML, Python, the API) needs no separator: every element is one pattern.
    """
    separators, opened = list[int](), list[int]()  # per open parenthesis: number of separators before
    for token in _TOKEN.finditer(text):
        match token[0]:
            case ",":
                separators.append(token.start())
            case "(":
                opened.append(len(separators))
            case ")" if opened:
                del separators[opened.pop() :]
    bounds = [-1, *separators, len(text)]
    parts = (text[start + 1 : end] for start, end in pairwise(bounds))
    return [part.replace(_ESCAPED, _SEPARATOR).strip() for part in parts if part.strip()]


def split_all(texts: Iterable[str] | None) -> list[str] | None:
    """Return the patterns of an option that may be given several times; None where not given. A text without patterns
    stays an empty pattern: an empty option does not mean all."""
    return None if texts is None else [pattern for text in texts for pattern in split_patterns(text) or [""]]


def escape_pattern(pattern: str) -> str:
    """Return the pattern as a command line takes it: `split_patterns` reads the result as one pattern again."""
    return pattern.replace(_SEPARATOR, _ESCAPED)


def join_patterns(patterns: Iterable[str]) -> str:
    """Return one text of several patterns; `split_patterns` divides the text again."""
    return _SEPARATOR.join(map(escape_pattern, patterns))


def to_arguments(words: Mapping[str, object]) -> list[str]:
    """The options of a command: `{"topics": ["a", "b"], "deep": True}` → `--topics=a --topics=b --deep`."""
    return [text for name, value in words.items() for text in _argument(name, value)]


def _argument(name: str, value: object) -> list[str]:
    option = f"--{name.replace('_', '-')}"
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    texts = map(str, value if isinstance(value, list | tuple) else [value])
    return [f"{option}={escape_pattern(text) if name in PATTERN_OPTIONS else text}" for text in texts]


def only_these(names: Iterable[str]) -> str:
    """Return one text of patterns that selects groups of exactly these names, whatever characters they have."""
    return join_patterns(
        name if _PLAIN_NAME.fullmatch(name) else f"{REGEX_PREFIX}^{re.escape(name)}\\Z" for name in names
    )


def stored_patterns(patterns: Iterable[str]) -> list[str]:
    """Convert topic patterns stored by an earlier version. An element could then hold several patterns, or mean nothing
    or all in a way refused today. No topic has a comma in its name, so today's elements hold no separating comma."""
    parts = (part for pattern in patterns for part in (split_patterns(pattern) if has_several(pattern) else [pattern]))
    return [_ALL if part == REGEX_PREFIX else part if is_possible(part) else _NOTHING for part in parts]


def is_possible(pattern: str) -> bool:
    """Whether a topic name can match the pattern. `*-{eu,us}` is for a shell, and would match nothing in silence."""
    return pattern.startswith(REGEX_PREFIX) or _POSSIBLE_GLOB.fullmatch(pattern) is not None


def has_several(pattern: str) -> bool:
    return len(split_patterns(pattern)) > 1


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
        matched = _matching(self.include, names - hidden) | literals
        return tuple(sorted(matched - _matching(self.exclude, matched)))

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


def _matching(patterns: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    """Those of `names` that a pattern matches. Thousands of literals cost as much as one."""
    literals = {pattern for pattern in patterns if is_literal(pattern)}
    searched = [_compile(pattern) for pattern in patterns if pattern not in literals]
    return names & literals | {name for name in names if any(pattern.search(name) for pattern in searched)}


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
