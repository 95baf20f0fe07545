"""What the cluster has and no backup holds is named: by backups, `show`, and plans and results of restores."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.backup.cluster_settings import read_cluster_settings, read_configs, with_not_carried
from offsite.backup.pass_commits import PassMemory
from offsite.cli.views.backup import render_result
from offsite.cli.views.repository import render_applied, render_metadata_plan
from offsite.kafka.net.routing import Router
from offsite.kafka.protocol.configs import BROKER, CLIENT_METRICS, GROUP
from offsite.kafka.settings import FOLLOWING_S
from offsite.model.cluster_settings import ClientQuota, ClusterSettings, QuotaEntity, ResourceConfigs
from offsite.model.errors import KafkaProtocolError, KafkaUnreachable
from offsite.overview.contents import show_backup
from offsite.repository.snapshots.named_object import CLUSTER_SETTINGS
from offsite.restore.cluster_settings import _config_changes
from offsite.restore.plan_report import report_plan
from tests.fake_cluster import topic_answers
from tests.fake_cluster.cluster import OF_ALL_BROKERS, OF_THE_BROKER, THE_CLUSTER, FakeGroup
from tests.fake_cluster.site import Site
from tests.shown import shown

DESCRIBE_CONFIGS = 10
NAMED = (
    "12 queue groups: app-00, app-01, app-02, app-03, app-04, app-05, app-06, app-07, app-08, app-09 and 2 more",
    "1 share group: jobs",
    "settings of broker 1: background.threads, num.io.threads",
    "subscriptions to metrics of clients: slow-ones",
)


@pytest.fixture
def rich(site: Site) -> Site:
    source = site.source
    source.make_topic("orders")
    source.write("orders", [b"v"])
    source.groups = {"payers": FakeGroup(), "next": FakeGroup(kind="consumer"), "jobs": FakeGroup(kind="share")}
    source.groups |= {f"app-{number:02}": FakeGroup(kind="queue") for number in range(12)}
    source.dynamic = {
        OF_THE_BROKER: ["num.io.threads", "background.threads"],
        OF_ALL_BROKERS: ["log.cleaner.threads"],
    }
    source.configured = {GROUP: ["payers"], CLIENT_METRICS: ["slow-ones"]}
    return site


def test_a_backup_names_what_it_does_not_hold(rich: Site) -> None:
    result = rich.back_up("orders")
    assert result.not_carried == NAMED
    text = shown(render_result(result))
    assert all(line in text for line in NAMED)


def test_it_is_known_when_the_source_is_gone(rich: Site) -> None:
    rich.back_up("orders")
    assert show_backup(rich.backup).not_carried == NAMED
    prepared = rich.plan_restore()
    assert report_plan(prepared).metadata.not_carried == NAMED
    restored = rich.restore()
    assert restored.metadata.not_carried == NAMED
    text = shown([*render_metadata_plan(prepared.metadata), *render_applied(restored.metadata)])
    assert text.count("not in the backup, create again by hand:") == 2


def test_a_cluster_that_has_nothing_else_names_nothing(site: Site) -> None:
    site.source.make_topic("orders")
    site.source.groups = {"payers": FakeGroup()}
    assert site.back_up("orders").not_carried == ()
    assert show_backup(site.backup).not_carried == ()


def test_what_could_not_be_asked_is_told(rich: Site) -> None:
    rich.source.forbidden[THE_CLUSTER] = {DESCRIBE_CONFIGS}
    told = [each for each in rich.back_up("orders").not_carried if "broker" in each]
    assert len(told) == 1
    assert told[0].startswith("dynamic settings of brokers could not be read: ")


def test_settings_that_cannot_be_read_stay_as_the_commit_before_has_them(rich: Site) -> None:
    """A failure that passed left the newest commit without them, and a restore set none."""
    rich.back_up("orders")
    kept = ["all brokers: log.cleaner.threads not set → 1", "group payers: consumer.session.timeout.ms not set → 50000"]
    assert list(map(str, rich.plan_restore().metadata.configs)) == kept
    rich.source.forbidden = {THE_CLUSTER: {DESCRIBE_CONFIGS}, "payers": {DESCRIBE_CONFIGS}}
    result = rich.back_up()
    assert [line for line in result.not_carried if line.startswith("dynamic settings of brokers could not be read")]
    assert list(map(str, rich.plan_restore().metadata.configs)) == kept
    rich.source.forbidden = {}
    rich.source.configured[GROUP] = []
    rich.back_up()
    assert list(map(str, rich.plan_restore().metadata.configs)) == kept[:1]


def test_a_run_that_follows_reads_the_settings_of_the_commit_before_once(
    rich: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    rich.back_up("orders")
    rich.source.forbidden = {THE_CLUSTER: {DESCRIBE_CONFIGS}}
    read, memory = [], PassMemory()
    store = type(rich.repository.store)
    get = store.get
    monkeypatch.setattr(store, "get", lambda own, key: (read.append(key), get(own, key))[1])
    for _ in range(3):
        rich.carry_out(rich.plan_backup(), memory=memory, only_news=True)
    snapshots = [key for key in read if "/metadata/" in key]
    assert snapshots
    assert len(set(snapshots)) == len(snapshots)


class Silent:
    asked = 0

    def dynamic_broker_settings(self, *, max_age_s: float) -> dict[str, dict[str, str]]:
        self.asked += 1
        raise KafkaUnreachable("broker 2 does not answer")

    def configured(self, *, max_age_s: float) -> dict[int, dict[str, dict[str, str]]]:
        return {}


def test_a_broker_that_does_not_answer_stops_no_backup(site: Site) -> None:
    found = with_not_carried(read_cluster_settings(site.source.admin.settings), Silent(), None)
    assert found.settings.not_carried == ("dynamic settings of brokers could not be read: broker 2 does not answer",)


def test_a_run_that_follows_asks_brokers_once_in_a_while(rich: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client = rich.source.admin.settings
    first = client.dynamic_broker_settings()
    rich.source.dynamic[OF_THE_BROKER], rich.source.configured = [], {}
    assert client.dynamic_broker_settings(max_age_s=FOLLOWING_S) == first
    now_s = client._clock.monotonic_s() + FOLLOWING_S
    monkeypatch.setattr(client._clock, "monotonic_s", lambda: now_s)
    assert client.dynamic_broker_settings(max_age_s=FOLLOWING_S) == {"": {"log.cleaner.threads": "1"}}


def test_a_plan_compares_with_the_settings_that_the_target_has_now(rich: Site) -> None:
    """Settings of up to five minutes before decided what was set."""
    rich.back_up("orders")
    client = rich.target.admin.settings
    assert read_configs(client) == ()
    rich.target.dynamic[OF_ALL_BROKERS], rich.target.configured = ["log.cleaner.threads"], {GROUP: ["payers"]}
    assert [(of.kind, of.name) for of in read_configs(client)] == [("brokers", ""), ("groups", "payers")]


def test_settings_of_any_number_of_groups_are_kept_and_compared(rich: Site) -> None:
    """Those beyond the first 200 counted as not carried."""
    names = [f"group-{number:03}" for number in range(401)]
    rich.source.configured[GROUP] = names
    result = rich.back_up("orders")
    assert not [line for line in result.not_carried if "settings of groups" in line]
    rich.target.configured[GROUP] = names[:400]
    assert [change.name for change in rich.plan_restore().metadata.configs if change.kind == "groups"] == ["group-400"]


def test_a_group_whose_settings_may_not_be_read_is_named_alone(rich: Site) -> None:
    rich.source.forbidden["payers"] = {DESCRIBE_CONFIGS}
    rich.source.configured[GROUP] = ["jobs", "payers"]
    configured = rich.source.admin.settings.configured()
    assert configured[GROUP] == {"jobs": {"consumer.session.timeout.ms": "50000"}, "payers": None}
    assert "settings of groups: payers" in rich.back_up("orders").not_carried


@pytest.mark.parametrize("outcomes", [0, 2])
def test_an_answer_with_another_number_of_outcomes_is_an_error_by_name(
    rich: Site, monkeypatch: pytest.MonkeyPatch, outcomes: int
) -> None:
    """It was a ValueError, after all records were written."""
    client = rich.target.admin.settings
    monkeypatch.setattr(Router, "call_controller", lambda *_: [""] * outcomes)
    change = ResourceConfigs(kind="groups", name="payers", configs=(("consumer.session.timeout.ms", "1"),))
    quota = ClientQuota(entity=QuotaEntity(parts=(("user", "a"),)), limits=(("producer_byte_rate", 1.0),))
    with pytest.raises(KafkaProtocolError, match=f"a change of 1 settings has {outcomes} outcomes"):
        client.set_configs([change])
    with pytest.raises(KafkaProtocolError, match=f"a change of 1 client quotas has {outcomes} outcomes"):
        client.set_client_quotas([quota])


def test_an_answer_that_leaves_a_group_out_is_no_evidence(rich: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_answers, "_configs", lambda *_: {"resource_type": GROUP, "resource_name": "another"})
    with pytest.raises(KafkaProtocolError, match="leaves out the settings of payers"):
        rich.source.admin.settings.configured()


def test_settings_of_earlier_versions_stay_what_they_were(tmp_path: Path) -> None:
    settings = ClusterSettings()
    assert b"not_carried" not in CLUSTER_SETTINGS.encode(settings)
    assert CLUSTER_SETTINGS.decode(CLUSTER_SETTINGS.encode(settings), key="k") == settings
    assert b"configs" not in CLUSTER_SETTINGS.encode(settings)
    of_all = ResourceConfigs(kind="brokers", name="", configs=(("log.cleaner.threads", "2"),))
    more = ClusterSettings(not_carried=("1 share group: jobs",), configs=(of_all,))
    assert CLUSTER_SETTINGS.decode(CLUSTER_SETTINGS.encode(more), key="k") == more


def test_settings_of_groups_and_of_all_brokers_are_kept_shown_and_set(rich: Site) -> None:
    rich.source.dynamic[OF_ALL_BROKERS] = ["log.cleaner.threads", "log.retention.ms", "shiny"]
    rich.target.refused_settings = {"shiny"}
    rich.back_up("orders")
    planned = rich.plan_restore(metadata="none").metadata
    assert [str(change) for change in planned.configs] == [
        "all brokers: log.cleaner.threads not set → 1",
        "all brokers: log.retention.ms not set → 1, by hand: a restore does not set it",
        "all brokers: shiny not set → 1",
        "group payers: consumer.session.timeout.ms not set → 50000",
    ]
    text = shown(render_metadata_plan(planned))
    assert "settings of groups to set: 1, not set (add --metadata groups)" in text
    applied = rich.restore(metadata="all").metadata
    assert rich.target.set_configs == {
        (BROKER, ""): {"log.cleaner.threads": "1"},
        (GROUP, "payers"): {"consumer.session.timeout.ms": "50000"},
    }
    assert applied.configs == 2
    assert [refused.partition(": ")[0] for refused in applied.refused] == ["all brokers"]
    assert "2 settings of groups and brokers" in shown(render_applied(applied))


HARMFUL = ("min.insync.replicas", "replica.alter.log.dirs.io.max.bytes.per.second", "unclean.leader.election.enable")


def test_what_would_stop_the_writers_of_the_target_or_lose_records_is_listed_for_a_person(rich: Site) -> None:
    """min.insync.replicas of three brokers, set on one, stopped all writers there, and the offsets of groups too."""
    rich.source.dynamic[OF_ALL_BROKERS] = ["log.cleaner.threads", *HARMFUL]
    rich.back_up("orders")
    planned = rich.plan_restore().metadata
    assert tuple(change.setting for change in planned.configs if change.by_hand) == HARMFUL
    assert "settings of all brokers to set: 1, not set (add --metadata brokers)" in shown(render_metadata_plan(planned))
    rich.restore(metadata="all")
    assert rich.target.set_configs[BROKER, ""] == {"log.cleaner.threads": "1"}


def test_a_setting_of_one_broker_in_a_forged_backup_is_named_as_such_and_not_set() -> None:
    """No backup holds one. The plan said "all brokers", and the restore set it on that broker."""
    forged = [ResourceConfigs(kind="brokers", name="1", configs=(("listeners", "PLAINTEXT://:9092"),))]
    (change,) = _config_changes(forged, ())
    assert change.by_hand
    assert str(change).startswith("broker 1: listeners not set → PLAINTEXT://:9092, by hand")
    of_no_kind = [ResourceConfigs(kind="acls", name="", configs=(("a", "b"),))]
    assert list(_config_changes(of_no_kind, ())) == []  # it ended restores with a KeyError after all records
