"""What the records of a job tell of a restore: how far it is, how it ended, and why."""

from __future__ import annotations

from collections.abc import Mapping

from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.operator.decide.restore import JobSeen
from offsite.repository.declared.restore_log import Failure
from offsite.services.jobs.status import GIVEN_UP, JobReport

_LINES_MAX = 50
"""Of what a command said, the last ones: the document of its error is the last line, but for what ends with it."""


def job_seen(report: JobReport) -> JobSeen:
    """As far as it is about a restore."""
    result = report.result if isinstance(report.result, Mapping) else {}
    verified = result.get("verified")
    return JobSeen(
        id=report.id,
        state=report.state,
        is_cancelled=bool(report.cancelled_by),
        is_shut_out=report.exit_code == GIVEN_UP,
        progress=report.progress,
        verified=verified if isinstance(verified, bool) else None,
        failure=failure_of(report.said),
    )


def failure_of(said: str) -> Failure | None:
    """The error that a command ended with, of what it said on stderr. None where it told none."""
    for line in reversed(said.splitlines()[-_LINES_MAX:]):
        if line.startswith('{"error"') and (found := _error(line)) is not None:
            return found
    return None


def _error(line: str) -> Failure | None:
    try:
        document = parse_json(line.encode())
    except BadJson:
        return None
    error = document.get("error") if isinstance(document, Mapping) else None
    if not isinstance(error, Mapping):
        return None
    return Failure(id=str(error.get("id", "")), message=str(error.get("message", "")), hint=str(error.get("hint", "")))
