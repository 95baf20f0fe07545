"""Files that share what is dear are one unit of work, and run first."""

from __future__ import annotations

from pathlib import Path

from tests.families import FAMILIES, THREE_BROKERS, USERS, rank, strays, unit_of

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


def test_a_family_is_one_unit_and_any_other_file_one_of_its_own() -> None:
    assert unit_of(FAULTS) == unit_of(CLUSTER) == THREE_BROKERS
    assert unit_of(READER) == "tests/integration/kafka/test_reader.py"


def test_families_come_first_and_what_takes_no_broker_last_and_of_that_the_small_files() -> None:
    world = "tests/worlds/operator/test_convergence.py::test_e"
    assert sorted([PURE, world, READER, CLUSTER, FAULTS], key=rank) == [CLUSTER, FAULTS, READER, world, PURE]


def test_who_uses_what_a_family_shares_belongs_to_it() -> None:
    wanted = {"three_brokers": THREE_BROKERS, "secure_broker": USERS}
    assert list(strays(wanted, {CLUSTER: ["three_brokers"], READER: ["broker"]})) == []
    (stray,) = strays(wanted, {READER: ["broker", "secure_broker"]})
    assert stray.startswith(f"{READER} uses secure_broker")
