"""The request for an instance. Both instances of a set get the same request."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.backup.options import BackupRequest
from offsite.model.errors import BadOption
from offsite.model.selection import TopicSelection
from offsite.repository.generation_sets.entry import Founding, Instance

BACKUP_TARGET, ARCHIVE_TARGET = "backup", "avro"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationsRequest:
    """`backup`: the contents of every generation, under the name of the set; a None selection means the selection of
    the set's first run. `is_first`: begin as the active instance if no generation exists. `length_ms`: how long a
    generation is active. `place`: where Avro archives go, empty for backups."""

    instance: Instance
    is_first: bool
    length_ms: int
    interval_s: float
    backup: BackupRequest
    place: str = ""

    @property
    def name(self) -> str:
        return self.backup.backup

    def founding(self, cluster_id: str, recorded: Founding | None) -> Founding:
        """The founding terms of the set. Raises `BadOption` where no topics are named."""
        selection = self.backup.selection or selection_of(recorded)
        if selection is None:
            raise BadOption(f"generations {self.name} are new: name their topics", hint="add --topics 'customers'")
        return Founding(
            cluster_id=cluster_id,
            include=selection.include,
            exclude=selection.exclude,
            internal=selection.internal,
            target=ARCHIVE_TARGET if self.place else BACKUP_TARGET,
            place=self.place,
        )


def selection_of(founding: Founding | None) -> TopicSelection | None:
    """The topics of a set."""
    if founding is None:
        return None
    return TopicSelection(include=founding.include, exclude=founding.exclude, internal=founding.internal)
