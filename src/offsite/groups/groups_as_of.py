"""The committed offsets of groups as of a restore point: from the snapshot of a commit, or from the groups' own
history; on topics deleted by then, from the newest commit with the topic.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from offsite.groups.groups_of_commits import EarlierGroups, GroupCommits, apply_cut_offsets
from offsite.groups.history import has_history, read_history
from offsite.groups.missing_records import EarlierByTopic, EarlierOffsets
from offsite.log.group_offsets import SHARE, GroupOffsets, GroupTable, TopicOffsets
from offsite.log.range import TopicIncarnation
from offsite.model.errors import Damaged, NoSuchRestorePoint
from offsite.model.names import named
from offsite.model.options import CutChoice
from offsite.model.selection import ALL_GROUPS, GroupPatterns
from offsite.model.units import format_time
from offsite.points.point_cut import choose_cut
from offsite.points.restore_point import FixedPoint, PointRequest, fix_point
from offsite.repository.backup import Backup
from offsite.repository.snapshots.group_snapshot import GoneGroup, incarnation_of
from offsite.repository.state import BackupState

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
        return f"{self.group} has no offsets on {self.topic} since commit {self.commit}{at}"


@dataclass(frozen=True, kw_only=True)  # no slots: the table of earlier offsets is made once
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
                topic=earlier_offsets.incarnation.topic,
                group=earlier_offsets.group,
                commit=earlier_offsets.commit,
                committed_at_ms=earlier_offsets.committed_at_ms,
                gone_since=earlier_offsets.gone_since,
            )
            for earlier_offsets in self.earlier
        )

    def earlier_commit(self, group: str, offsets: TopicOffsets) -> int:
        """The earlier commit of the offsets of a group on a topic; 0 for the point's own offsets."""
        earlier = self._earlier.find(group, incarnation_of(offsets))
        return 0 if earlier is None else earlier.commit

    @cached_property
    def _earlier(self) -> EarlierByTopic:
        return EarlierByTopic.of(self.earlier)

    def of_incarnations(self, topic_ids: Mapping[str, str]) -> GroupsAsOf:
        """The same groups without offsets on topics with another known id than in `topic_ids` (name → id): in another
        log the offsets would point at other records."""
        notes = {
            f"offsets on {stray.topic} are left out: at commit {self.point.seq} they belong to another incarnation of "
            f"the topic ({stray.topic_id[:8]}); restore that incarnation to get its groups"
            for group in self.groups.values()
            for stray in group.topics
            if not _is_on(stray, topic_ids)
        }
        return self._only(lambda topic: _is_on(topic, topic_ids), sorted(notes)) if notes else self

    def on_topics(self, topics: Container[str]) -> GroupsAsOf:
        """The same groups with only offsets on `topics`: nobody requested the rest."""
        return self._only(lambda topic: topic.topic in topics)

    def without_topics(self, reasons: Mapping[str, str]) -> GroupsAsOf:
        """The same groups without offsets on the topics in `reasons` (name → why)."""
        read = {topic.topic for group in self.groups.values() for topic in group.topics}
        notes = [reasons[name] for name in sorted(reasons) if name in read]
        return self._only(lambda topic: topic.topic not in reasons, notes) if notes else self

    def _only(self, is_meant: Callable[[TopicOffsets], bool], notes: Iterable[str] = ()) -> GroupsAsOf:
        groups = _filtered(self.groups, is_meant)
        remaining_topics = {topic.topic for group in groups.values() for topic in group.topics}
        earlier = tuple(offsets for offsets in self.earlier if offsets.incarnation.topic in remaining_topics)
        return replace(self, groups=groups, earlier=earlier, own_notes=(*self.own_notes, *notes))


def _is_on(offsets: TopicOffsets, topic_ids: Mapping[str, str]) -> bool:
    topic_id = topic_ids.get(offsets.topic, "")
    return not offsets.topic_id or not topic_id or offsets.topic_id == topic_id


