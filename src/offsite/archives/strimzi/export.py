"""Writes the topics and users of a restore point as resources of Strimzi: two files of YAML, for `kubectl apply -f`.

What the resources cannot say stands in the comments of its file, and in the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from offsite.archives.files import Files
from offsite.archives.strimzi.manifest import Manifest, document_text, is_cluster
from offsite.archives.strimzi.topics import kafka_topics
from offsite.archives.strimzi.users import KafkaUsers, kafka_users
from offsite.model.errors import BadOption, DamagedObject, NoSuchTopic
from offsite.model.names import amount
from offsite.model.options import StrimziVersion
from offsite.model.selection import TopicSelection, drill_copies
from offsite.model.untrusted.text import printable
from offsite.points.incarnations import incarnation_notes
from offsite.points.restore_point import PointRequest, find_point
from offsite.repository.backup import Backup
from offsite.repository.heads import check_to_read
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.state import BackupState

TOPICS_FILE, USERS_FILE = "kafkatopics.yaml", "kafkausers.yaml"
_FIRST_LINE = "# Written by offsite export --as strimzi"
"""A file that begins otherwise is somebody else's, and stays."""
_INTERNAL = "__"
_OF_TOPICS = (
    "the Topic Operator gives a topic the settings of its resource and takes all others away: where a restore held a "
    "retention back, restored records would be deleted, so write retention.ms: -1 and retention.bytes: -1 into the "
    "resource before you apply it"
)
_OF_USERS = "the User Operator deletes the ACLs, quotas and SCRAM-SHA-512 logins of users that no resource has"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrimziRequest:
    """`point`: restore point and topics. `cluster`: the resource Kafka whose operators shall own the resources; empty:
    none yet."""

    point: PointRequest
    cluster: str = ""
    version: StrimziVersion = StrimziVersion.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class StrimziResources:
    """The resources of a restore point, named for people in `source`. `unread`: a sentence for each topic whose
    settings the backup does not know. `left_out`: selected topics that get no resource: they belong to a program, as
    those of Kafka do."""

    source: str
    topics: tuple[Manifest, ...]
    unread: tuple[str, ...]
    users: KafkaUsers
    left_out: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrimziResult:
    """What was written. `not_said`: settings, rights, quotas and users of the source that no resource has, in
    sentences."""

    place: str
    source: str
    topics: int
    users: int
    left_out: tuple[str, ...]
    not_said: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        return not self.not_said


def resources_of(backup: Backup, request: StrimziRequest) -> StrimziResources:
    """Raises `NoSuchRestorePoint`, `NoSuchTopic`, `CommitsGone`, and `BadOption` for an impossible cluster, and for a
    part of a commit: topics and users are of whole commits."""
    _check_whole(request.point)
    if request.cluster and not is_cluster(request.cluster):
        raise BadOption(
            f"--cluster {request.cluster!r}: no resource Kafka may have that name", hint="name one that exists"
        )
    backup = backup.for_reading(is_named=request.point.is_named, as_of=request.point.as_of_head)
    check_to_read(backup, accept_rollback=request.point.accept_rollback)
    point = find_point(backup, request.point)
    shapes = point.state.latest_shapes()
    selected, left_out = _selected(point.state.backup, point.state.seq, shapes.keys(), request.point.selection)
    written, users = [shapes[topic] for topic in selected], _users(backup, point.state, request)
    return StrimziResources(
        source=f"backup {point.state.backup} as of commit {point.state.seq}",
        topics=kafka_topics(written, cluster=request.cluster, version=request.version),
        unread=tuple(
            f"settings of topic {shape.topic}: the backup may not read them"
            for shape in written
            if shape.configs_unread
        ),
        users=users,
        left_out=left_out,
        notes=(*incarnation_notes(point.incarnations_of(selected)), *_notes(request, users)),
    )


def write_resources(files: Files, resources: StrimziResources) -> StrimziResult:
    """Write both files, in place of those of an earlier export. Raises `BadOption` for a file of somebody else, and the
    errors of the place."""
    with files.exclusive():
        for name in (TOPICS_FILE, USERS_FILE):
            _check_own(files, name)
        files.put(TOPICS_FILE, _file(resources.source, resources.topics, resources.unread, note=_OF_TOPICS))
        users = resources.users
        files.put(USERS_FILE, _file(resources.source, users.manifests, users.not_said, note=_OF_USERS))
    return StrimziResult(
        place=files.url,
        source=resources.source,
        topics=len(resources.topics),
        users=len(resources.users.manifests),
        left_out=resources.left_out,
        not_said=(*resources.unread, *resources.users.not_said),
        notes=resources.notes,
    )


def _check_whole(point: PointRequest) -> None:
    chosen = {
        "--at": point.at is not None,
        "--offsets-file": bool(point.ends),
        "--before": bool(point.before),
        "--partitions": bool(point.partitions.chosen),
        "--isolation": not point.read_committed,
    }
    if options := [option for option, is_chosen in chosen.items() if is_chosen]:
        raise BadOption(f"{options[0]} is for records, and --as strimzi writes none", hint=f"leave out {options[0]}")


def _selected(
    backup: str, commit: int, topics: Collection[str], selection: TopicSelection
) -> tuple[Sequence[str], tuple[str, ...]]:
    """The topics that get a resource, and those that do not unless a person names them in full: topics of Kafka, of
    Strimzi and of drills belong to the programs that make them. Raises `NoSuchTopic`."""
    see_topics = f"see its topics with: offsite show {backup}"
    if missing := selection.missing(topics):
        raise NoSuchTopic(f"backup {backup} has no topic {', '.join(missing)} at commit {commit}", hint=see_topics)
    if topics and not selection.select(topics):
        raise NoSuchTopic(f"no topic of backup {backup} is selected", hint=see_topics)
    of_programs = frozenset(topic for topic in topics if topic.startswith(_INTERNAL)) | drill_copies(topics)
    selected = selection.select(topics, hidden=of_programs)
    return selected, tuple(topic for topic in selection.select(topics) if topic not in selected)


def _users(backup: Backup, state: BackupState, request: StrimziRequest) -> KafkaUsers:
    """The users, or why there are none: they are no reason to keep the topics back."""
    if state.metadata is None:
        return KafkaUsers(manifests=(), not_said=(f"users: commit {state.seq} has no settings of the cluster",))
    try:
        settings = get_cluster_snapshot(backup.store, state.metadata)
    except DamagedObject as error:
        return KafkaUsers(manifests=(), not_said=(f"users: {error.message}",))
    return kafka_users(settings, cluster=request.cluster, version=request.version)


def _notes(request: StrimziRequest, users: KafkaUsers) -> Iterator[str]:
    yield _OF_TOPICS
    if users.not_said:
        yield _OF_USERS
    if not request.cluster:
        yield "no operator of Strimzi owns a resource without a label for its cluster: name the cluster with --cluster"


def _check_own(files: Files, name: str) -> None:
    existing = files.get(name)
    if existing is not None and not existing.startswith(_FIRST_LINE.encode()):
        raise BadOption(
            f"offsite did not write the existing {name} in {files.url}, and does not replace it",
            hint="choose another folder",
        )


def _file(source: str, manifests: Sequence[Manifest], not_said: Sequence[str], *, note: str) -> bytes:
    lines = [f"{_FIRST_LINE}: {amount(len(manifests), 'resource')} of {source}.", f"# Note: {note}."]
    if not_said:
        lines += ["# Not in these resources:", *(f"# - {sentence}" for sentence in not_said)]
    return ("\n".join(map(printable, lines)) + "\n" + "".join(map(document_text, manifests))).encode()
