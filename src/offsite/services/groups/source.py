"""The committed offsets of groups as of a restore point: from the snapshot of a commit, or from the groups' own
history; on topics deleted by then, from the newest commit with the topic."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from offsite.copy.point_cut import choose_cut
from offsite.copy.restore_point import FixedPoint, PointRequest, fix_point
from offsite.log.groups.offsets import GroupOffsets, GroupTable, TopicOffsets
from offsite.model.choices import CutChoice
from offsite.model.errors import Damaged, NoSuchRestorePoint
from offsite.model.named import named
from offsite.model.selections.selection import ALL_GROUPS, GroupPatterns
from offsite.model.time import format_time
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicIncarnation
from offsite.repository.snapshots.group_snapshot import GoneGroup, incarnation_of
from offsite.repository.state import BackupState
from offsite.services.groups.cut_offsets import as_of_cut
from offsite.services.groups.earlier import EarlierGroups, GroupCommits
from offsite.services.groups.history import has_history, read_history
from offsite.services.groups.missing_records import EarlierOffsets

SNAPSHOT, HISTORY = "snapshot", "history"
_NAMED_MAX = 12
"""Topics named in one sentence."""
_NEAR_MAX = 3
"""Similar names suggested for an unknown name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCommit:
    """Offsets on `topic` are those of `commit`, made at `committed_at_ms` by the store's clock (epoch ms): of all
    groups, because the topic was deleted since, or of one `group`, gone since commit `gone_since` (else 0)."""

    topic: str
    group: str
    commit: int
    committed_at_ms: int
    gone_since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneSince:
    """A group without offsets on `topic` since `commit`, with offsets in the commit before, although the topic existed.
    `since_ms`: the time, by the store's clock (epoch ms); -1: unknown."""

    group: str
    topic: str
    commit: int
    since_ms: int

    def __str__(self) -> str:
        at = f" of {format_time(self.since_ms)}" if self.since_ms >= 0 else ""
        return f"{self.group} is gone from {self.topic} since commit {self.commit}{at}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsAsOf:
    """The groups as of `point`: from the `history` as of a time, from a `snapshot` as of its commit. `earlier`: offsets
    of an earlier commit. `gone`: matching groups that are gone, and were not named in full. `unread`: deleted topics
    with groups left out, because their objects are damaged."""

    groups: GroupTable
    point: BackupState
    origin: str
    own_notes: tuple[str, ...] = ()
    earlier: tuple[EarlierOffsets, ...] = ()
    gone: tuple[GoneSince, ...] = ()
    unread: Mapping[str, Damaged] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for a person."""
        return (*self.own_notes, *_earlier_notes(self.earlier))

    @property
    def earlier_commits(self) -> tuple[EarlierCommit, ...]:
        """The offsets of earlier commits, for people and scripts."""
        return tuple(
            EarlierCommit(
                topic=each.incarnation.topic,
                group=each.group,
                commit=each.commit,
                committed_at_ms=each.committed_at_ms,
                gone_since=each.gone_since,
            )
            for each in self.earlier
        )

    def earlier_commit(self, group: str, offsets: TopicOffsets) -> int:
        """The earlier commit of the offsets of a group on a topic; 0 for the point's own offsets."""
        of = incarnation_of(offsets)
        return next((each.commit for each in self.earlier if each.covers(group, of)), 0)

    def of_incarnations(self, topic_ids: Mapping[str, str]) -> GroupsAsOf:
        """The same groups without offsets on topics with another known id than in `topic_ids` (name → id): in another
        log the offsets would point at other records."""
        others = {
            f"offsets on {each.topic} are left out: at commit {self.point.seq} they belong to another incarnation of "
            f"it ({each.topic_id[:8]}); a restore of that one has its groups"
            for group in self.groups.values()
            for each in group.topics
            if not _is_on(each, topic_ids)
        }
        return self._only(lambda topic: _is_on(topic, topic_ids), sorted(others)) if others else self

    def on_topics(self, topics: Container[str]) -> GroupsAsOf:
        """The same groups with only offsets on `topics`: nobody requested the rest."""
        return self._only(lambda topic: topic.topic in topics)

    def without_topics(self, reasons: Mapping[str, str]) -> GroupsAsOf:
        """The same groups without offsets on the topics in `reasons` (name → why)."""
        read = {topic.topic for group in self.groups.values() for topic in group.topics}
        told = [reasons[name] for name in sorted(reasons) if name in read]
        return self._only(lambda topic: topic.topic not in reasons, told) if told else self

    def _only(self, is_meant: Callable[[TopicOffsets], bool], notes: Iterable[str] = ()) -> GroupsAsOf:
        groups = _filtered(self.groups, is_meant)
        left = {topic.topic for group in groups.values() for topic in group.topics}
        earlier = tuple(each for each in self.earlier if each.incarnation.topic in left)
        return replace(self, groups=groups, earlier=earlier, own_notes=(*self.own_notes, *notes))