def _filtered(groups: GroupTable, is_meant: Callable[[TopicOffsets], bool]) -> GroupTable:
    filtered = {name: replace(group, topics=tuple(filter(is_meant, group.topics))) for name, group in groups.items()}
    return {name: group for name, group in filtered.items() if group.topics}


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
    backup = backup.for_reading(is_named=request.is_named or fixed is not None, as_of=request.as_of_head)
    head = backup.sound_state()
    fixed = fixed or fix_point(backup, request, head)
    point = head.as_point() if fixed.commit == head.seq else backup.state_at(fixed.commit, head=head)
    commits = GroupCommits(backup=backup, by_cut=fixed.cut in {CutChoice.CONSISTENT, CutChoice.AUTO})
    as_of = _read_as_of(commits, point, fixed, head)
    until = _until(commits, as_of, fixed)
    joining = _Joining(commits=commits, as_of=as_of, until=until, alive=as_of.point.live_incarnations())
    return joining.joined(patterns, topic_ids)


def _read_as_of(commits: GroupCommits, point: BackupState, fixed: FixedPoint, head: BackupState) -> GroupsAsOf:
    """The groups in the snapshot of the point, or in the history."""
    backup, time_ms = commits.backup, fixed.until_ms
    if time_ms is None:
        as_of, cut = _snapshot(commits, point), choose_cut(backup.store, point, fixed.cut or CutChoice.AS_COPIED)
        return as_of if cut.used is None else replace(as_of, groups=apply_cut_offsets(as_of.groups, cut.used.groups))
    if has_history(point):
        history = read_history(backup, point, until_ms=time_ms, head=head)
        notes = tuple(
            (
                f"{topic} was deleted and created again about {format_time(time_ms)}: offsets of groups on this topic "
                "are left out"
            )
            for topic in history.unclear
        )
        positions, left = _positions_before(commits, point, time_ms, head)
        groups = dict(sorted({**positions, **_described(commits, point, history.groups)}.items()))
        return GroupsAsOf(groups=groups, point=point, origin=HISTORY, own_notes=(*notes, *left))
    return _snapshot_before(commits, point, time_ms, head)


def _snapshot(commits: GroupCommits, point: BackupState) -> GroupsAsOf:
    return GroupsAsOf(groups=commits.snapshot(point).groups, point=point, origin=SNAPSHOT)


def _snapshot_before(commits: GroupCommits, point: BackupState, time_ms: int, head: BackupState) -> GroupsAsOf:
    """Prefers an older state to a newer one: groups read some records again, and miss none."""
    commit = point.history.latest_at(time_ms)
    if commit is None:
        note = f"no commit is as old as {format_time(time_ms)}: the groups come from commit {point.seq}"
        return replace(_snapshot(commits, point), own_notes=(note,))
    note = f"the groups come from commit {commit.seq}, the newest before {format_time(time_ms)}"
    return replace(_snapshot(commits, commits.backup.state_at(commit.seq, head=head)), own_notes=(note,))


def _positions_before(
    commits: GroupCommits, point: BackupState, time_ms: int, head: BackupState
) -> tuple[GroupTable, tuple[str, ...]]:
    """The share groups before the time, and a note on them: the history has no positions."""
    commit = point.history.latest_at(time_ms)
    state = point if commit is None else commits.backup.state_at(commit.seq, head=head)
    groups = commits.snapshot(state).groups if state.groups else {}
    share = {name: group for name, group in groups.items() if group.kind == SHARE}
    note = f"positions of share groups are not in the history, and come from commit {state.seq}"
    return share, (note,) if share else ()


def _described(commits: GroupCommits, point: BackupState, groups: GroupTable) -> GroupTable:
    """The history has no group types: taken from the snapshot, for groups in the snapshot. A share group there was made
    later under that name: share groups have no committed offsets."""
    snapshot_groups = commits.snapshot(point).groups if point.groups else {}
    kinds = {name: group.kind for name, group in snapshot_groups.items() if group.kind != SHARE}
    return {name: replace(group, kind=kinds.get(name, "")) for name, group in groups.items()}


