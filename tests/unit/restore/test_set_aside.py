"""What a person is told of settings that are set aside, and whose settings count as a topic's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.kafka.cluster import Cluster
from offsite.kafka.config import BrokerAddress, KafkaConfig
from offsite.model.errors import OffsiteError, WriterFenced
from offsite.model.options import CutChoice
from offsite.repository.json_form import encode_canonical
from offsite.repository.layout import BackupLayout
from offsite.repository.lease import ProcessIdentity
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, find_record, put_record
from offsite.repository.restores.topic_settings import SetAsideSettings, TargetTopicSettings, get_aside, put_aside
from offsite.restore import set_aside
from offsite.restore.lease import hold_restore_lease
from offsite.restore.set_aside import put_back_command, with_originals
from offsite.restore.unfinished_aside import UnfinishedRestore, describe_aside
from offsite.restore.write.plan import TargetTopic
from offsite.stores.open_store import open_store
from tests.backups import new_backup

KAFKA = KafkaConfig(bootstrap=(BrokerAddress(host="one", port=9092), BrokerAddress(host="two", port=9093)))
ASIDE = SetAsideSettings(
    topic="orders",
    meanwhile=(("cleanup.policy", "delete"), ("retention.ms", "-1")),
    originals=(("cleanup.policy", "compact,delete"), ("retention.ms", None)),
)
RECORD = RestoreRecord(
    restore="r",
    commit=1,
    cluster_id="c",
    request=(("selection", "orders"),),
    isolation="read_committed",
    offsets="auto",
    created_at_ms=1,
    topics=(("orders", "orders"),),
    created=(),
    incarnations=(("orders", "id"),),
)
EXISTING = TargetTopicSettings(topic="orders", create=False, partitions=1, replication_factor=-1)


def target(**configs: str) -> TargetTopic:
    return TargetTopic(
        topic="orders",
        partitions=1,
        records=0,
        max_batch_bytes=1,
        oldest_taken_ms=0,
        newest_taken_ms=1,
        oldest_kept_ms=0,
        keeps_times=True,
        compacts=False,
        configs=tuple((name.replace("_", "."), value) for name, value in configs.items()),
    )


def test_the_command_sets_what_was_set_and_drops_what_was_the_default() -> None:
    assert put_back_command(ASIDE, KAFKA) == (
        "kafka-configs.sh --bootstrap-server one:9092,two:9093 --alter --topic orders "
        "--add-config cleanup.policy=[compact,delete] --delete-config retention.ms"
    )
    assert (
        describe_aside(ASIDE)
        == "cleanup.policy=delete instead of compact,delete, retention.ms=-1 instead of the default"
    )


def test_what_is_set_aside_is_remembered_until_all_is_put_back(tmp_path: Path) -> None:
    store, layout = open_store(str(tmp_path)), RestoreLayout(backup=BackupLayout(backup="b"), restore="r")
    assert get_aside(store, layout) is None
    put_aside(store, layout, (ASIDE,))
    assert get_aside(store, layout) == (ASIDE,)
    put_aside(store, layout, ())
    assert get_aside(store, layout) == ()
    put_aside(store, layout, (ASIDE,))
    assert get_aside(store, layout) == (ASIDE,)


def test_a_record_of_an_older_version_names_no_incarnation_and_no_cut(tmp_path: Path) -> None:
    store, layout = open_store(str(tmp_path)), RestoreLayout(backup=BackupLayout(backup="b"), restore="r")
    put_record(store, layout, RECORD)
    assert find_record(store, layout) == RECORD
    stored = store.get(layout.record_key) or b""
    store.delete(layout.record_key)
    newer = {"digest", "incarnations", "cut"}
    older = {name: each for name, each in json.loads(stored).items() if name not in newer}
    store.put_if_absent(layout.record_key, encode_canonical(older))
    found = find_record(store, layout)
    assert found is not None
    assert found.incarnations == ()
    assert found.cut is CutChoice.AS_COPIED


def test_settings_that_another_restore_left_behind_are_not_the_topic_s_own() -> None:
    other = UnfinishedRestore(record=RECORD, existing=(ASIDE,), created=())
    (left,) = with_originals([EXISTING], [target(cleanup_policy="delete", retention_ms="-1")], [other])
    assert dict(left.meanwhile) == {"cleanup.policy": "delete", "retention.ms": "-1"}
    assert dict(left.at_end) == {"cleanup.policy": "compact,delete", "retention.ms": None}
    (changed,) = with_originals([EXISTING], [target(cleanup_policy="delete", retention_ms="5")], [other])
    assert dict(changed.at_end) == {"cleanup.policy": "compact,delete"}
    assert with_originals([EXISTING], [], [other]) == (EXISTING,)


class FakeAdmin:
    """One topic with settings of its own."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str | None]] = {"orders": dict(OWN)}

    def topics(self, *_: object) -> dict[str, object]:
        return dict.fromkeys(self.configs)

    def topic_configs(self, names: Iterable[str], **_: object) -> dict[str, dict[str, str | None]]:
        return {name: dict(self.configs[name]) for name in names}

    def alter_topic_configs(self, changes: Mapping[str, Mapping[str, str | None]]) -> None:
        for name, each in changes.items():
            self.configs[name].update(each)


