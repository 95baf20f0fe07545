"""Files that share what is dear are one unit of work, and run first."""

from __future__ import annotations

from pathlib import Path

from tests.families import (
    FAMILIES,
    LONG_FILES,
    THREE_BROKERS,
    USERS,
    next_unit,
    rank,
    strays,
    unit_of,
    with_second_broker,
)

ROOT = Path(__file__).parents[3]
FAULTS, CLUSTER = (
    "tests/integration/cluster/test_faults.py::test_a",
    "tests/integration/sandbox/test_cluster.py::test_b",
)
READER, PURE = "tests/integration/kafka/test_reader.py::test_c[x::y]", "tests/unit/log/test_batch.py::test_d"


def test_each_member_of_a_family_is_there() -> None:
    files = [str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")]
    members = [member for family in FAMILIES.values() for member in family]
    assert [member for member in members if not any(file.startswith(member) for file in files)] == []
    assert [file for file in LONG_FILES if file not in files] == []


def test_a_family_is_one_unit_and_any_other_file_one_of_its_own() -> None:
    assert unit_of(FAULTS) == unit_of(CLUSTER) == THREE_BROKERS
    assert unit_of(READER) == "tests/integration/kafka/test_reader.py"


def test_families_come_first_and_what_takes_no_broker_last_and_of_that_the_small_files() -> None:
    world, copy = "tests/worlds/operator/test_convergence.py::test_e", "tests/integration/e2e/test_records.py::test_f"
    paired = with_second_broker({READER: ["broker"], copy: ["broker", "second_broker"]})
    long = f"{LONG_FILES[0]}::test_g"
    in_order = sorted(
        [PURE, world, READER, long, copy, CLUSTER, FAULTS], key=lambda nodeid: rank(nodeid, paired=paired)
    )
    assert in_order == [CLUSTER, FAULTS, copy, long, READER, world, PURE]


def test_a_process_is_given_files_of_its_kind_while_there_are_some() -> None:
    units = [THREE_BROKERS, unit_of(READER), unit_of(PURE)]
    assert next_unit(units, with_brokers=True) == THREE_BROKERS
    assert next_unit(units, with_brokers=False) == unit_of(PURE)
    assert next_unit(units[2:], with_brokers=True) == unit_of(PURE)
    assert next_unit(units[:2], with_brokers=False) == THREE_BROKERS


def test_who_uses_what_a_family_shares_belongs_to_it() -> None:
    wanted = {"three_brokers": THREE_BROKERS, "secure_broker": USERS}
    assert list(strays(wanted, {CLUSTER: ["three_brokers"], READER: ["broker"]})) == []
    (stray,) = strays(wanted, {READER: ["broker", "secure_broker"]})
    assert stray.startswith(f"{READER} uses secure_broker")
