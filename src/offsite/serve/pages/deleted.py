"""The page of what was deleted: of a backup, by whom and by which rule; and at its source."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from offsite.serve.pages.page import page
from offsite.serve.v1.requests import BackupName, TheSite
from offsite.upkeep.retention.deleted import deleted_lately

router = APIRouter(include_in_schema=False)
_LOST_SHOWN = 50


@router.get("/backups/{backup}/deleted")
def deleted(request: Request, site: TheSite, backup: BackupName) -> Response:
    deletions = deleted_lately(site.cached_backup(backup))
    compared = None if site.watch is None else site.watch.comparison(backup)
    lost = [topic for topic in compared.topics if topic.state.is_loss] if compared else []
    return page(
        request,
        "deleted.html",
        backup=backup,
        deletions=deletions,
        compared=compared,
        lost=lost[:_LOST_SHOWN],
        total=len(lost),
    )
