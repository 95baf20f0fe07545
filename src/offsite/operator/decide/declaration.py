"""Checks a resource by itself: errors that its agents, jobs and times would hit are reported where the resource is
declared. Pure.

The same functions read the resource here and at work.
"""

from __future__ import annotations

from offsite.model.errors import BadName, BadOption, BadResource
from offsite.model.selection import parse_groups, parse_selection, split_patterns
from offsite.model.topic_choices import parse_renames
from offsite.model.units import parse_duration_s
from offsite.operator.decide.parameters import check_words, parse_parameters
from offsite.operator.decide.restore import restore_words
from offsite.operator.decide.schedule import resolve_schedule
from offsite.operator.resources.backup import Backup
from offsite.operator.resources.model import Resource
from offsite.operator.resources.restore import Restore
from offsite.operator.resources.schedule import Schedule


def check_declared(resource: Resource) -> None:
    """Raises `BadResource`."""
    match resource:
        case Backup(metadata=metadata) | Restore(metadata=metadata) | Schedule(metadata=metadata):
            try:
                _check(resource)
            except (BadOption, BadName, BadResource) as error:
                said = f"{type(resource).__name__} {metadata.name}: {error.message}"
                raise BadResource(said, hint=error.hint) from error


def _check(resource: Backup | Restore | Schedule) -> None:
    match resource:
        case Backup(spec=spec):
            if not spec.topics:
                raise BadResource("it names no topics", hint="omit topics to back up all topics of the cluster")
            parse_selection(spec.topics, spec.exclude)
            parameters = parse_parameters(spec.parameters)
            check_words(spec, parameters)
            for field, seconds in (
                ("snapshotDuration", parse_duration_s(spec.snapshot_duration)),
                ("parameters.interval", parameters.interval_s),
            ):
                if not seconds:
                    raise BadResource(f"spec.{field} would run without a pause", hint="choose 1s or more")
        case Restore(spec=spec):
            restore_words(spec, "backup", f"restore {resource.metadata.name}")
            parse_selection(spec.topics)
            parse_renames(spec.rename)
            parse_groups(split_patterns(spec.groups))
        case Schedule(spec=spec):
            resolve_schedule(resource)
            parse_selection(spec.topics or ["*"])
