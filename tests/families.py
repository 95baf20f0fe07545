"""Which test files run one after the other in one test process, since they share what is dear to have.

A cluster of three is four JVMs, and an idle broker takes 2 to 3 % of a core: a run with a cluster in each of its test
processes has a quarter less for its tests. So the files that share a broker of a rare kind, and those that each end the
shared Spark to start one of their own, are a family: they run first, in one process, and what they shared ends with
them. All other files with brokers come next, and what takes no broker is last: small files, that fill up all processes
to the end. Of these the unit tests come after the worlds, whose files take up to half a minute each. Of the files with
brokers those come first that take a second one, which ends as soon as the next file of its process takes none.

Tests with brokers wait a third of their time. So one process begins with the files without brokers: it computes while
the others wait, and needs no broker and no Spark of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

THREE_BROKERS, USERS, OTHER_SPARKS = "a cluster of three", "a broker with users", "Sparks of other kinds"

FAMILIES: Mapping[str, Sequence[str]] = {
    THREE_BROKERS: (
        "tests/integration/cluster/",
        "tests/integration/stream_processor/test_stream_processor_soak.py",
        "tests/integration/sandbox/test_cluster.py",
    ),
    USERS: (
        "tests/integration/e2e/test_cut_rights_of_groups.py",
        "tests/integration/e2e/test_bad_input.py",
        "tests/integration/e2e/test_ends.py",
        "tests/integration/e2e/test_logs.py",
        "tests/integration/e2e/test_metadata.py",
        "tests/integration/e2e/test_secrets.py",
        "tests/integration/kafka/test_cluster_settings.py",
        "tests/integration/kafka/test_cut_rights.py",
        "tests/integration/kafka/test_doctor_rights.py",
        "tests/integration/kafka/test_metastore_rights.py",
        "tests/integration/kafka/test_security.py",
        "tests/integration/operator/test_agent_logins.py",
        "tests/integration/operator/test_strimzi_soak.py",
        "tests/integration/pipeline/test_preserve_rights.py",
        "tests/integration/sandbox/test_broker.py",
    ),
    OTHER_SPARKS: (
        "tests/integration/archives/test_other_readers.py",
        "tests/integration/pipeline/test_cluster_",
        "tests/integration/pipeline/test_session",
        "tests/integration/pipeline/test_strangers.py",
        "tests/integration/pipeline/test_table.py",
        "tests/integration/e2e/test_library.py",
        "tests/integration/e2e/test_limits.py",
    ),
}
"""Files, and folders or beginnings of names of files, by what they share."""

COMPUTING = 1
"""Processes that begin with files without brokers."""
WITH_BROKERS = "tests/integration/"
SECOND_BROKER = "second_broker"
LONG_FILES = (
    "tests/integration/docs/test_docs_run.py",
    "tests/integration/operator/test_declared_backup.py",
    "tests/integration/browser/test_slow_store.py",
    "tests/integration/pipeline/test_preserve_resume.py",
    "tests/integration/pipeline/test_restore_fence.py",
    "tests/integration/schedules/test_schedules.py",
    "tests/integration/stream_processor/test_stream_processor.py",
)
"""Files of half a minute to two: before the others of their kind, or all would wait for the last of them."""
SMALL_FILES = ("tests/unit/", "tests/contract/")


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def family_of(nodeid: str) -> str | None:
    file = file_of(nodeid)
    return next((name for name, members in FAMILIES.items() if file.startswith(tuple(members))), None)


def unit_of(nodeid: str) -> str:
    """What is given to one process as a whole."""
    return family_of(nodeid) or file_of(nodeid)


def uses_brokers(nodeid: str) -> bool:
    return nodeid.startswith(WITH_BROKERS)


def next_unit(units: Iterable[str], *, with_brokers: bool) -> str:
    """The first of `units` with brokers, or without; the first of all where none of the wanted kind is left."""
    in_order = list(units)
    return next((unit for unit in in_order if (unit in FAMILIES or uses_brokers(unit)) == with_brokers), in_order[0])


def with_second_broker(fixtures: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """Files of tests (node id → names of its fixtures) that take it."""
    return frozenset(file_of(nodeid) for nodeid, names in fixtures.items() if SECOND_BROKER in names)


def rank(nodeid: str, *, paired: Collection[str]) -> tuple[int, bool, bool]:
    """Lower runs earlier; files of the same rank stay in their order. `paired`: files that take a second broker."""
    family = family_of(nodeid)
    without_broker = (not uses_brokers(nodeid)) + nodeid.startswith(SMALL_FILES)
    kind = list(FAMILIES).index(family) if family else len(FAMILIES) + without_broker
    return kind, file_of(nodeid) not in paired, file_of(nodeid) not in LONG_FILES


def strays(wanted: Mapping[str, str], fixtures: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Tests (node id → names of its fixtures) outside of the family that a fixture belongs to (fixture → family)."""
    for nodeid, names in fixtures.items():
        for name in names:
            if name in wanted and family_of(nodeid) != wanted[name]:
                yield f"{nodeid} uses {name}: its file belongs to the family of {wanted[name]} (tests/families.py)"
