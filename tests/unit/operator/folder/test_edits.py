from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from offsite.model.errors import BadResource, ResourceImmutable, ResourceNotFound
from offsite.operator.folder.documents import read_declared
from offsite.operator.folder.edits import Change, apply, plan_removal, remove
from tests.unit.operator.folder.home import Home, opened_home, resource, restore

KEY = ("Backup", "shop")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def put(home: Home, *documents: dict[str, object]) -> list[tuple[str, Change]]:
    text = yaml.safe_dump_all(documents)
    return [(each.file, each.change) for each in apply(home.layout, text, source="x.yaml").resources]


def test_a_resource_gets_a_file_of_its_own(home: Home) -> None:
    text = f"# why it is there\n{yaml.safe_dump(resource())}"
    apply(home.layout, text, source="x.yaml")

    assert (home.root / "backup-shop.yaml").read_text() == text


def test_no_resource_is_put_where_the_status_of_another_one_is(home: Home) -> None:
    assert put(home, resource("shop.status")) == [("backup-shop.status.yml", Change.CREATED)]
    assert [each.key for each in read_declared(home.root).documents] == [("Backup", "shop.status")]


def test_what_changes_is_told(home: Home) -> None:
    assert put(home, resource(), resource("other")) == [
        ("backup-shop.yaml", Change.CREATED),
        ("backup-other.yaml", Change.CREATED),
    ]
    assert put(home, resource(state="running")) == [("backup-shop.yaml", Change.UNCHANGED)]
    assert put(home, resource(state="paused")) == [("backup-shop.yaml", Change.CHANGED)]


def test_a_resource_stays_in_the_file_that_declares_it(home: Home) -> None:
    home.put("mine.yaml", resource())

    assert put(home, resource(state="paused")) == [("mine.yaml", Change.CHANGED)]
    assert not (home.root / "backup-shop.yaml").exists()


def test_a_file_of_several_is_left_to_its_author(home: Home) -> None:
    home.put("all.yaml", resource(), resource("other"))

    with pytest.raises(BadResource, match="declares Backup other as well"):
        put(home, resource(state="paused"))
    with pytest.raises(BadResource, match="declares Backup other as well"):
        plan_removal(home.layout, KEY, (), keeps_backups=False)


def test_none_is_put_where_one_is_wrong(home: Home) -> None:
    with pytest.raises(BadResource, match="stat"):
        put(home, resource(), resource("other", stat="x"))
    assert not list(home.root.glob("backup-*.yaml"))


def test_a_resource_cannot_be_declared_twice_at_once(home: Home) -> None:
    with pytest.raises(BadResource, match="twice"):
        put(home, resource(), resource())


def test_a_field_that_may_not_change_is_refused_with_exit_code_14(home: Home) -> None:
    put(home, resource(), restore())
    home.operator().look()

    for changed in (resource(cluster="other"), restore(topics=["orders"])):
        with pytest.raises(ResourceImmutable) as raised:
            put(home, changed)
        assert raised.value.exit_code == 14
        assert raised.value.hint


def test_a_deletion_takes_the_file_away_and_is_asked_for(home: Home) -> None:
    put(home, resource(agents={"replicas": 0}))
    operator = home.operator()
    operator.look()
    remove(home.layout, plan_removal(home.layout, KEY, (), keeps_backups=False), now_ms=5)

    record = home.record(operator, "shop")
    assert (record.deletion_ms, bool(record.finalizers)) == (5, True)
    assert not (home.root / "backup-shop.yaml").exists()


def test_a_deletion_may_keep_the_backups_whatever_is_declared(home: Home) -> None:
    put(home, resource(agents={"replicas": 0}))
    operator = home.operator()
    operator.look()
    plan = plan_removal(home.layout, KEY, (), keeps_backups=True)
    remove(home.layout, plan, now_ms=5)

    assert plan.keeps_backups
    assert home.record(operator, "shop").finalizers == ()


def test_what_there_is_not_cannot_be_deleted(home: Home) -> None:
    with pytest.raises(ResourceNotFound):
        plan_removal(home.layout, KEY, (), keeps_backups=False)