def _until(commits: GroupCommits, as_of: GroupsAsOf, fixed: FixedPoint) -> BackupState:
    """The newest commit with usable groups: with the history of groups, the newest commit before the time."""
    if as_of.origin == SNAPSHOT or fixed.until_ms is None:
        return as_of.point
    before = as_of.point.history.latest_at(fixed.until_ms)
    return as_of.point if before is None else commits.state(before.seq)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Joining:
    """Joins the groups `as_of` the point with the groups of earlier commits. `until`: the newest commit that counts;
    `alive`: the topics of the point."""

    commits: GroupCommits
    as_of: GroupsAsOf
    until: BackupState
    alive: frozenset[TopicIncarnation]

    def joined(self, patterns: GroupPatterns, topic_ids: Mapping[str, str] | None) -> GroupsAsOf:
        """The matching groups, on the matching topics."""
        latest = self.as_of.point.latest_shapes().values()
        named_ids = {shape.topic: shape.topic_id for shape in latest} if topic_ids is None else topic_ids
        meant = frozenset(TopicIncarnation(topic=name, topic_id=named_ids[name]) for name in named_ids)
        # 1. Groups on deleted topics, and groups that are gone from existing topics.
        deleted, unread = self._all_deleted(meant)
        all_gone = [*self._gone(), *(gone for earlier_groups in deleted for gone in earlier_groups.gone)]
        names = {*self.as_of.groups, *(name for earlier_groups in deleted for name in earlier_groups.groups)}
        self._check_known(patterns, {*names, *(gone_group.group for gone_group in all_gone)}, unread)
        # 2. Groups that match the patterns; a gone group only when named in full.
        chosen = frozenset(patterns.select(names))
        gone = {(group.group, group.topic): group for group in all_gone if group.incarnation in meant}
        named_gone = {key: self.commits.of_gone(gone[key]) for key in sorted(gone) if key[0] in patterns.literals}
        candidates = [*(earlier_groups.only(chosen) for earlier_groups in deleted), *named_gone.values()]
        earlier = [
            earlier_groups for earlier_groups in candidates if earlier_groups is not None and earlier_groups.groups
        ]
        # 3. The point's own groups, without topics that earlier commits answer for.
        as_of = self._own_groups(chosen, {*(groups.origin.incarnation.topic for groups in deleted), *unread})
        as_of = as_of.of_incarnations(named_ids)  # a snapshot that was kept may be older than the topic
        # 4. Gone groups to offer by name, and notes for a person.
        offered = [gone[key] for key in sorted(gone) if key[0] not in patterns.literals and patterns.select(key[:1])]
        notes = (
            *(f"the groups of {name} are left out: {unread[name]}" for name in unread),
            *(
                f"{self._gone_since(gone[key])}: a restore of the commit before would not have set the group on that "
                "topic either"
                for key, earlier_groups in named_gone.items()
                if earlier_groups is None or not earlier_groups.groups
            ),
        )
        return replace(
            as_of,
            groups=_joined(as_of.groups, earlier),
            earlier=tuple(earlier_groups.origin for earlier_groups in earlier),
            gone=tuple(map(self._gone_since, offered)),
            own_notes=(*as_of.own_notes, *notes),
            unread=unread,
        )

    def _own_groups(self, chosen: Container[str], deleted_topics: Container[str]) -> GroupsAsOf:
        """The point's own groups out of `chosen`. The snapshot's offsets on deleted topics are older than those of an
        earlier commit, or of a newer topic with the name."""
        groups: GroupTable = {name: group for name, group in self.as_of.groups.items() if name in chosen}
        if deleted_topics:
            groups = _filtered(groups, lambda topic: topic.topic not in deleted_topics)
        return replace(self.as_of, groups=groups)

    def _all_deleted(self, topics: Collection[TopicIncarnation]) -> tuple[list[EarlierGroups], dict[str, Damaged]]:
        """The groups on deleted topics out of `topics`, the oldest deletion first. Damage of an earlier commit is
        reported for its topic, and stops no other topic."""
        deleted, unread = list[EarlierGroups](), dict[str, Damaged]()
        shapes = self.as_of.point.topics
        for topic in sorted(shapes.keys() & topics, key=lambda topic: (shapes[topic].deleted_ms, topic)):
            try:
                groups = self._deleted(topic)
            except Damaged as error:
                unread[topic.topic] = error
            else:
                deleted += [] if groups is None else [groups]
        return deleted, unread

    def _deleted(self, incarnation: TopicIncarnation) -> EarlierGroups | None:
        """The groups on a deleted topic; None for an existing topic, and when the history has some."""
        groups = self.as_of.groups.values()
        if incarnation in self.alive:
            return None
        if self.as_of.origin == HISTORY and any(_has(group, incarnation) for group in groups):
            return None
        return self.commits.on_topic(incarnation, self.until)

    def _gone(self) -> Iterator[GoneGroup]:
        """The groups that are gone from existing topics, and missing in the groups found."""
        alive = self.until.live_incarnations()
        for gone_group in self.commits.snapshot(self.until).gone if self.until.groups is not None else ():
            group = self.as_of.groups.get(gone_group.group)
            is_there = group is not None and _has(group, gone_group.incarnation)
            if gone_group.incarnation in alive and gone_group.since <= self.until.seq and not is_there:
                yield gone_group

    def _check_known(
        self, patterns: GroupPatterns, known_names: Collection[str], unread: Mapping[str, Damaged]
    ) -> None:
        if missing := patterns.missing(known_names):
            if unread:  # the missing groups may be in the damaged objects
                raise next(iter(unread.values()))
            backup = self.as_of.point.backup
            raise NoSuchRestorePoint(
                f"backup {backup} has no group {', '.join(missing)} at commit {self.as_of.point.seq}",
                hint=f"{_near(missing, known_names)}see its groups with: offsite groups show --backup {backup}",
            )

    def _gone_since(self, gone: GoneGroup) -> GoneSince:
        line = self.until.history.find(gone.since)
        since_ms = self.commits.committed_ms(gone.since) if line is None else line.committed_at_ms
        return GoneSince(group=gone.group, topic=gone.topic, commit=gone.since, since_ms=since_ms)


