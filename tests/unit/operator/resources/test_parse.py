"""Declared resources: every default, and an error for whatever is not meant."""

from __future__ import annotations

from typing import Any

import pytest

from offsite.model.errors import BadResource
from offsite.operator.resources.backup import Backup, DesiredBackupState
from offsite.operator.resources.jobs import Restore, Schedule
from offsite.operator.resources.parse import parse_resource


def document(kind: str = "Backup", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "offsite.dev/v1alpha1", "kind": kind, "metadata": {"name": "shop"}, "spec": spec}


def test_a_backup_needs_a_name_and_nothing_else() -> None:
    found = parse_resource({**document(), "spec": {}}, source="a.yaml")
    assert isinstance(found, Backup)
    spec = found.spec
    assert (spec.state, spec.cluster, spec.tag, spec.topics) == (DesiredBackupState.RUNNING, "", "default", ("*",))
    assert (spec.destination.account, spec.destination.endpoint, spec.destination.path) == ("", "", "")
    assert spec.destination.timestamp_format == "-2006-01-02T15:04:05Z-07:00"
    assert (spec.snapshot_duration, spec.agents.replicas) == ("7d", 3)
    assert (spec.expiry.maximum_retention, spec.expiry.minimum_restorable) == ("", "")
    assert spec.expiry.deletion_finalizer
    bare = {name: value for name, value in document().items() if name != "spec"}
    assert parse_resource(bare, source="a.yaml") == found


def test_what_kubernetes_keeps_and_what_the_operator_told_is_passed_over() -> None:
    given = document()
    given["metadata"] |= {"uid": "u", "generation": 3, "managedFields": [], "resourceVersion": "9"}
    found = parse_resource({**given, "status": {"anything": 1}}, source="a.yaml")
    assert (found.metadata.uid, found.metadata.generation) == ("u", 3)


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        (document(snapshotduration="7d"), "spec.snapshotduration: there is no such field", "snapshotDuration"),
        (document(destination={"acount": "x"}), "spec.destination.acount: there is no such field", "account"),
        (document(expiry={"maxRetention": "7d"}), "spec.expiry.maxRetention", "maximumRetention"),
        (document(state="runing"), "spec.state", ""),
        (document(snapshotDuration="7 days"), "spec.snapshotDuration", ""),
        (document(destination={"path": "../x"}), "spec.destination.path", ""),
        (document(agents={"replicas": -1}), "spec.agents.replicas", ""),
        (document(topics=[]) | {"spcc": {}}, "spcc: there is no such field", "spec"),
        (document("Bakup"), "'Bakup' is not a kind", "Backup"),
        (document() | {"apiVersion": "offsite.dev/v1"}, "apiVersion", "offsite.dev/v1alpha1"),
        (document() | {"metadata": {}}, "metadata.name: it is required", ""),
        (document() | {"metadata": {"name": "A/../b"}}, "metadata.name", ""),
        ([], "it contains no resource", "apiVersion"),
        (document("Restore", cluster="a"), "spec.backupUrl: it is required", ""),
        (document("Restore", backupUrl="s3://b/p", cluster="a"), "spec.backupUrl", ""),
        (
            document("Restore", backupUrl="s3://b/p#x", cluster="a", timestamp="2026-01-01T00:00:00Z"),
            "timestamp needs sourceCluster",
            "",
        ),
        (
            document("Restore", backupUrl="s3://b/p#x", cluster="a", batchBytes="64kB"),
            "batchBytes needs repartition",
            "",
        ),
        (document("Restore", backupUrl="s3://b/p#x", cluster="a", writeLimt="1MB"), "spec.writeLimt", "writeLimit"),
        (document("Restore", backupUrl="s3://b/p#x", cluster="a", writeLimit="fast"), "spec.writeLimit: ", ""),
        (document("Schedule", backup="a", action="drill"), "spec.cron: it is required", ""),
    ],
)
def test_what_is_not_meant_is_told_with_its_place(given: object, said: str, hint: str) -> None:
    with pytest.raises(BadResource) as error:
        parse_resource(given, source="shop.yaml")
    assert error.value.message.startswith("shop.yaml: ")
    assert said in error.value.message
    assert hint in error.value.hint


def test_a_restore_and_a_schedule_have_their_defaults() -> None:
    restore = parse_resource(document("Restore", backupUrl="s3://b/p#x", cluster="a"), source="a")
    assert isinstance(restore, Restore)
    assert (restore.spec.commit, restore.spec.timestamp, restore.spec.topics) == (0, "", ("*",))
    assert restore.spec.state == "running"
    assert (restore.spec.write_limit, restore.spec.batch_bytes, restore.spec.repartition) == ("", "", ())
    schedule = parse_resource(document("Schedule", backup="a", action="drill", cron="0 3 * * *"), source="a")
    assert isinstance(schedule, Schedule)
    assert (schedule.spec.time_zone, schedule.spec.suspend) == ("UTC", False)
