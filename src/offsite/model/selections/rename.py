r"""New names of restored topics: `old=new` rules, for one topic or by pattern. Pure. Everything that belongs to a topic
(the topic's group offsets) follows the same rules.

Syntax of one rule: `orders=orders-back` (one topic), `orders-*=restored-*` (a `*` on the left is any text, put in for
the `*` at the same position on the right), `regex:^(.+)-v[0-9]+$=\1-old` (searched, not anchored; `\1` is the match of
the first group). A topic follows the rule with exactly its name, else the first matching pattern, else keeps its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from offsite.model.errors import BadOption
from offsite.model.selections.pattern_list import REGEX_PREFIX, join_patterns
from offsite.model.selections.selection import check_not_empty
from offsite.model.untrusted.names import check_topic_name

_STAR = "*"
_HINT = "write --rename old=new, 'orders-*=restored-*' or 'regex:^(.+)-v1$=\\1-old'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rename:
    """One rule: both sides as typed."""

    source: str
    target: str

    @property
    def is_literal(self) -> bool:
        return not self.source.startswith(REGEX_PREFIX) and _STAR not in self.source

    def apply(self, topic: str) -> str | None:
        """Return the new name, or None when the rule does not concern the topic."""
        if self.is_literal:
            return self.target if topic == self.source else None
        match = self._pattern().search(topic)
        return None if match is None else match.expand(self._template())

    def check(self) -> None:
        """Check the rule. Raises `BadOption` or `BadName`."""
        check_not_empty(self.source)
        if self.is_literal:
            check_topic_name(self.source)
            check_topic_name(self.target)
            return
        if not self.source.startswith(REGEX_PREFIX) and self.source.count(_STAR) != self.target.count(_STAR):
            raise BadOption(f"{self}: both sides need the same number of *", hint=_HINT)
        try:
            self._pattern().sub(self._template(), "")  # reads the right side, whether anything matches or not
        except (re.error, IndexError) as error:
            raise BadOption(f"{self} is not a rename: {error}", hint=_HINT) from error

    def __str__(self) -> str:
        return f"{self.source}={self.target}"

    def _pattern(self) -> re.Pattern[str]:
        if self.source.startswith(REGEX_PREFIX):
            return re.compile(self.source.removeprefix(REGEX_PREFIX))
        return re.compile("^" + "(.*)".join(map(re.escape, self.source.split(_STAR))) + r"\Z")

    def _template(self) -> str:
        if self.source.startswith(REGEX_PREFIX):
            return self.target
        first, *parts = self.target.replace("\\", r"\\").split(_STAR)
        return first + "".join(rf"\g<{number}>{part}" for number, part in enumerate(parts, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Renames:
    """All rules of a restore, in the given order."""

    rules: tuple[Rename, ...] = ()

    def target_name(self, topic: str) -> str:
        """Return the name under which `topic` is restored. Raises `BadName` when a pattern makes a name that Kafka
        refuses."""
        for rule in sorted(self.rules, key=lambda rule: not rule.is_literal):
            if (name := rule.apply(topic)) is not None:
                return check_topic_name(name)
        return topic

    def target_names(self, topics: Iterable[str]) -> dict[str, str]:
        """Return the name of every topic. Raises `BadOption` where two topics would get one name, and as
        `target_name`."""
        sources: dict[str, str] = {}
        for topic in sorted(topics):
            if (other := sources.setdefault(self.target_name(topic), topic)) != topic:
                raise BadOption(
                    f"two topics would be restored under the same name: {other} and {topic}",
                    hint="give each topic its own --rename",
                )
        return {topic: name for name, topic in sources.items()}

    def unused(self, topics: Iterable[str]) -> tuple[str, ...]:
        """Return the left sides of the rules that concern none of `topics`."""
        names = tuple(topics)
        return tuple(rule.source for rule in self.rules if all(rule.apply(name) is None for name in names))

    def is_about(self, topic: str) -> bool:
        """Whether a rule concerns the topic."""
        return any(rule.apply(topic) is not None for rule in self.rules)

    def __str__(self) -> str:
        return join_patterns(map(str, self.rules))


def parse_renames(values: Iterable[str]) -> Renames:
    """Parse rules, one per element. Raises `BadOption` and `BadName`."""
    rules: dict[str, Rename] = {}
    for text in filter(None, map(str.strip, values)):
        source, separator, target = text.rpartition("=")
        if not separator or source in rules:
            raise BadOption(f"{text!r} is not a rename, or is the second rename with that name", hint=_HINT)
        rules[source] = Rename(source=source, target=target)
        rules[source].check()
    return Renames(rules=tuple(rules.values()))
