"""`offsite export --as strimzi`: write the topics and users of a restore point as resources of Strimzi."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from offsite.cli.output import EXIT_PARTIAL, Line, OutputFormat, emit, remark_lines
from offsite.model.errors import BadOption
from offsite.model.names import amount
from offsite.model.options import StrimziVersion

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from offsite.archives.strimzi.export import StrimziResult
    from offsite.points.restore_point import PointRequest
    from offsite.repository.backup import Backup

_WITH_RESOURCES = frozenset({"path", "repo", "backup", "words", "bootstrap", "kafka_config"})
"""Options that resources are written with, and options that the environment may give."""
_OPTIONS = {"source": "from"}
"""Options whose field has another name."""


class ResourcesOption(StrEnum):
    STRIMZI = "strimzi"


As = Annotated[
    ResourcesOption | None,
    typer.Option(
        "--as",
        help="strimzi: write no records, but the topics and users of the restore point, as the resources KafkaTopic "
        "and KafkaUser in YAML.",
    ),
]
OwningCluster = Annotated[
    str, typer.Option("--cluster", help="strimzi: name of the resource Kafka whose operators are to own the resources.")
]
ApiVersion = Annotated[
    StrimziVersion,
    typer.Option("--api-version", help="strimzi: version of the resources; Strimzi before 0.49 knows only v1beta2."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions:
    """What to write instead of records, as typed."""

    resources: As = None
    cluster: OwningCluster = ""
    api_version: ApiVersion = StrimziVersion.DEFAULT

    def are_asked_for(self) -> bool:
        """Whether resources are written. Raises `BadOption` for their options without `--as`."""
        if self.resources is None and self != ResourceOptions():
            raise BadOption("--cluster and --api-version work only with --as strimzi")
        return self.resources is not None


def check_for_resources(options: DataclassInstance, defaults: DataclassInstance, **others: bool) -> None:
    """Refuse options for records: `options`, with their `defaults`, and the `others` that were given. Raises
    `BadOption`."""
    names = [option.name for option in fields(options) if option.name not in _WITH_RESOURCES]
    given = [name for name in names if getattr(options, name) != getattr(defaults, name)]
    if wrong := [*given, *(name for name, is_given in others.items() if is_given)]:
        option = f"--{_OPTIONS.get(wrong[0], wrong[0]).replace('_', '-')}"
        raise BadOption(f"{option} is for records, and --as strimzi writes none", hint=f"leave out {option}")


def export_resources(
    place: str, backup: Backup, point: PointRequest, options: ResourceOptions, output: OutputFormat
) -> None:
    """Exit code 3 if something of the users is left out."""
    from offsite.archives.strimzi.export import StrimziRequest, resources_of, write_resources
    from offsite.stores.open_store import open_archive_files

    request = StrimziRequest(point=point, cluster=options.cluster, version=options.api_version)
    result = write_resources(open_archive_files(place), resources_of(backup, request))
    emit(result, output=output, render=_render)
    if not result.complete:
        raise typer.Exit(EXIT_PARTIAL)


def _render(result: StrimziResult) -> Iterator[Line]:
    yield f"resources for Strimzi of {result.source} in {result.place}"
    yield f"  {amount(result.topics, 'KafkaTopic')}, {amount(result.users, 'KafkaUser')}"
    yield from (f"  not in the resources: {sentence}" for sentence in result.not_said)
    yield from (f"  without a resource: {topic}, which belongs to a program" for topic in result.left_out)
    yield from remark_lines(result.notes)
    yield f"next, after a restore: {how_to_apply(result.place)}"


def how_to_apply(place: str) -> str:
    """What a person does with the files. `kubectl` reads no object store."""
    if "://" in place:
        return f"copy the two files out of {place} into a folder, and kubectl apply -f each"
    return f"kubectl apply -f {shlex.quote(place)}"