def _is_on(offsets: TopicOffsets, topic_ids: Mapping[str, str]) -> bool:
    wanted = topic_ids.get(offsets.topic, "")
    return not offsets.topic_id or not wanted or offsets.topic_id == wanted


def _filtered(groups: GroupTable, is_meant: Callable[[TopicOffsets], bool]) -> GroupTable:
    kept = {name: replace(group, topics=tuple(filter(is_meant, group.topics))) for name, group in groups.items()}
    return {name: group for name, group in kept.items() if group.topics}


def groups_as_of(
    backup: Backup,
    request: PointRequest,
    fixed: FixedPoint | None = None,
    *,
    patterns: GroupPatterns = ALL_GROUPS,
    topic_ids: Mapping[str, str] | None = None,
) -> GroupsAsOf:
    """The groups that match `patterns` as of the commit that `request` means, or of its time `at`; or as of `fixed`.

    With a time: exactly then if the backup has the history of groups, else by the newest commit at or before the time.
    As of a consistent cut: with the offsets of the cut in place of the commit's own. On topics deleted by then: as of
    the newest commit with the topic. A group that is gone is included when named in full, as of the commit before it
    was gone. `topic_ids`: the meant topics, by name; None: the latest of every name.

    Raises `NoSuchRestorePoint` when nothing is known of groups, and for an unknown group named in full, `BadOption` for
    an invalid time, `DamagedCommit`, `DamagedObject`.
    """
    backup = backup.reading(is_named=request.is_named or fixed is not None, as_of=request.as_of_head)
    head = backup.sound_state()
    fixed = fixed or fix_point(backup, request, head)
    point = head.as_point() if fixed.commit == head.seq else backup.state_at(fixed.commit, head=head)
    commits = GroupCommits(backup=backup, by_cut=fixed.cut in {CutChoice.CONSISTENT, CutChoice.AUTO})
    found = _found(commits, point, fixed, head)
    until = _until(commits, found, fixed)
    joining = _Joining(commits=commits, found=found, until=until, alive=found.point.alive())
    return joining.joined(patterns, topic_ids)


def _found(commits: GroupCommits, point: BackupState, fixed: FixedPoint, head: BackupState) -> GroupsAsOf:
    """The groups in the snapshot of the point, or in the history."""
    backup, time_ms = commits.backup, fixed.until_ms
    if time_ms is None:
        found, cut = _snapshot(commits, point), choose_cut(backup.store, point, fixed.cut or CutChoice.AS_COPIED)
        return found if cut.used is None else replace(found, groups=as_of_cut(found.groups, cut.used.groups))
    if has_history(point):
        history = read_history(backup, point, until_ms=time_ms, head=head)
        notes = tuple(
            f"{topic} was deleted and made anew about {format_time(time_ms)}: offsets of groups on it are left out"
            for topic in history.unclear
        )
        groups = _described(commits, point, history.groups)
        return GroupsAsOf(groups=groups, point=point, origin=HISTORY, own_notes=notes)
    return _snapshot_before(commits, point, time_ms, head)


def _snapshot(commits: GroupCommits, point: BackupState) -> GroupsAsOf:
    return GroupsAsOf(groups=commits.snapshot(point).groups, point=point, origin=SNAPSHOT)


