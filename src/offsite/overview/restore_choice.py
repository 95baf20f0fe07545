"""What somebody chose to restore by pointing: topics, their names in the target, a restore point, groups. Pure.

A choice becomes the options of a restore, and options become a choice, so a link with options leads to a filled-in
form. Options that nobody changed stay as they are written: the same options continue an unfinished restore.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from offsite.model.bounds import parse_number
from offsite.model.errors import BadOption
from offsite.model.names import check_topic_name
from offsite.model.selection import parse_selection, split_patterns
from offsite.model.topic_choices import parse_renames
from offsite.overview.comparison import SourceComparison, TopicState

RESTORED = "-restored"
_NAME_MAX = 249
_MAY_BE_FREE = frozenset({TopicState.GONE, TopicState.HIDDEN, TopicState.UNCLEAR})
_ALL_RENAMED = f"*=*{RESTORED}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoice:
    """`topics`, `rename`: patterns as written; empty for none. `is_all`: all topics, else those of `picked`. `named`:
    target names by topic, where they differ from what the rules or `proposed_names` say. `commit`, `checkpoint`, `at`,
    `groups`: the options of those names, as texts; empty: not given. `target`: the name of the cluster."""

    topics: str = ""
    is_all: bool = True
    picked: frozenset[str] = frozenset()
    rename: str = ""
    named: Mapping[str, str] = field(default_factory=dict)
    commit: str = ""
    checkpoint: str = ""
    at: str = ""
    groups: str = ""
    target: str = ""

    def includes(self, topic: str) -> bool:
        """Whether the box of a topic is ticked."""
        return not self.is_all and topic in self.picked

    @property
    def edits(self) -> str:
        """All edited names, as `read_choice` reads them."""
        return ",".join(f"{topic}={name}" for topic, name in self.named.items())

    @property
    def point(self) -> str:
        """The restore point as the value of a radio button."""
        if self.checkpoint:
            return f"checkpoint-{self.checkpoint}"
        return f"commit-{self.commit}" if self.commit else ""


def split_list(text: str) -> list[str] | None:
    """Split a field at commas and lines; None: empty."""
    return [pattern for line in text.splitlines() for pattern in split_patterns(line)] or None


def select_topics(patterns: str, topics: Collection[str]) -> frozenset[str]:
    """The topics that the patterns of a field select. Raises `BadOption`, `BadName`."""
    return frozenset(parse_selection(split_list(patterns) or ["*"]).select(topics))


def taken_names(source: SourceComparison | None) -> frozenset[str]:
    """The names that the source is known to have, of those that the backup selects."""
    if source is None or source.looked_ms < 0:
        return frozenset()
    return frozenset(topic.topic for topic in source.topics if topic.state not in _MAY_BE_FREE)


def proposed_name(topic: str, taken: Collection[str]) -> str:
    """The own name of a topic if it is not taken, else a free one."""
    if topic not in taken:
        return topic
    stem, number = f"{topic[: _NAME_MAX - len(RESTORED) - 4]}{RESTORED}", 2
    name = stem
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetNames:
    """The names of topics in the target, before anybody edits them: by the rules of `rename`, else as proposed beside
    the names `taken` there."""

    rename: str
    taken: frozenset[str]

    def of(self, topics: Iterable[str]) -> dict[str, str]:
        """The names by topic. Raises `BadOption`, `BadName`."""
        rules = parse_renames(split_list(self.rename) or ())
        return {
            topic: rules.target_name(topic) if rules.is_about(topic) else proposed_name(topic, self.taken)
            for topic in topics
        }


def choice_words(choice: RestoreChoice, topics: Collection[str], taken: frozenset[str]) -> dict[str, Any]:
    """The options of a restore that `choice` means; `topics`: all of the backup. Raises `BadOption`, `BadName`."""
    words: dict[str, Any] = {
        "checkpoint": parse_number(choice.checkpoint.strip(), "checkpoint"),
        "commit": parse_number(choice.commit.strip(), "commit"),
        "at": choice.at.strip() or None,
        "topics": _topic_words(choice, topics),
        "rename": _rename_words(choice, topics, taken),
        "groups": split_list(choice.groups),
    }
    return {name: value for name, value in words.items() if value is not None}


def chosen_topics(choice: RestoreChoice, topics: Collection[str]) -> list[str]:
    """The chosen topics of the backup, sorted."""
    return sorted(select_topics("", topics) if choice.is_all else choice.picked & frozenset(topics))


def _topic_words(choice: RestoreChoice, topics: Collection[str]) -> list[str] | None:
    if choice.is_all:
        return None
    if choice.topics and choice.picked == select_topics(choice.topics, topics):
        return split_list(choice.topics)
    if not choice.picked:
        raise BadOption("no topic is ticked", hint="tick topics, or choose all of them")
    return sorted(choice.picked)


def _rename_words(choice: RestoreChoice, topics: Collection[str], taken: frozenset[str]) -> list[str] | None:
    """The rules as written where they mean the chosen names."""
    chosen = chosen_topics(choice, topics)
    edited = {topic: check_topic_name(choice.named[topic]) for topic in chosen if topic in choice.named}
    names = TargetNames(rename=choice.rename, taken=taken).of(chosen) | edited
    rules = parse_renames(split_list(choice.rename) or ())
    if choice.rename and (not chosen or names == {topic: rules.target_name(topic) for topic in chosen}):
        return split_list(choice.rename)
    pairs = [f"{topic}={name}" for topic, name in names.items() if name != topic]
    if len(pairs) > 1 and all(name == f"{topic}{RESTORED}" for topic, name in names.items()):
        return [_ALL_RENAMED]
    return pairs or None


def read_choice(
    fields: Mapping[str, str],
    topics: Collection[str],
    taken: frozenset[str],
    *,
    check_bounded: Callable[[Mapping[str, Any]], None],
) -> RestoreChoice:
    """Read a form: options as a link gives them, and what was ticked and edited since. `taken`: the names that were
    taken in the target when the form was made: a name that was proposed then is no edit. Patterns that `check_bounded`
    refuses are not searched for. Raises `BadOption`, `BadName`."""
    text, rename = fields.get("topics", "").strip(), fields.get("rename", "").strip()
    check_bounded({"topics": split_list(text), "rename": split_list(rename)})
    listed = {name[3:]: value.strip() for name, value in fields.items() if name.startswith("as.")}
    ticked = frozenset(name[5:] for name in fields if name.startswith("pick."))
    kept = frozenset(filter(None, fields.get("picked", "").split(",")))
    picked = (kept - listed.keys() | ticked) & frozenset(topics)
    is_anew = text != fields.get("topics_before", "").strip() and bool(text)
    if is_anew:
        picked = select_topics(text, topics)
    is_all = not is_anew and _means_all(fields, text, picked)
    point = fields.get("point", "")
    return RestoreChoice(
        topics=text if is_anew or (text and picked == select_topics(text, topics)) else "",
        is_all=is_all,
        picked=picked,
        rename=rename,
        named=_names(fields, listed, TargetNames(rename=rename, taken=taken)),
        commit=point.removeprefix("commit-") if point.startswith("commit-") else fields.get("commit", "").strip(),
        checkpoint=point.removeprefix("checkpoint-")
        if point.startswith("checkpoint-")
        else fields.get("checkpoint", "").strip(),
        at=fields.get("at", "").strip(),
        groups=fields.get("groups_typed", "").strip() or fields.get("groups", "").strip(),
        target=fields.get("target", ""),
    )


def _means_all(fields: Mapping[str, str], text: str, picked: Collection[str]) -> bool:
    """A tick while all topics were chosen means only the ticked ones; "all" chosen beside old ticks means all."""
    which, before = fields.get("which"), fields.get("which_before")
    if which is None:
        return not text and not picked
    return which == "all" and (before != "all" or not picked)


def _names(fields: Mapping[str, str], listed: Mapping[str, str], names: TargetNames) -> dict[str, str]:
    """The edited names: of rows that are not listed as kept, of listed rows as they stand in the form."""
    pairs = (pair.partition("=") for pair in fields.get("named", "").split(",") if "=" in pair)
    named = {topic: name for topic, _, name in pairs if topic not in listed}
    own = names.of(listed)
    return named | {topic: name for topic, name in listed.items() if name and name != own[topic]}
