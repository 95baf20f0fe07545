from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from offsite.model.errors import BadResource, ResourceConflict, ResourceImmutable, ResourceNotFound
from offsite.operator.folder import edits
from offsite.operator.folder.declarations import read_declared
from offsite.operator.folder.edits import ChangeKind, apply, plan_removal, remove
from tests.unit.operator.folder.home import Home, opened_home, resource, restore

KEY = ("Backup", "shop")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


def put(home: Home, *documents: dict[str, object]) -> list[tuple[str, ChangeKind]]:
    text = yaml.safe_dump_all(documents)
    return [(each.file, each.change) for each in apply(home.layout, text, source="x.yaml").resources]


def test_a_resource_gets_a_file_of_its_own(home: Home) -> None:
    text = f"# why it is there\n{yaml.safe_dump(resource())}"
    apply(home.layout, text, source="x.yaml")

    assert (home.root / "backup-shop.yaml").read_text() == text


def test_no_resource_is_put_where_the_status_of_another_one_is(home: Home) -> None:
    assert put(home, resource("shop.status")) == [("backup-shop.status.yml", ChangeKind.CREATED)]
    assert [each.key for each in read_declared(home.root).documents] == [("Backup", "shop.status")]


def test_what_changes_is_told(home: Home) -> None:
    assert put(home, resource(), resource("other")) == [
        ("backup-shop.yaml", ChangeKind.CREATED),
        ("backup-other.yaml", ChangeKind.CREATED),
    ]
    assert put(home, resource(state="running")) == [("backup-shop.yaml", ChangeKind.UNCHANGED)]
    assert put(home, resource(state="paused")) == [("backup-shop.yaml", ChangeKind.CHANGED)]


def test_a_resource_stays_in_the_file_that_declares_it(home: Home) -> None:
    home.put("mine.yaml", resource())

    assert put(home, resource(state="paused")) == [("mine.yaml", ChangeKind.CHANGED)]
    assert not (home.root / "backup-shop.yaml").exists()


def test_a_minimum_that_is_larger_than_the_maximum_is_refused(home: Home) -> None:
    with pytest.raises(BadResource, match=r"minimumRestorable \(1h\) is longer than maximumRetention \(5s\)"):
        put(home, resource(expiry={"maximumRetention": "5s", "minimumRestorable": "1h"}))
    assert not list(home.root.glob("backup-*"))
    assert put(home, resource(expiry={"maximumRetention": "24h", "minimumRestorable": "1d"}))


def test_a_file_of_several_is_left_to_its_author(home: Home) -> None:
    home.put("all.yaml", resource(), resource("other"))

    with pytest.raises(BadResource, match="also declares Backup other"):
        put(home, resource(state="paused"))
    with pytest.raises(BadResource, match="also declares Backup other"):
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

    for changed in (resource(cluster="other"), restore(topics=["orders"]), restore(writeLimit="1MB")):
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


def spoiled(home: Home, name: str, *documents: dict[str, object]) -> str:
    """A file that was looked at, and has a slip since; its text."""
    path = home.put(name, *documents)
    home.operator().look()
    path.write_text(f" slip: [\n{path.read_text()}")
    return path.read_text()


@pytest.mark.parametrize("name", ["backup-shop.yaml", "all.yaml"])
def test_nothing_is_put_while_the_file_of_a_resource_cannot_be_read(home: Home, name: str) -> None:
    text = spoiled(home, name, resource(), resource("other"))

    with pytest.raises(BadResource, match=f"the resources in {name} are unknown") as raised:
        put(home, resource(state="paused"))
    assert f"fix {name}" in raised.value.hint
    assert (home.root / name).read_text() == text
    assert len(list(home.root.glob("*.yaml"))) - len(list(home.root.glob("*.status.yaml"))) == 2  # and the accounts


def test_a_file_that_cannot_be_read_is_not_written_over_by_a_resource_that_is_new(home: Home) -> None:
    (home.root / "backup-shop.yaml").write_text("slip: [")

    with pytest.raises(BadResource, match="the resources in"):
        put(home, resource())
    assert (home.root / "backup-shop.yaml").read_text() == "slip: ["