def _snapshot_before(commits: GroupCommits, point: BackupState, time_ms: int, head: BackupState) -> GroupsAsOf:
    """Prefers an older state to a newer one: groups read some records again, and miss none."""
    found = point.history.latest_at(time_ms)
    if found is None:
        note = f"no commit is as old as {format_time(time_ms)}: groups are those of commit {point.seq}"
        return replace(_snapshot(commits, point), own_notes=(note,))
    note = f"groups are those of commit {found.seq}, the newest before {format_time(time_ms)}"
    return replace(_snapshot(commits, commits.backup.state_at(found.seq, head=head)), own_notes=(note,))


def _described(commits: GroupCommits, point: BackupState, groups: GroupTable) -> GroupTable:
    """The history has no group types: taken from the snapshot, for groups in the snapshot."""
    known = commits.snapshot(point).groups if point.groups else {}
    return {name: replace(group, kind=known[name].kind if name in known else "") for name, group in groups.items()}


def _until(commits: GroupCommits, found: GroupsAsOf, fixed: FixedPoint) -> BackupState:
    """The newest commit with usable groups: with the history of groups, the newest commit before the time."""
    if found.origin == SNAPSHOT or fixed.until_ms is None:
        return found.point
    before = found.point.history.latest_at(fixed.until_ms)
    return found.point if before is None else commits.state(before.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """Joins the groups `as_of` the point with the groups of earlier commits. `until`: the newest commit that counts;
    `alive`: the topics of the point."""

    commits: GroupCommits
    found: GroupsAsOf
    until: BackupState
    alive: frozenset[TopicIncarnation]

    def joined(self, patterns: GroupPatterns, topic_ids: Mapping[str, str] | None) -> GroupsAsOf:
        """The matching groups, on the matching topics."""
        found, latest = self.found, self.found.point.latest_shapes().values()
        # 1. Groups on deleted topics, oldest deletion first, and groups that are gone from existing topics.
        named_ids = {shape.topic: shape.topic_id for shape in latest} if topic_ids is None else topic_ids
        meant = frozenset(TopicIncarnation(topic=name, topic_id=named_ids[name]) for name in named_ids)
        shapes = found.point.topics
        by_time = sorted(meant & shapes.keys(), key=lambda each: (shapes[each].deleted_ms, each))
        deleted, unread = self._all_deleted(by_time)
        all_gone = [*self._gone(), *(gone for each in deleted for gone in each.gone)]
        names = {*found.groups, *(name for each in deleted for name in each.groups)}
        self._check_known(patterns, {*names, *(each.group for each in all_gone)}, unread)
        # 2. Groups that match the patterns; a gone group only when named in full.
        chosen = frozenset(patterns.select(names))
        gone = {(each.group, each.topic): each for each in all_gone if each.incarnation in meant}
        named_ones = {key: self.commits.of_gone(gone[key]) for key in sorted(gone) if key[0] in patterns.literals}
        taken = {key: found for key, found in named_ones.items() if found is not None and found.groups}
        earlier = [*(each for each in (of.only(chosen) for of in deleted) if each.groups), *taken.values()]
        # 3. The point's own groups, without topics that earlier commits answer for.
        found = replace(found, groups={name: group for name, group in found.groups.items() if name in chosen})
        names_told = {*(each.of.incarnation.topic for each in deleted), *unread}
        if names_told:  # the snapshot's offsets on these topics are older, or of a newer topic with the name
            found = replace(found, groups=_filtered(found.groups, lambda topic: topic.topic not in names_told))
        found = found if topic_ids is None else found.of_incarnations(topic_ids)
        # 4. Gone groups to offer by name, and notes for a person.
        offered = [gone[key] for key in sorted(gone) if key[0] not in patterns.literals and patterns.select(key[:1])]
        notes = [f"the groups of {name} are left out: {unread[name]}" for name in unread]
        notes += [
            f"{self._told(gone[key])}: a restore of the commit before that would have set nothing of it there"
            for key in named_ones
            if key not in taken
        ]
        return replace(
            found,
            groups=_joined(found.groups, earlier),
            earlier=tuple(each.of for each in earlier),
            gone=tuple(map(self._told, offered)),
            own_notes=(*found.own_notes, *notes),
            unread=unread,
        )

    def _all_deleted(self, topics: Iterable[TopicIncarnation]) -> tuple[list[EarlierGroups], dict[str, Damaged]]:
        """The groups on deleted topics. Damage of an earlier commit is reported for its topic, and stops no other
        topic."""
        deleted, unread = list[EarlierGroups](), dict[str, Damaged]()
        for topic in topics:
            try:
                found = self._deleted(topic)
            except Damaged as error:
                unread[topic.topic] = error
            else:
                deleted += [] if found is None else [found]
        return deleted, unread

    def _deleted(self, incarnation: TopicIncarnation) -> EarlierGroups | None:
        """The groups on a deleted topic; None for an existing topic, and when the history has some."""
        groups = self.found.groups.values()
        if incarnation in self.alive:
            return None
        if self.found.origin == HISTORY and any(_has(group, incarnation) for group in groups):
            return None
        return self.commits.on_topic(incarnation, self.until)

    def _gone(self) -> Iterator[GoneGroup]:
        """The groups that are gone from existing topics, and missing in the groups found."""
        alive = self.until.alive()
        for each in self.commits.snapshot(self.until).gone if self.until.groups is not None else ():
            group = self.found.groups.get(each.group)
            is_there = group is not None and _has(group, each.incarnation)
            if each.incarnation in alive and each.since <= self.until.seq and not is_there:
                yield each

    def _check_known(self, patterns: GroupPatterns, known: Collection[str], unread: Mapping[str, Damaged]) -> None:
        if missing := patterns.missing(known):
            if unread:  # the missing groups may be in the damaged objects
                raise next(iter(unread.values()))
            backup = self.found.point.backup
            raise NoSuchRestorePoint(
                f"backup {backup} knows no group {', '.join(missing)} at commit {self.found.point.seq}",
                hint=f"{_near(missing, known)}see its groups with: offsite groups show --backup {backup}",
            )

    def _told(self, gone: GoneGroup) -> GoneSince:
        line = self.until.history.find(gone.since)
        since_ms = self.commits.committed_ms(gone.since) if line is None else line.committed_at_ms
        return GoneSince(group=gone.group, topic=gone.topic, commit=gone.since, since_ms=since_ms)


def _has(group: GroupOffsets, incarnation: TopicIncarnation) -> bool:
    return any(
        _is_on(each, {each.topic: incarnation.topic_id}) for each in group.topics if each.topic == incarnation.topic
    )


def _joined(groups: GroupTable, earlier: Iterable[EarlierGroups]) -> GroupTable:
    """`groups` with the offsets of earlier commits; further facts about a group come from the newest."""
    joined = dict(groups)
    for each in earlier:
        for name, group in each.groups.items():
            known = joined.get(name, replace(group, topics=()))
            topics = sorted((*known.topics, *group.topics), key=lambda topic: topic.topic)
            joined[name] = replace(known, topics=tuple(topics))
    return dict(sorted(joined.items()))


def _near(missing: Iterable[str], known: Iterable[str]) -> str:
    """The names that were probably meant."""
    by_lower = {name.lower(): name for name in sorted(known)}
    found = (difflib.get_close_matches(name.lower(), by_lower, n=_NEAR_MAX) for name in missing)
    near = list(dict.fromkeys(by_lower[name] for names in found for name in names))
    return f"did you mean {named(near, most=_NEAR_MAX)}? " if near else ""


def _earlier_notes(earlier: Iterable[EarlierOffsets]) -> Iterator[str]:
    deleted: dict[str, list[str]] = {}
    for each in earlier:
        topic, commit = each.incarnation.topic, f"commit {each.commit} of {format_time(each.committed_at_ms)}"
        if each.gone_since:
            since = f"{each.group} is gone from {topic} since commit {each.gone_since}"
            yield f"{since}: its offsets there are those of {commit}"
        else:
            deleted.setdefault(commit, []).append(topic)
    for commit, topics in deleted.items():
        was, its, it = ("was", "its", "it") if len(topics) == 1 else ("were", "their", "them")
        yield (
            f"{named(topics, most=_NAMED_MAX)} {was} deleted at the source: {its} groups are those of {commit}, the "
            f"newest that had {it}"
        )
