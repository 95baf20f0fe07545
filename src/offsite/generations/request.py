"""The request for an instance, made of options or of the original tool's properties. Both instances of a set get the
same request.

Read from a properties file: `name`, `topics`, `compacted.log.backup.length.days` (or `.hours`, as its connector reads)
and `compacted.log.backup.initial.status`. An explicit option wins. Other properties are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from offsite.backup.options import BackupRequest, BackupWords, parse_backup
from offsite.model.errors import BadOption
from offsite.model.selection import TopicSelection, split_patterns
from offsite.model.units import parse_duration_s
from offsite.model.untrusted.text import NotUtf8, decode_text, parse_properties
from offsite.repository.generation_sets.entry import Founding, Instance
from offsite.repository.generation_sets.ledger import SetLayout

BACKUP_TARGET, ARCHIVE_TARGET = "backup", "avro"
LENGTH = "7d"
LENGTH_DAYS, LENGTH_HOURS = "compacted.log.backup.length.days", "compacted.log.backup.length.hours"
INITIAL_STATUS = "compacted.log.backup.initial.status"
_STATUSES = {"ACTIVATE": True, "PASSIVATE": False}
_SUFFIXES = {"-activate": Instance.A, "-passivate": Instance.B}


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


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationInput:
    """The given options and properties: None for absent ones. `first`: whether to begin as the active instance."""

    name: str | None = None
    instance: Instance | None = None
    length: str | None = None
    first: bool | None = None
    topics: str | None = None
    interval: str = "10s"
    place: str = ""


def parse_generations(options: GenerationInput, words: BackupWords, properties: Path | None) -> GenerationsRequest:
    """Build the request from the options. Raises `BadOption`, `BadName`."""
    of_file = GenerationInput() if properties is None else read_properties(properties)
    name, instance = options.name or of_file.name, options.instance or of_file.instance
    if name is None or instance is None:
        lacking = "--name" if name is None else "--instance"
        raise BadOption(
            f"{lacking} is missing", hint="give the name of the set and one of its two instances: --instance a"
        )
    first = next((choice for choice in (options.first, of_file.first) if choice is not None), instance is Instance.A)
    length_s = parse_duration_s(options.length or of_file.length or LENGTH)
    interval_s = parse_duration_s(options.interval)
    if length_s <= 0 or interval_s <= 0:
        raise BadOption("a length or an interval of 0 would run without a pause", hint="choose 1s or more")
    if of_file.topics is not None and not words.get("topics"):
        words = {**words, "topics": split_patterns(of_file.topics)}
    return GenerationsRequest(
        instance=instance,
        is_first=first,
        length_ms=round(length_s * 1000),
        interval_s=interval_s,
        backup=parse_backup(SetLayout(name=name).name, words),
        place=options.place,
    )


def read_properties(path: Path) -> GenerationInput:
    """Read the properties of a connector of the tool. Raises `BadOption`."""
    try:
        properties = {line.name: line.value.strip() for line in parse_properties(decode_text(path.read_bytes()))}
    except (OSError, NotUtf8) as error:
        raise BadOption(f"cannot read {path}: {error}", hint="check --properties") from error
    name, instance = properties.get("name"), None
    for suffix, suffix_instance in _SUFFIXES.items():
        if name is not None and name.endswith(suffix):
            name, instance = name.removesuffix(suffix), suffix_instance
    return GenerationInput(
        name=name,
        instance=instance,
        length=_length(properties),
        first=_status(properties.get(INITIAL_STATUS)),
        topics=properties.get("topics"),
    )


def _length(properties: dict[str, str]) -> str | None:
    days, hours = properties.get(LENGTH_DAYS), properties.get(LENGTH_HOURS)
    if days is not None and hours is not None:
        raise BadOption(f"{LENGTH_DAYS} and {LENGTH_HOURS} are both given", hint="omit one of them")
    return f"{days}d" if days is not None else None if hours is None else f"{hours}h"


def _status(text: str | None) -> bool | None:
    if text is not None and text not in _STATUSES:
        raise BadOption(f"{INITIAL_STATUS}={text[:100]} is not known", hint="write ACTIVATE or PASSIVATE")
    return None if text is None else _STATUSES[text]
