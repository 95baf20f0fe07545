"""The backups and topics that a caller is limited to. Pure.

Patterns hold literals, `*` and `?`: no pattern takes long to match. A pattern of backups with a slash,
`REPOSITORY/BACKUP`, counts in the repository of that name alone; without one in every repository.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from offsite.model.errors import BadOption, NotAllowed
from offsite.model.names import is_topic_name
from offsite.model.selection import ALL, NONE

_PATTERN = re.compile(r"[A-Za-z0-9._*?-]{1,255}")
_STARS_MAX = 3
_WORDS_OF_TOPICS = ("topics", "partitions", "rename", "incarnation", "repartition")


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessScope:
    """Empty: no limit."""

    backups: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()

    @property
    def is_limited(self) -> bool:
        return bool(self.backups or self.topics)

    def allows_backup(self, repository: str, backup: str) -> bool:
        return not self.backups or any(_matches_backup(pattern, repository, backup) for pattern in self.backups)

    def allows_repository(self, repository: str) -> bool:
        """Whether the scope may allow a backup there."""
        places = [pattern.rpartition("/") for pattern in self.backups]
        return not places or any(not slash or _compiled(place).fullmatch(repository) for place, slash, _ in places)

    def allows_topic(self, topic: str) -> bool:
        return not self.topics or any(_compiled(pattern).fullmatch(topic) for pattern in self.topics)

    def names_topic(self, word: str) -> bool:
        """Whether the word means one topic, of this scope."""
        return is_topic_name(word) and word not in {ALL, NONE} and self.allows_topic(word)

    def check_topics(self, words: Iterable[str], *, by: str) -> None:
        """Return if all words are names of topics of this scope. A pattern could select more, and so could `all`.
        Raises `NotAllowed`."""
        if not self.topics:
            return
        for word in words:
            if not self.names_topic(word):
                raise NotAllowed(
                    f"{by} is limited to topics {', '.join(self.topics)}: {word[:60]!r} is not one of them",
                    hint="name single topics within the limit; patterns need a token without topics=",
                )

    def check_restore(self, words: Mapping[str, object], *, by: str) -> None:
        """Return if the words of a restore read and write topics of this scope alone. Raises `NotAllowed`."""
        if not self.topics:
            return
        if not words.get("topics") or "metadata" in words:
            raise NotAllowed(
                f"{by} is limited to topics {', '.join(self.topics)}, and the restore is of more",
                hint="give the names of the topics to restore, and no metadata",
            )
        self.check_words(words, by=by)

    def check_words(self, words: Mapping[str, object], *, by: str) -> None:
        """Return if all topics that the words of a restore or a search name are of this scope. Raises `NotAllowed`."""
        self.check_topics(_named_topics(words), by=by)

    def check_whole(self, what: str, *, by: str) -> None:
        """Return if there is no limit. Raises `NotAllowed`."""
        if self.is_limited:
            raise NotAllowed(f"{what}, and {by} is limited{self.text}", hint="it needs a token without a limit")

    def check_all_topics(self, what: str, *, by: str) -> None:
        """Return if topics are not limited. Raises `NotAllowed`."""
        if self.topics:
            raise NotAllowed(f"{what}, and {by} is limited{self.text}", hint="it needs a token without topics=")

    @property
    def text(self) -> str:
        """The scope as in a token file, with a blank in front; empty: no limit."""
        parts = (("backups", self.backups), ("topics", self.topics))
        return "".join(f" {name}={','.join(patterns)}" for name, patterns in parts if patterns)


NO_LIMIT = AccessScope()


def parse_scope(backups: Sequence[str], topics: Sequence[str], where: str) -> AccessScope:
    """Raises `BadOption`."""
    for name, patterns in (("backups", backups), ("topics", topics)):
        for pattern in patterns:
            parts = pattern.split("/") if name == "backups" else [pattern]
            if len(parts) > 2 or not all(_PATTERN.fullmatch(part) for part in parts) or pattern.count("*") > _STARS_MAX:
                raise BadOption(
                    f"{where}: {pattern[:60]!r} is not a pattern of {name}",
                    hint="write names, with * and ? (three * at most), and commas between patterns",
                )
    return AccessScope(backups=tuple(backups), topics=tuple(topics))


def _matches_backup(pattern: str, repository: str, backup: str) -> bool:
    of_repository, slash, of_backup = pattern.rpartition("/")
    is_there = not slash or _compiled(of_repository).fullmatch(repository) is not None
    return is_there and _compiled(of_backup).fullmatch(backup) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Patterns come from files of the administrator, so they are few."""
    parts = {"*": ".*", "?": "."}
    return re.compile("".join(parts.get(character) or re.escape(character) for character in pattern))


def _named_topics(words: Mapping[str, object]) -> Iterable[str]:
    """All topics that the words of a restore name, those of the target too: `old=new`, `topic:partition`."""
    for name in _WORDS_OF_TOPICS:
        texts = words.get(name) or ()
        for text in (texts,) if isinstance(texts, str) else texts:  # type: ignore[attr-defined]
            yield from _topics_in(name, str(text))


def _topics_in(name: str, text: str) -> Sequence[str]:
    if name == "topics":
        return [text]
    if name == "partitions":  # several topics in one text
        return [part.rpartition(":")[0].strip() for part in text.split(",") if ":" in part]
    topic, _, value = text.partition("=")
    return [topic, value] if name == "rename" else [topic]
