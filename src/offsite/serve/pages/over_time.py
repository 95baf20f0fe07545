"""The page of a backup over time: its plots."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from offsite.overview.history_plots import history_plots
from offsite.serve.pages.page import page
from offsite.serve.v1.requests import BackupName, TheSite

router = APIRouter(include_in_schema=False)


@router.get("/backups/{backup}/over-time")
def over_time(request: Request, site: TheSite, backup: BackupName) -> Response:
    source = None if site.watch is None else site.watch.comparison(backup)
    history = site.histories.read(site.cached_backup(backup), source=source)
    return page(request, "over_time.html", backup=backup, plots=history_plots(history))
