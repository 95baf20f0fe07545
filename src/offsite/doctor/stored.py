"""Checks of stored things: permissions and promises of the store, by temporary objects under names of their own; and
the folder of a metastore's backup files."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from offsite.doctor.check import NAMED_MAX, CheckResult, NotMeasurable, failed, map_within, ok, warning
from offsite.doctor.parts import Parts
from offsite.metastore.folder import exposure_warning
from offsite.metastore.status import metastore_status
from offsite.model.errors import Damaged, OffsiteError, OverwritingStore, StoreDenied, StoreUnavailable, check
from offsite.model.journal import decided
from offsite.model.names import amount
from offsite.model.units import MIB, format_size
from offsite.repository.layout import DOCTOR_PREFIX, PROBES_PREFIX, ROOT_KEY
from offsite.repository.repository import Repository
from offsite.stores.store import PutResult

PROBE_LEFTOVER_AFTER_MS = 3_600_000
"""An older object of a doctor was left by a killed doctor: no doctor takes an hour."""
LARGE_BYTES = 8 * MIB
RACERS = 4
RACE_S = 20.0
_PART_BYTES = MIB


def repository(parts: Parts) -> CheckResult:
    """Whether there is a repository readable by this offsite. Raises `RepositoryNotFound`, `FormatTooNew`."""
    opened = Repository.open(parts.store)
    return ok(f"repository {opened.descriptor.repository_id} at {parts.store.url}")


def rights(parts: Parts) -> CheckResult:
    """Whether objects may be put, read, listed and deleted."""
    check_place(parts)
    key, content = parts.probe_key(), os.urandom(64)
    try:
        if parts.store.put_if_absent(key, content) is not PutResult.CREATED:
            return failed(
                "a new object existed before its first put", cure="use another store: this store does not work"
            )
        wrong = tuple(_unlike(parts, key, content))
        if wrong:
            return failed("; ".join(wrong), cure="use a store that shows new objects immediately")
        _sweep(parts)
        return _deleted(parts, key)
    finally:
        parts.remove_probes()


def create_only(parts: Parts) -> CheckResult:
    """Whether exactly one of several puts of one name wins, and stays. Raises `OverwritingStore`."""
    check_place(parts)
    key = parts.probe_key()
    try:
        contents = [os.urandom(64) for _ in range(RACERS)]
        ends = _race(parts, key, contents)
        errors = [error for error in ends.values() if isinstance(error, OffsiteError)]
        if len(ends) < RACERS or errors:
            raise errors[0] if errors else NotMeasurable(f"not all puts ended within {RACE_S:.0f} s")
        won = [content for content, end in ends.items() if end is PutResult.CREATED]
        late = parts.store.put_if_absent(key, os.urandom(64))
        if len(won) != 1 or late is not PutResult.OTHER or parts.store.get(key) != won[0]:
            raise OverwritingStore(
                f"{parts.store.url} does not support create-only puts: of {RACERS} at the same time, {len(won)} "
                "succeeded",
                hint="use a store that supports If-None-Match: *, or a folder: two writers would overwrite each other",
            )
    finally:
        parts.remove_probes()
    return ok(f"of {RACERS} puts of one name at the same time, one succeeded; a later put did not change the object")


def large(parts: Parts) -> CheckResult:
    """Whether a large object arrives whole, and how fast."""
    check_place(parts)
    key, part = parts.probe_key(), os.urandom(_PART_BYTES)
    began_s = parts.clock.monotonic_s()
    try:
        writer = parts.store.open_write(key)
        try:
            for _ in range(LARGE_BYTES // _PART_BYTES):
                writer.write(part)
            writer.close()
        finally:
            writer.abort()
        took_s = parts.clock.monotonic_s() - began_s
        whole = parts.store.get(key)
    finally:
        parts.remove_probes()
    if whole != part * (LARGE_BYTES // _PART_BYTES):
        return failed(
            "a large object differs from the written bytes", cure="do not use this store: it lost or changed bytes"
        )
    return ok(f"{format_size(LARGE_BYTES)} written in {took_s:.1f} s and read back whole")


def check_place(parts: Parts) -> None:
    """Raises `NotMeasurable` for a folder that is no repository yet: only `init` writes into such a folder."""
    if parts.store.folder is None:
        return
    with suppress(Damaged):
        if parts.store.head(ROOT_KEY) is not None:
            return
    raise NotMeasurable(
        f"{parts.store.url} is not a repository: nothing is written there",
        cure=f"create it with: offsite init {parts.store.url}",
    )


def _unlike(parts: Parts, key: str, content: bytes) -> Iterable[str]:
    """The differences between the stored and the written object."""
    store = parts.store
    if store.get(key) != content or store.get_range(key, 8, 8) != content[8:16]:
        yield "the object that is read back differs from the written object"
    if (info := store.head(key)) is None or info.size_bytes != len(content):
        yield "the store reports a wrong object size"
    if not any(listed.key == key for listed in store.list(PROBES_PREFIX)):
        yield "the written object is not listed"


def _deleted(parts: Parts, key: str) -> CheckResult:
    try:
        parts.store.delete(key)
    except StoreDenied as error:
        cure = f"allow deletes, or run collect and retention on another machine; {key} remains"
        return warning(f"{error.id}: {error.message}", cure=cure)
    if parts.store.get(key) is not None:
        return failed("the deleted object still exists", cure="use a store that shows deletions immediately")
    return ok("objects can be put, read, listed and deleted")


def _race(parts: Parts, key: str, contents: list[bytes]) -> dict[bytes, PutResult | OffsiteError]:
    together = threading.Barrier(len(contents))

    def put(content: bytes) -> PutResult | OffsiteError:
        with suppress(threading.BrokenBarrierError):
            together.wait(RACE_S)
        try:
            return parts.store.put_if_absent(key, content)
        except OffsiteError as error:
            return error

    return dict(map_within(put, contents, limit_s=RACE_S, clock=parts.clock))


def _sweep(parts: Parts) -> None:
    """Remove objects of killed doctors. Their age is measured only by the store's clock: against the object just
    put."""
    probes = [probe for probe in parts.store.list(PROBES_PREFIX) if probe.key.startswith(DOCTOR_PREFIX)]
    now_ms = max((probe.modified_ms for probe in probes), default=0)
    for probe in probes:
        if probe.modified_ms < now_ms - PROBE_LEFTOVER_AFTER_MS:
            with suppress(StoreDenied, StoreUnavailable):
                parts.store.delete(probe.key)
                decided("sweep", key=probe.key, why="an interrupted offsite doctor left it")


def metastore_files(parts: Parts) -> CheckResult:
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
    unsure = f"but {amount(unchecked, 'command is', 'commands are')} in no sidecar, so they cannot be verified"
    sure = unsure if unchecked else "every byte as it was written"
    return ok(f"{amount(len(report.backups), 'backup')} in {folder}, {sure}")
