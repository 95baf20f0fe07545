"""The page of proofs: the newest drills of a backup, each with the restore point that it restored."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import APIRouter, Request, Response

from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.repository.backup import Backup
from offsite.repository.snapshots.check_records import DrillRecord, drill_keys, drill_record, get_drill_document
from offsite.serve.pages.page import page
from offsite.serve.v1.requests import BackupName, TheSite
from offsite.upkeep.verification.last_checks import CheckMemory

router = APIRouter(include_in_schema=False)
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A drill, by its report at `key`. `proven` None: nothing was compared. `topics`: how many were restored. `is_own`:
    made on this machine; other reports are claims. `problem`: why the report cannot be read; then the other fields have
    no meaning."""

    key: str
    ended: str = ""
    proven: bool | None = None
    commit: int = 0
    committed: str = ""
    records: int = 0
    topics: int = 0
    place: str = ""
    by: str = ""
    why: str = ""
    is_own: bool = False
    problem: str = ""


@router.get("/backups/{backup}/proofs")
def proofs(request: Request, site: TheSite, backup: BackupName) -> Response:
    opened = site.cached_backup(backup)
    keys = drill_keys(opened.record_store, opened.layout)
    memory = CheckMemory(backup=opened)
    own = [memory.drill(), memory.proof()]
    return page(
        request,
        "proofs.html",
        backup=backup,
        proofs=[_proof(opened, key, own) for key in keys[:_SHOWN]],
        more=max(0, len(keys) - _SHOWN),
        place=opened.record_store.url,
    )


def _proof(backup: Backup, key: str, own: list[DrillRecord | None]) -> Proof:
    """`own`: what this machine remembers: its last drill, and its last that proved something."""
    try:
        report = get_drill_document(backup.record_store, key)
        record = drill_record(report, key)
        return Proof(
            key=key,
            ended=report.text("ended"),
            proven=record.proven,
            commit=report.count("commit"),
            committed=report.text("committed"),
            records=report.count("records"),
            topics=len(report.children("topics")),
            place=report.text("place"),
            by=record.by,
            why=report.text("problem"),
            is_own=record in own,
        )
    except (DamagedObject, FormatTooNew) as error:
        return Proof(key=key, problem=error.message)
