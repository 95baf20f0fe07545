"""What usually goes wrong, looked for where the coordinator runs, with its own settings.

No Spark is started here: it takes seconds and a JVM's memory, and a process holds one only. What needs it is skipped,
and says how to ask. One examination at a time: each reaches out to all brokers, and puts objects into the store.
"""

from __future__ import annotations

import threading

from fastapi import APIRouter, Response

from offsite.api.answers import answer
from offsite.api.site import SOURCE, Place, Site
from offsite.api.v1.context import PROBLEMS, TheSite
from offsite.model.errors import TooManyJobs
from offsite.services.doctor.examine import Examination, examine
from offsite.services.doctor.parts import DoctorRequest, Parts

router = APIRouter(responses=PROBLEMS)
_examining = threading.Lock()


@router.get("/doctor", response_model=Examination)
def doctor(site: TheSite) -> Response:
    """Make all checks that need no Spark, as `offsite doctor --no-spark -o json`. Takes seconds, or a minute where
    something does not answer. A coordinator that only shows puts nothing into the store."""
    if not _examining.acquire(blocking=False):
        raise TooManyJobs("an examination is being made", hint="wait until it has ended, and ask again")
    try:
        request = request_of(site)
        return answer(examine(request, parts=Parts(request, make_cluster=site.cluster)))
    finally:
        _examining.release()


def request_of(site: Site) -> DoctorRequest:
    """What this coordinator can examine."""
    own = site.settings.places.get(SOURCE, Place())
    return DoctorRequest(
        repo=site.settings.repo,
        bootstrap=own.bootstrap,
        kafka_config=own.kafka_config,
        spark=site.settings.spark,
        start_spark=False,
        write=not site.settings.read_only,
        metastore=site.settings.metastore,
    )
