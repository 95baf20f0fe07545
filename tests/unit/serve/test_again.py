from __future__ import annotations

from dataclasses import replace

import pytest

from offsite.jobs.status import JobReport, JobState
from offsite.serve.pages.jobs import form_path

RESTORE = ("restore", "run", "--backup=ni&ghtly", "--commit=7", "--topics=a", "--topics=b*", "--rename=a=c", "--yes")


def job(state: JobState, *arguments: str, kind: str = "restore") -> JobReport:
    return JobReport(id="j", kind=kind, state=state, backup="", arguments=arguments, asked_at_ms=0, asked_by="me")


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED, JobState.LOST, JobState.PARTIAL])
def test_a_restore_that_did_not_end_well_leads_back_to_its_words(state: JobState) -> None:
    assert form_path(job(state, *RESTORE)) == "/backups/ni%26ghtly/restore?commit=7&topics=a%2Cb%2A&rename=a%3Dc"


def test_the_way_leads_to_the_same_cluster() -> None:
    found = form_path(replace(job(JobState.FAILED, "restore", "run", "--backup=nightly", "--yes"), cluster="dr"))
    assert found == "/backups/nightly/restore?target=dr"


@pytest.mark.parametrize(
    "ended",
    [
        job(JobState.SUCCEEDED, *RESTORE),
        job(JobState.RUNNING, *RESTORE),
        job(JobState.CANCELLED, *RESTORE, "--isolation=read_uncommitted"),
        job(JobState.FAILED, "verify", "--backup=nightly", kind="verify"),
    ],
)
def test_nothing_else_does(ended: JobReport) -> None:
    assert form_path(ended) == ""
