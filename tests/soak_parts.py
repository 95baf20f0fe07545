"""The parts of the long tests: `make soak PART=name` runs one, and each ends within half an hour on two idle cores.

A long test belongs to the part that names the longest beginning of its node id. Every run of pytest refuses a long test
that belongs to no part. `python -m tests.soak_parts` lists the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

_FAULTS = "tests/integration/cluster/test_faults.py"
_FUZZ = "tests/fuzz/test_fuzz.py::test_thousands_of_mutants_do"
_FLIPS = "tests/golden/test_flipped_bits.py"
_E2E = "tests/integration/e2e"
_PIPELINE = "tests/integration/pipeline"
_OPERATOR_WORLDS = "tests/worlds/operator"
_EXPIRY = f"{_OPERATOR_WORLDS}/test_expiry_courses.py"
_FILES = f"{_OPERATOR_WORLDS}/test_file_courses.py"
_LOGINS = f"{_E2E}/test_logins_that_end.py::test_a_run_that_follows_outlives_its_logins"
_KILLED = "tests/integration/repository/test_killed_generations.py"
_VERSIONS = "tests/integration/versions"
_HISTORIES = "tests/worlds/source_events/test_histories.py"

PARTS: Mapping[str, Sequence[str]] = {
    "applications": (
        f"{_E2E}/test_cut_restores.py",
        f"{_E2E}/test_zeebe_checkpoints.py",
        "tests/integration/cluster/test_stamped_restores.py",
    ),
    "streams": (f"{_E2E}/test_streams_restores.py", "tests/integration/stream_processor/"),
    "strimzi": ("tests/integration/operator/test_strimzi_soak.py",),
    "cluster": ("tests/integration/cluster/", "tests/integration/sandbox/"),
    "cluster-killed": (f"{_FAULTS}::test_a_round_trip_under_a_fault[broker killed",),
    "cluster-frozen": (f"{_FAULTS}::test_a_round_trip_under_a_fault[broker frozen",),
    "cluster-leaders": (f"{_FAULTS}::test_a_round_trip_under_a_fault[leaders moving",),
    "cluster-coordinators": (f"{_FAULTS}::test_a_round_trip_under_a_fault[coordinators moving",),
    "cluster-exports": (f"{_FAULTS}::test_an_export_under_a_fault",),
    "commands": (f"{_E2E}/", "tests/integration/kafka/", "tests/integration/backup/"),
    "crashes": (
        f"{_E2E}/test_crash.py",
        f"{_E2E}/test_two_restores.py",
        "tests/integration/archives/test_killed_exports.py",
    ),
    "documents": ("tests/integration/docs/", "tests/integration/browser/", "tests/integration/api/"),
    "fences": (f"{_PIPELINE}/test_restore_fence.py", f"{_PIPELINE}/test_preserve_resume.py"),
    "flips": (_FLIPS,),
    "flips-catalog": (f"{_FLIPS}::test_no_flipped_bit_of_all_goes_unseen[backups/nightly/catalog",),
    "follow": ("tests/integration/cluster/test_follow_soak.py", "tests/integration/cluster/test_metastore_follow.py"),
    "follow-kills": (f"{_E2E}/test_follow.py", f"{_E2E}/test_follow_memory.py"),
    "follow-outages": (f"{_E2E}/test_follow_outage.py", f"{_E2E}/test_outage.py"),
    "fuzz": ("tests/fuzz/",),
    "fuzz-repositories": (f"{_FUZZ}[golden", f"{_FUZZ}[repository", f"{_FUZZ}[commits", f"{_FUZZ}[restore-records"),
    "kills": ("tests/integration/repository/",),
    "kills-archive": (f"{_KILLED}::test_one_generation_is_complete_and_one_active_wherever_they_are_killed[avro",),
    "kubernetes": ("tests/integration/operator/test_kopf_soak.py", "tests/integration/operator/test_shared_soak.py"),
    "kubernetes-definitions": ("tests/integration/operator/",),
    "kubernetes-spark": (f"{_E2E}/test_kubernetes_spark_soak.py",),
    "logins": (f"{_LOGINS}[oauth", "tests/integration/api/test_logins.py"),
    "logins-elsewhere": (f"{_E2E}/test_login_files.py", f"{_E2E}/test_wrong_secrets.py"),
    "logins-iam": (f"{_LOGINS}[iam",),
    "logins-kerberos": (f"{_LOGINS}[kerberos",),
    "metastore": ("tests/integration/metastore/",),
    "notices": ("tests/unit/notify/", "tests/unit/cli/test_telling.py"),
    "registries": (
        "tests/integration/schemas/",
        f"{_E2E}/test_restored_ids.py",
        "tests/unit/restore/test_restored_schema_ids.py",
    ),
    "retention": (f"{_PIPELINE}/test_retention_soak.py",),
    "schedules-backups": ("tests/integration/schedules/test_schedules.py::test_many_backups",),
    "schedules-restores": ("tests/integration/schedules/test_schedules.py::test_many_restores",),
    "simulation": ("tests/simulation/test_simulation.py",),
    "simulation-sources": ("tests/simulation/test_source_world.py",),
    "spark": (f"{_PIPELINE}/", "tests/integration/archives/test_other_readers.py"),
    "spark-cluster": (
        f"{_PIPELINE}/test_cluster_ends.py",
        f"{_PIPELINE}/test_cluster_follow.py",
        f"{_PIPELINE}/test_cluster_loss.py",
        f"{_PIPELINE}/test_cluster_silence.py",
    ),
    "spark-cluster-kills": (f"{_PIPELINE}/test_cluster_soak.py",),
    "versions": (f"{_VERSIONS}/",),
    "versions-groups": (f"{_VERSIONS}/test_reading_groups.py",),
    "versions-share-groups": (f"{_VERSIONS}/test_share_groups.py",),
    "versions-streams-groups": (f"{_VERSIONS}/test_streams_groups.py",),
    "worlds": ("tests/worlds/",),
    "worlds-operator": (f"{_OPERATOR_WORLDS}/",),
    "worlds-crashes": (f"{_OPERATOR_WORLDS}/test_crashes.py",),
    "worlds-restores": (f"{_OPERATOR_WORLDS}/test_restores.py",),
    "worlds-expiry-1": (f"{_EXPIRY}::test_nothing_that_somebody_needs_is_deleted_in_many_courses[0",),
    "worlds-expiry-2": (f"{_EXPIRY}::test_nothing_that_somebody_needs_is_deleted_in_many_courses[1",),
    "worlds-expiry-3": (f"{_EXPIRY}::test_nothing_that_somebody_needs_is_deleted_in_many_courses[2",),
    "worlds-expiry-mistakes": (f"{_EXPIRY}::test_each_mistake_is_caught",),
    "worlds-generations": ("tests/worlds/generations/",),
    "worlds-files-1": (f"{_FILES}::test_only_what_was_so_for_a_while_counts_in_many_courses[0",),
    "worlds-files-2": (f"{_FILES}::test_only_what_was_so_for_a_while_counts_in_many_courses[1",),
    "worlds-retention-1": (f"{_HISTORIES}::test_what_is_kept_is_whole_over_many_histories[0",),
    "worlds-retention-2": (f"{_HISTORIES}::test_what_is_kept_is_whole_over_many_histories[1",),
    "worlds-shared": (f"{_OPERATOR_WORLDS}/test_shared_courses.py", f"{_OPERATOR_WORLDS}/test_schedules.py"),
    "yarn": (f"{_E2E}/test_yarn_soak.py",),
}
"""Beginnings of node ids: folders, files, functions, parameters."""


def part_of(nodeid: str) -> str | None:
    """The part that names the longest beginning of `nodeid`. Two parts never name the same beginning."""
    matches = [(len(start), name) for name, starts in PARTS.items() for start in starts if nodeid.startswith(start)]
    return max(matches)[1] if matches else None


def strays(nodeids: Iterable[str]) -> Iterator[str]:
    """Long tests that belong to no part."""
    return (nodeid for nodeid in nodeids if part_of(nodeid) is None)


if __name__ == "__main__":
    for part in PARTS:
        print(part)  # noqa: T201  # the list is what was asked for