def _has(group: GroupOffsets, incarnation: TopicIncarnation) -> bool:
    return any(
        _is_on(offsets, {offsets.topic: incarnation.topic_id})
        for offsets in group.topics
        if offsets.topic == incarnation.topic
    )


def _joined(groups: GroupTable, earlier: Iterable[EarlierGroups]) -> GroupTable:
    """`groups` with the offsets of earlier commits; further facts about a group come from the newest."""
    newest = dict(groups)
    topics = {name: list(group.topics) for name, group in groups.items()}
    for earlier_groups in earlier:
        for name, group in earlier_groups.groups.items():
            newest.setdefault(name, group)
            topics.setdefault(name, []).extend(group.topics)
    return {
        name: replace(newest[name], topics=tuple(sorted(topics[name], key=lambda topic: topic.topic)))
        for name in sorted(newest)
    }


def _near(missing: Iterable[str], known_names: Iterable[str]) -> str:
    """The names that were probably meant."""
    by_lower = {name.lower(): name for name in sorted(known_names)}
    matches = (difflib.get_close_matches(name.lower(), by_lower, n=_NEAR_MAX) for name in missing)
    near = list(dict.fromkeys(by_lower[name] for names in matches for name in names))
    return f"did you mean {named(near, most=_NEAR_MAX)}? " if near else ""


def _earlier_notes(earlier: Iterable[EarlierOffsets]) -> Iterator[str]:
    deleted: dict[str, list[str]] = {}
    for offsets in earlier:
        topic, commit = offsets.incarnation.topic, f"commit {offsets.commit} of {format_time(offsets.committed_at_ms)}"
        if offsets.gone_since:
            since = f"{offsets.group} has no offsets on {topic} since commit {offsets.gone_since}"
            yield f"{since}: its offsets on that topic come from {commit}"
        else:
            deleted.setdefault(commit, []).append(topic)
    for commit, topics in deleted.items():
        was, its, it = ("was", "its", "it") if len(topics) == 1 else ("were", "their", "them")
        yield (
            f"{named(topics, most=_NAMED_MAX)} {was} deleted at the source: {its} groups come from {commit}, the "
            f"newest commit with {it}"
        )
