"""Generations as Avro archives: every generation in a folder of its own, `<place>/<set>.gen-<n>/`, filled by exports.

An archive has no log whose numbers could fence. A stopped process that wakes up may add to the archive of a retired
generation, or leave a file where an archive was removed. Neither is the generation to restore from, and both are
removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from urllib.parse import urlsplit, urlunsplit

from offsite.archives.archive import ArchiveContents, ArchiveReader
from offsite.archives.export.plan import ExportPlan, ExportRequest
from offsite.archives.export.run import ExportJob, ExportResult, export_of_cluster, open_target
from offsite.archives.files import FileInfo, Files
from offsite.archives.formats import WriteOptions, open_reader
from offsite.archives.indexed.layout import MANIFEST_KEY
from offsite.generations.lost_keys import lost_of_archives
from offsite.generations.request import ARCHIVE_TARGET, GenerationsRequest
from offsite.generations.target import GenerationEnds, Guard, RoundResult, Workshop, uncompacted
from offsite.log.range import PartitionId
from offsite.model.errors import ArchiveNotFound
from offsite.model.journal import decided
from offsite.model.selection import TopicSelection
from offsite.points.restore_point import PointRequest
from offsite.repository.generation_sets.entry import Founding
from offsite.repository.generation_sets.ledger import SetLayout
from offsite.repository.removal import Announce, have_settled
from offsite.stores.open_store import open_archive_files


class ArchiveTarget:
    """The port `GenerationTarget` over Avro archives."""

    def __init__(self, request: GenerationsRequest, founding: Founding, workshop: Workshop) -> None:
        self._request, self._founding, self._workshop = request, founding, workshop
        self._selection = TopicSelection(include=founding.include, exclude=founding.exclude, internal=founding.internal)

    def uncompacted(self) -> Sequence[str]:
        return uncompacted(self._workshop.cluster.admin, self._selection)

    def place_taken(self, generation: int) -> str:
        files = open_archive_files(self._place(generation))
        return files.url if any(True for _ in files.list()) else ""

    def copy(self, generation: int, guard: Guard) -> RoundResult:
        """Run an export. Raises the errors of the export and of `guard`."""
        job = self._job(generation)
        with job.alone():
            guard()  # planning repairs the leftovers of a crash
            plan = job.plan()
            guard()
            result = job.run(plan, self._workshop.runner)
        if result.records or result.holes:
            self._workshop.on_export(result)
        return self._copied(generation, plan, result)

    def ends(self, generation: int) -> GenerationEnds:
        contents = self._contents(generation)
        if contents is None:
            return {}
        ids = {topic.topic: topic.topic_id for topic in contents.topics}
        ends: dict[PartitionId, int] = {}
        for piece in contents.pieces:
            key = PartitionId(piece.topic, ids.get(piece.topic, ""), piece.partition)
            ends[key] = max(ends.get(key, 0), piece.end or 0)
        return {key: end for key, end in ends.items() if end}

    def lost(self, old: int, new: int, topics: Collection[tuple[str, str]] | None = None) -> tuple[str, ...]:
        """Compare both archives. Raises the errors of reading both, and of Spark."""
        before, after = self._reader(old), self._reader(new)
        return lost_of_archives(before, after, topics=topics, runner=self._workshop.runner)

    def seal(self, generation: int) -> None:
        """Do nothing: archives cannot be sealed (see the module)."""

    def is_read(self, generation: int) -> bool:  # noqa: ARG002  # who reads an archive leaves no trace
        return False

    def is_pinned(self, generation: int) -> bool:  # noqa: ARG002  # an archive has no restore points
        return False

    def disputed_pin(self, generation: int) -> str:  # noqa: ARG002  # an archive has no restore points
        return ""

    def is_there(self, generation: int) -> bool:
        return open_archive_files(self._place(generation)).get(MANIFEST_KEY) is not None

    def remove(self, generation: int, announce: Announce) -> bool:
        """Remove the archive. The manifest goes first: without it the rest is no archive of ours."""
        files = open_archive_files(self._place(generation))
        _delete(files, tuple(files.list()), announce)
        return True

    def sweep(self, generation: int, announce: Announce, *, removed_ms: int) -> None:
        """Delete files that came back, once nothing was put there for a day: somebody may bring the archive back. Files
        from before the removal are of a copy that keeps times, and stay."""
        files = open_archive_files(self._place(generation))
        objects = tuple(files.list())
        times_ms = (info.modified_ms for info in objects)
        if objects and have_settled(times_ms, removed_ms=removed_ms, now_ms=files.now_ms()):  # now_ms makes the folder
            _delete(files, objects, announce)

    def _job(self, generation: int) -> ExportJob:
        workshop, cluster_id = self._workshop, self._founding.cluster_id
        target = open_target(ARCHIVE_TARGET, self._place(generation), WriteOptions(cluster_id=cluster_id))
        request = ExportRequest(point=PointRequest(selection=self._selection), groups=self._request.backup.groups)
        return export_of_cluster(workshop.cluster, target, request, slots=workshop.runner.slots)

    def _copied(self, generation: int, plan: ExportPlan, result: ExportResult) -> RoundResult:
        return RoundResult(
            at_end=not plan.sick and not result.sick and not result.postponed,
            ends=self.ends(generation),
            topics=frozenset((topic.topic, topic.topic_id) for topic in plan.topics),
            commit=0,
            partitions=max((topic.partitions for topic in plan.topics), default=0),
        )

    def _contents(self, generation: int) -> ArchiveContents | None:
        try:
            return self._reader(generation).contents()
        except ArchiveNotFound:
            return None

    def _reader(self, generation: int) -> ArchiveReader:
        return open_reader(ARCHIVE_TARGET, open_archive_files(self._place(generation)))

    def _place(self, generation: int) -> str:
        return place_of(self._request.place, self._request.name, generation)


def _delete(files: Files, objects: Sequence[FileInfo], announce: Announce) -> None:
    """Delete `objects` of an archive, the manifest first."""
    if not objects:
        return
    announce(sum(info.size_bytes for info in objects))
    for info in sorted(objects, key=lambda info: info.key != MANIFEST_KEY):
        files.delete(info.key)
    decided("remove", why="another generation replaced it", archive=files.url, objects=len(objects))


def place_of(place: str, name: str, generation: int) -> str:
    """The place of a generation's archive, below the common place."""
    folder = SetLayout(name=name).backup_name(generation)
    if "://" not in place:
        return f"{place.rstrip('/')}/{folder}"
    parts = urlsplit(place)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{folder}"))
