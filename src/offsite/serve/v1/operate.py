"""Backups, checkpoints, checks and drills: started as jobs, every the command of the same name."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import Field

from offsite.backup.options import BackupWords
from offsite.model.bounds import MAX_OFFSET
from offsite.serve.site import ClusterAddress
from offsite.serve.v1.context import PROBLEMS, BackupName, IdempotencyKey, TheCaller, TheSite
from offsite.serve.v1.job_answers import JobBegun, begin, make_job_request
from offsite.serve.v1.words import Body, make_body, sent_words, to_arguments

router = APIRouter(responses=PROBLEMS)

RunBody = make_body("BackupRunBody", BackupWords)


class VerificationBody(Body):
    """`deep`: read every byte again. `against`: compare with the topics of the cluster of that name."""

    deep: bool = False
    against: Annotated[str, Field(max_length=60)] | None = None


class DrillBody(Body):
    """`commit`: the restore point to prove, by default the newest, restored into a sandbox. `records`: place of the
    drill's records, from the coordinator's settings."""

    commit: Annotated[int, Field(ge=0, le=MAX_OFFSET)] | None = None
    records: Annotated[str, Field(max_length=1_000)] | None = None


class TakeBody(Body):
    """`id`: higher than all earlier ids; by default the time in ms, or one more."""

    id: Annotated[int, Field(ge=1, le=MAX_OFFSET)] | None = None


@router.post("/backups/{backup}/runs", status_code=202, response_model=JobBegun)
def run(
    site: TheSite,
    caller: TheCaller,
    backup: BackupName,
    body: RunBody,  # type: ignore[valid-type]
    key: IdempotencyKey = None,
) -> Response:
    """Copy new records and commit them. The first run of a name creates the backup."""
    words: Body = body
    command = ["backup", "run", *to_arguments({"backup": backup, **sent_words(words)})]
    return begin(site, make_job_request(caller, "backup", backup, command), site.cluster_address(), word=key)


@router.post("/backups/{backup}/checkpoints", status_code=202, response_model=JobBegun)
def take(site: TheSite, caller: TheCaller, backup: BackupName, body: TakeBody, key: IdempotencyKey = None) -> Response:
    """Take a checkpoint: by the run that follows the backup, or by a new process."""
    site.backup(backup)
    command = [
        "checkpoint",
        "take",
        *to_arguments({"backup": backup, **sent_words(body), **site.take_arguments()}),
        "--wait",
    ]
    return begin(site, make_job_request(caller, "checkpoint", backup, command), site.cluster_address(), word=key)


@router.post("/backups/{backup}/verifications", status_code=202, response_model=JobBegun)
def verify(
    site: TheSite, caller: TheCaller, backup: BackupName, body: VerificationBody, key: IdempotencyKey = None
) -> Response:
    """Check that all listed objects exist; `deep`: byte by byte; `against`: and equal to a cluster."""
    site.backup(backup)
    place = ClusterAddress() if body.against is None else site.cluster_address(body.against)
    brokers = place.bootstrap
    if body.against is not None and brokers is None:  # a file names the brokers, but the command needs their names
        brokers = ",".join(map(str, site.cluster(body.against).config.bootstrap))
    command = ["verify", *to_arguments({"backup": backup, "deep": body.deep, "against": brokers})]
    return begin(site, make_job_request(caller, "verify", backup, command), place, word=key)


@router.post("/backups/{backup}/drills", status_code=202, response_model=JobBegun)
def drill(
    site: TheSite, caller: TheCaller, backup: BackupName, body: DrillBody, key: IdempotencyKey = None
) -> Response:
    """Prove that a restore point is restorable, in a temporary sandbox."""
    site.backup(backup)
    if body.records is not None:
        site.check_records_place(body.records)
    command = ["restore", "drill", *to_arguments({"backup": backup, **sent_words(body)}), "--sandbox"]
    return begin(site, make_job_request(caller, "drill", backup, command), ClusterAddress(), word=key)
