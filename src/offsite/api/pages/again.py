"""The way from a restore that did not end well back to its form: the same words continue it. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from offsite.services.jobs.status import JobReport, JobState

FIELDS = ("checkpoint", "commit", "at", "topics", "rename", "groups")
"""What the form of a restore asks for, by the names of the command's options."""
_CARRIED = ("restore", "run", "--yes")


def way_back(job: JobReport) -> str:
    """The path of the form with the words of `job` filled in; empty where it ended well, or used words that the form
    does not have."""
    if job.kind != "restore" or not job.state.is_final or job.state is JobState.SUCCEEDED:
        return ""
    words = _words(job.arguments)
    backup = words.pop("backup", "")
    if not backup or not words.keys() <= set(FIELDS):
        return ""
    target = {"target": job.cluster} if job.cluster else {}
    return f"/backups/{quote(backup, safe='')}/restore?{urlencode(words | target)}"


def _words(arguments: tuple[str, ...]) -> dict[str, str]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for each in arguments:
        if each not in _CARRIED:
            name, _, text = each.removeprefix("--").partition("=")
            found[name].append(text)
    return {name: ",".join(texts) for name, texts in found.items()}


def filled(query: Mapping[str, str]) -> dict[str, str]:
    """The fields that a path of `way_back` has filled in."""
    return {name: query.get(name, "") for name in (*FIELDS, "target")}