OWN = {"message.timestamp.type": "LogAppendTime"}
MEANWHILE = {"message.timestamp.type": "CreateTime"}


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), WriterFenced("a newer attempt writes")], ids=["ctrl-c", "fenced"]
)
def test_a_run_that_was_taken_over_gives_nothing_back(tmp_path: Path, error: BaseException) -> None:
    """Who took over writes by these settings, however the first run ends."""
    backup, admin = new_backup(open_store(str(tmp_path / "repository"))), FakeAdmin()
    existing = replace(EXISTING, meanwhile=tuple(MEANWHILE.items()), at_end=tuple(OWN.items()))
    record = replace(RECORD, settings=(existing,))
    terms = RestoreLayout(backup=backup.layout, restore=record.restore).lease(backup.store)
    with (  # noqa: PT012  # the innermost block is what has to raise
        pytest.raises((KeyboardInterrupt, OffsiteError)),
        hold_restore_lease(backup, record, take_over=False) as held,
        set_aside.set_settings_aside(backup, Cluster(config=KAFKA, admin=admin), record, check=held.check),  # type: ignore[arg-type]
    ):
        admin.alter_topic_configs({"orders": MEANWHILE})
        terms.claim(replace(ProcessIdentity.current(), host="elsewhere"), "w", take_over=True)
        raise error
    assert admin.configs["orders"] == MEANWHILE


@pytest.mark.parametrize("stopped", [True, False])
def test_settings_go_back_only_when_nobody_writes_any_more(tmp_path: Path, stopped: bool) -> None:
    """A batch that comes after them would get its time from the broker."""
    backup, admin = new_backup(open_store(str(tmp_path / "repository"))), FakeAdmin()
    existing = replace(EXISTING, meanwhile=tuple(MEANWHILE.items()), at_end=tuple(OWN.items()))
    record = replace(RECORD, settings=(existing,))

    def halt() -> bool:
        assert admin.configs["orders"] == MEANWHILE
        return stopped

    with (  # noqa: PT012  # the innermost block is what has to raise
        pytest.raises(KeyboardInterrupt) as interrupt,
        set_aside.set_settings_aside(backup, Cluster(config=KAFKA, admin=admin), record, halt=halt),  # type: ignore[arg-type]
    ):
        admin.alter_topic_configs({"orders": MEANWHILE})
        raise KeyboardInterrupt
    assert admin.configs["orders"] == (OWN if stopped else MEANWHILE)
    (note,) = interrupt.value.__notes__
    layout = RestoreLayout(backup=backup.layout, restore=record.restore)
    if stopped:
        assert note == "orders got their own settings back"
        assert get_aside(backup.store, layout) == ()
    else:
        (aside,) = get_aside(backup.store, layout) or ()
        assert "may still write" in note
        assert put_back_command(aside, KAFKA) in note


def test_two_restores_of_one_topic_that_were_killed_leave_its_own_settings_known(tmp_path: Path) -> None:
    backup, admin = new_backup(open_store(str(tmp_path / "repository"))), FakeAdmin()
    existing = replace(EXISTING, meanwhile=tuple(MEANWHILE.items()), at_end=tuple(OWN.items()))
    one, two = (replace(RECORD, restore=name, settings=(existing,)) for name in ("r1", "r2"))
    killed = []  # kept, so that nothing ends them: a killed process gives nothing back
    for record in (one, two):
        put_record(backup.store, RestoreLayout(backup=backup.layout, restore=record.restore), record)
        killed.append(set_aside.set_settings_aside(backup, Cluster(config=KAFKA, admin=admin), record))  # type: ignore[arg-type]
        killed[-1].__enter__()
        admin.alter_topic_configs({"orders": MEANWHILE})
    with set_aside.set_settings_aside(backup, Cluster(config=KAFKA, admin=admin), one) as settings:  # type: ignore[arg-type]
        assert dict(settings[0].at_end) == OWN
