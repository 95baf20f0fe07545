"""The progress, end and error of a restore, from the records of its job."""

from __future__ import annotations

from collections.abc import Mapping

from offsite.jobs.status import GIVEN_UP, JobReport
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.operator.decide.restore import ObservedJob
from offsite.repository.declared.restore_log import Failure

_LINES_MAX = 50
"""Last lines of a command's output that are searched: only final messages may follow the error document."""


def observe_job(report: JobReport) -> ObservedJob:
    """Reduce a job report to the fields of a restore."""
    result = report.result if isinstance(report.result, Mapping) else {}
    verified = result.get("verified")
    return ObservedJob(
        id=report.id,
        state=report.state,
        is_cancelled=bool(report.cancelled_by),
        is_shut_out=report.exit_code == GIVEN_UP,
        progress=report.progress,
        verified=verified if isinstance(verified, bool) else None,
        failure=parse_failure(report.said),
    )


def parse_failure(said: str) -> Failure | None:
    """Return the final error of a command, from its stderr `said`; None if the output has no error document."""
    for line in reversed(said.splitlines()[-_LINES_MAX:]):
        if line.startswith('{"error"') and (failure := _error(line)) is not None:
            return failure
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
