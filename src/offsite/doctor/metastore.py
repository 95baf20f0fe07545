"""The folder of a metastore's backup files: usable, private, with whole files."""

from __future__ import annotations

import os
from pathlib import Path

from offsite.doctor.check import NAMED_MAX, CheckResult, failed, ok, warning
from offsite.doctor.parts import Parts
from offsite.metastore.folder import exposure_warning
from offsite.metastore.status import metastore_status
from offsite.model.errors import check


def files(parts: Parts) -> CheckResult:
    """Whether backups can be written into the folder, and the existing ones are sound."""
    check(parts.request.metastore is not None, "the metastore is checked only if you give a folder")
    folder = Path(parts.request.metastore or "")
    if not folder.is_dir():
        return failed(
            f"{folder} is not a folder", cure="offsite metastore backup creates the folder; or give the right folder"
        )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return failed(
            f"{folder} may not be read and written", cure="make the user that runs offsite the owner of the folder"
        )
    report = metastore_status(folder)
    bad = [backup for backup in report.backups if not backup.safe]
    if bad:
        said = "; ".join(f"{backup.file.name}: {backup.problems[0]}" for backup in bad[:NAMED_MAX])
        return failed(said, cure=f"see all problems with: offsite metastore verify {bad[0].file}")
    if open_to_others := exposure_warning(folder):
        return warning(open_to_others, cure=f"chmod go= {folder}")
    if not report.backups:
        return warning(f"there is no backup in {folder}", cure="offsite metastore backup --follow, on each node")
    unchecked = sum(backup.unchecked for backup in report.backups)
    unsure = f"but {unchecked} commands are in no sidecar, so they cannot be verified"
    return ok(f"{len(report.backups)} backups in {folder}, {unsure if unchecked else 'every byte as it was written'}")
