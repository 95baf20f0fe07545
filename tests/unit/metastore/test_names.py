from __future__ import annotations

import pytest

from offsite.metastore.folder import BackupName, NameForm, backups_of, parse_name, service_of_topic, topic_of_service

TOPIC = "_confluent-ksql-default__command_topic"


def test_names_are_those_of_the_proposal_and_of_ksqldb() -> None:
    klip = BackupName(topic=TOPIC, made_ms=1593540976123, form=NameForm.KLIP)
    assert str(klip) == f"{TOPIC}_1593540976.bak"
    ksqldb = BackupName(topic=TOPIC, made_ms=1593540976123, form=NameForm.KSQLDB)
    assert str(ksqldb) == f"backup_{TOPIC}_1593540976123"
    assert parse_name(str(ksqldb)) == ksqldb
    assert [str(each.next()) for each in (klip, ksqldb)] == [
        f"{TOPIC}_1593540977.bak",
        f"backup_{TOPIC}_1593540976124",
    ]


@pytest.mark.parametrize(
    "other",
    [
        "backup_x_12.dirty",
        "backup_x_12.tmp",
        "x_12.bak.meta.jsonl",
        "backup_x_1a",
        "x.bak",
        "_12.bak",
        ".x.lock",
        "x_012.bak",
        "backup_x_01",
        "a b_1.bak",
        "x_999999999999999.bak",
        "backup_x_4102444800000",
        "\udcff_1.bak",
    ],
)
def test_what_ksqldb_works_with_and_sidecars_are_no_backups(other: str) -> None:
    assert parse_name(other) is None


def test_the_newest_counts_whichever_form_it_has() -> None:
    names = ["a_20.bak", "backup_a_19999", "backup_a_20001", "a_3.bak", "b_99.bak", "a_1_99.bak"]
    assert [str(each) for each in backups_of("a", names)] == ["a_3.bak", "backup_a_19999", "a_20.bak", "backup_a_20001"]


def test_a_service_is_found_whatever_its_case_but_not_in_place_of_another() -> None:
    upper, lower = topic_of_service("PROD"), topic_of_service("prod")
    assert [each.topic for each in backups_of(lower, [f"{upper}_1.bak"])] == [upper]
    assert [each.topic for each in backups_of(upper, [f"{lower}_1.bak", f"{upper}_2.bak"])] == [upper]
    assert backups_of(topic_of_service("Prod"), [f"{lower}_1.bak", f"{upper}_2.bak"]) == []


def test_a_service_id_and_its_topic() -> None:
    assert topic_of_service("default_") == TOPIC
    assert service_of_topic(TOPIC) == "default_"
    assert service_of_topic("orders") == ""
