"""Checks for common problems, from the host and with the settings of the coordinator.

No Spark starts here: a Spark takes seconds and the memory of a JVM, and a process holds only one. Checks with Spark are
skipped, with a hint. One examination runs at a time: an examination contacts all brokers, and writes objects into the
store.
"""

from __future__ import annotations

import threading

from fastapi import APIRouter, Response

from offsite.doctor.examine import Examination, examine
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.model.errors import TooManyJobs
from offsite.serve.answers import answer
from offsite.serve.site import SOURCE, ClusterAddress, Site
from offsite.serve.v1.context import PROBLEMS, TheSite

router = APIRouter(responses=PROBLEMS)
_examining = threading.Lock()


@router.get("/doctor", response_model=Examination)
def doctor(site: TheSite) -> Response:
    """Run all checks that do not need Spark, like `offsite doctor --no-spark -o json`. Takes seconds, or a
    minute if a server does not answer. A read-only coordinator writes nothing into the store."""
    if not _examining.acquire(blocking=False):
        raise TooManyJobs("a check is already running", hint="wait until it has ended, and send the request again")
    try:
        request = make_request(site)
        return answer(examine(request, parts=Parts(request, make_cluster=site.cluster)))
    finally:
        _examining.release()


def make_request(site: Site) -> DoctorRequest:
    """The examination that this coordinator can make."""
    source = site.settings.addresses.get(SOURCE, ClusterAddress())
    return DoctorRequest(
        repo=site.settings.repo,
        bootstrap=source.bootstrap,
        kafka_config=source.kafka_config,
        spark=site.settings.spark,
        start_spark=False,
        write=not site.settings.read_only,
        metastore=site.settings.metastore,
    )
