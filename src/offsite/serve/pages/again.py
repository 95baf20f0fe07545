"""The link from a failed restore back to its form: the same words continue the restore. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from urllib.parse import quote, urlencode

from offsite.jobs.status import JobReport, JobState

FIELDS = ("checkpoint", "commit", "at", "topics", "rename", "groups")
"""The fields of the restore form, by the names of the command's options."""
_CARRIED = ("restore", "run", "--yes")


def form_path(job: JobReport) -> str:
    """Return the path of the form, filled in with the words of `job`; empty if the restore succeeded, or used words
    without a form field."""
    if job.kind != "restore" or not job.state.is_final or job.state is JobState.SUCCEEDED:
        return ""
    words = _words(job.arguments)
    backup = words.pop("backup", "")
    if not backup or not words.keys() <= set(FIELDS):
        return ""
    target = {"target": job.cluster} if job.cluster else {}
    return f"/backups/{quote(backup, safe='')}/restore?{urlencode(words | target)}"


def _words(arguments: tuple[str, ...]) -> dict[str, str]:
    words: defaultdict[str, list[str]] = defaultdict(list)
    for argument in arguments:
        if argument not in _CARRIED:
            name, _, text = argument.removeprefix("--").partition("=")
            words[name].append(text)
    return {name: ",".join(texts) for name, texts in words.items()}


def prefilled_fields(query: Mapping[str, str]) -> dict[str, str]:
    """The fields filled in by a path of `form_path`."""
    return {name: query.get(name, "") for name in (*FIELDS, "target")}