def test_a_file_that_somebody_makes_meanwhile_is_not_written_over(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = edits._planned  # the moment in between

    def and_made(*given: object) -> edits.AppliedResource:
        found = planned(*given)  # type: ignore[arg-type]
        (home.root / found.file).write_text("somebody's")
        return found

    monkeypatch.setattr(edits, "_planned", and_made)
    with pytest.raises(ResourceConflict):
        put(home, resource())
    assert (home.root / "backup-shop.yaml").read_text() == "somebody's"


def test_nothing_is_deleted_while_the_file_that_declares_it_cannot_be_read(home: Home) -> None:
    spoiled(home, "mine.yaml", resource(agents={"replicas": 0}))

    with pytest.raises(BadResource, match=r"the resources in mine\.yaml are unknown"):
        plan_removal(home.layout, KEY, (), keeps_backups=False)


def test_nothing_is_deleted_while_a_renamed_file_cannot_be_read(home: Home) -> None:
    spoiled(home, "mine.yaml", resource(agents={"replicas": 0}))
    (home.root / "mine.yaml").rename(home.root / "yours.yaml")

    with pytest.raises(BadResource, match=r"the resources in yours\.yaml are unknown"):
        plan_removal(home.layout, KEY, (), keeps_backups=False)


def test_a_file_that_declares_others_since_a_deletion_was_planned_stays(home: Home) -> None:
    put(home, resource())
    plan = plan_removal(home.layout, KEY, (), keeps_backups=False)
    home.put("backup-shop.yaml", resource(), resource("other"))

    with pytest.raises(BadResource, match="also declares Backup other"):
        remove(home.layout, plan, now_ms=5)
    assert (home.root / "backup-shop.yaml").exists()


def test_a_link_stays_one_and_what_it_leads_to_is_changed(home: Home) -> None:
    (home.root / "of").mkdir()
    home.put("of/shop", resource())
    (home.root / "mine.yaml").symlink_to("of/shop")

    assert put(home, resource(state="paused")) == [("mine.yaml", ChangeKind.CHANGED)]
    assert (home.root / "mine.yaml").is_symlink()
    assert yaml.safe_load((home.root / "of" / "shop").read_text())["spec"] == {"state": "paused"}


def test_a_link_out_of_the_folder_is_left_to_its_author(home: Home) -> None:
    outside = home.put("../shop", resource())
    (home.root / "mine.yaml").symlink_to(outside)

    with pytest.raises(BadResource, match="outside the folder") as raised:
        put(home, resource(state="paused"))
    assert raised.value.hint
    assert (home.root / "mine.yaml").is_symlink()
    assert yaml.safe_load(outside.read_text())["spec"] == {}


def schedule(**spec: object) -> dict[str, object]:
    return resource("nightly", "Schedule", **{"backup": "shop", "action": "drill", "cron": "0 3 * * *", **spec})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (schedule(cron="60 * * * *"), "Schedule nightly: cron '60 [*] [*] [*] [*]' cannot be read: Bad minute"),
        (schedule(cron="@every 1h"), "has not five fields"),
        (schedule(cron="0 3 30 2 *"), "never runs"),
        (schedule(timeZone="Europe/Zürich"), "not a known time zone"),
        (schedule(timeZone="+02:00"), "not a known time zone"),
        (schedule(startingDeadline="99999999999999999d"), "Schedule nightly"),
        (schedule(topics=["regex:("]), "not a regular expression"),
        (schedule(topics=["a,b"]), "topic names have no commas"),
        (schedule(topics=[]), "names no topics"),
        (resource(topics=["a b"]), "Backup shop: .*'a b' is not a Kafka topic name"),
        (resource(topics=["regex:^rx-{1,3}$", "orders,payments"]), "'orders,payments' has a comma"),
        (resource(exclude=["regex:("]), "not a regular expression"),
        (resource(topics=[]), "Backup shop: it names no topics"),
        (resource(snapshotDuration="0s"), "without a pause"),
        (resource(parameters={"interval": "0s"}), "without a pause"),
        (resource(parameters={"intervall": "1s"}), "no such parameter"),
        (resource(parameters={"groups": "regex:("}), "regular expression|cannot be read"),
        (restore(topics=["regex:("]), "Restore back: .*not a regular expression"),
        (restore(rename=["a=b,c=d"]), "not a Kafka topic name|not a rename"),
        (restore(rename=["a*=b"]), "same number"),
        (restore(groups="regex:("), "cannot be read"),
        (restore(timestamp="2h-ago", sourceCluster="shop"), "is a relative time"),
        (restore(writeLimit="1kB"), r"Restore back: .*spec\.writeLimit: '1kB' is below the minimum, 10kB a second"),
        (restore(repartition=["12"], batchBytes="15kB"), r"spec\.batchBytes: '15kB' is not between 16kB and 1MB"),
    ],
)
def test_what_agents_and_jobs_would_refuse_is_refused_where_it_is_put(
    home: Home, document: dict[str, object], said: str
) -> None:
    with pytest.raises(BadResource, match=said) as caught:
        put(home, document)

    assert caught.value.hint
    assert not list(home.root.glob("*-*.yaml"))


def test_what_they_take_is_put(home: Home) -> None:
    patterns = ["regex:^rx-[0-9]{1,3}$", "orders-*"]
    documents = [
        resource(topics=patterns, exclude=["regex:^(a,|b)$"], parameters={"groups": "regex:^g{1,3}$,b"}),
        schedule(topics=patterns, timeZone="Europe/Zurich"),
        restore(topics=patterns, rename=[r"regex:^(rx-[0-9]{1,3})$=\1-back"], groups="regex:^g{1,3}$,b"),
    ]

    assert [change for _, change in put(home, *documents)] == [ChangeKind.CREATED] * 3
