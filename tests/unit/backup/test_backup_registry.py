"""A backup takes a schema registry along: read after the records, committed with them, stored when it changed. A
registry that cannot be read costs the commit nothing, and is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from offsite.backup.options import BackupRequest
from offsite.backup.outages import Outages
from offsite.backup.pass_commits import PassMemory
from offsite.backup.registry import READ_EVERY_S, RegistryReadings, commit_last_reading, decide_registry
from offsite.cli.app import app
from offsite.cli.backup_options import BackupRunOptions
from offsite.cli.views.backup import render_result
from offsite.follow.follower import Follower, FollowSettings, FollowTimes, Round
from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption, BadRegistry, RegistryUnavailable
from offsite.model.selection import parse_selection
from offsite.overview.contents import show_backup
from offsite.overview.status import read_status
from offsite.repository.snapshots.registry_snapshot import get_registry_snapshot, registry_commit
from offsite.schemas.registry_client import RegistryAddress
from offsite.upkeep.verification.run import verify_deep, verify_quick
from tests.fake_cluster.site import BACKUP, Site
from tests.schema_registry import SchemaRegistryServer, serving
from tests.shown import shown
from tests.virtual_time import VirtualClock

USER = '{"type": "record", "name": "User", "fields": []}'
ORDER = '{"type": "record", "name": "Order", "fields": []}'


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        server.register("users-value", USER)
        yield server


@pytest.fixture
def users(site: Site) -> Site:
    site.source.make_topic("users")
    site.source.write("users", [b"a"])
    return site


def held(site: Site) -> list[str]:
    state = site.backup.state()
    assert state.registry is not None
    return [schema.text for schema in get_registry_snapshot(site.repository.store, state.registry).schemas]


def test_the_registry_is_committed_with_the_records(users: Site, registry: SchemaRegistryServer) -> None:
    result = users.back_up("users", registry=registry.url)
    assert (held(users), result.complete) == ([USER], True)
    assert result.registry is not None
    assert (result.registry.subjects, result.registry.versions, result.registry.schemas) == (1, 1, 1)
    assert "1 schema in 1 version of 1 subject of the registry http://127.0.0.1" in shown(render_result(result))


def test_the_registry_is_read_after_the_records(users: Site, registry: SchemaRegistryServer) -> None:
    """A schema that is registered and used while the run copies is explained."""
    plan = users.plan_backup("users", registry=registry.url)
    assert not registry.asked
    registry.register("orders-value", ORDER)
    users.carry_out(plan)
    assert ORDER in held(users)


def test_the_next_run_reads_the_registry_of_the_first_one(users: Site, registry: SchemaRegistryServer) -> None:
    users.back_up("users", registry=registry.url)
    assert dict(users.backup.descriptor.options)["registry"] == registry.url
    registry.register("orders-value", ORDER)
    users.back_up()
    assert sorted(held(users)) == sorted([USER, ORDER])


def test_a_run_may_name_a_registry_that_the_first_one_did_not(users: Site, registry: SchemaRegistryServer) -> None:
    users.back_up("users")
    assert users.back_up(registry=registry.url).registry is not None
    assert users.back_up().registry is None


def test_a_run_may_leave_the_registry_out(users: Site, registry: SchemaRegistryServer) -> None:
    users.back_up("users", registry=registry.url)
    registry.asked.clear()
    assert (users.back_up(registry="").registry, registry.asked, held(users)) == (None, [], [USER])


def test_an_unchanged_registry_is_not_stored_again(users: Site, registry: SchemaRegistryServer) -> None:
    users.back_up("users", registry=registry.url)
    users.source.write("users", [b"b"])
    users.back_up()
    assert (users.backup.state().seq, registry_commit(users.backup.state())) == (2, 1)
    assert len(list(users.repository.store.list(users.backup.layout.registry_prefix))) == 1


def test_another_registry_at_the_address_is_refused_and_the_records_are_committed(
    users: Site, registry: SchemaRegistryServer
) -> None:
    users.back_up("users", registry=registry.url)
    registry.subjects.clear()
    registry.register("orders-value", ORDER)  # the same id
    users.source.write("users", [b"b"])
    result = users.back_up()
    assert (result.records, result.complete, held(users)) == (1, False, [USER])
    assert result.registry is not None
    assert (result.registry.error, result.registry.schemas) == (BadRegistry.id, 1)
    assert "the backup keeps its 1 schema: [OFF-0240]" in shown(render_result(result))


def test_a_registry_that_does_not_answer_costs_the_commit_nothing(
    users: Site, registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RegistryReadings.read, "__kwdefaults__", {"in_haste": True})  # 30 s of attempts
    registry.interfere = lambda _method, _target: (503, b"", {})
    result = users.back_up("users", registry=registry.url)
    assert (result.records, result.complete, users.backup.state().registry) == (1, False, None)
    assert result.registry is not None
    assert result.registry.error == RegistryUnavailable.id
    assert "schema registry not read, no schema is held: [OFF-1510]" in shown(render_result(result))
    registry.interfere = lambda _method, _target: None
    assert (users.back_up().complete, held(users)) == (True, [USER])


def test_a_damaged_snapshot_is_stored_anew(users: Site, registry: SchemaRegistryServer) -> None:
    users.back_up("users", registry=registry.url)
    ref = users.backup.state().registry
    assert ref is not None
    users.repository.store.delete(ref.key)
    users.back_up()
    assert (held(users), registry_commit(users.backup.state())) == ([USER], 2)


def test_a_run_that_follows_reads_every_five_minutes(users: Site, registry: SchemaRegistryServer) -> None:
    memory, clock = PassMemory(), VirtualClock()

    def round_() -> None:
        users.carry_out(users.plan_backup("users", registry=registry.url), memory=memory, clock=clock, only_news=True)

    round_()
    registry.register("orders-value", ORDER)
    users.source.write("users", [b"b"])
    clock.sleep(READ_EVERY_S - 1)
    round_()
    assert (held(users), memory.registry.is_behind) == ([USER], True)
    clock.sleep(1)
    round_()  # nothing but a schema is new
    assert sorted(held(users)) == sorted([USER, ORDER])
    assert (users.backup.state().seq, memory.registry.is_behind) == (3, False)
    clock.sleep(READ_EVERY_S)
    round_()
    assert users.backup.state().seq == 3


def test_at_its_end_it_reads_what_its_last_records_need(users: Site, registry: SchemaRegistryServer) -> None:
    memory, address = PassMemory(), RegistryAddress(url=registry.url)
    for _ in range(2):
        users.source.write("users", [b"b"])
        users.carry_out(users.plan_backup("users", registry=registry.url), memory=memory)
        registry.register("orders-value", ORDER)
    state = users.backup.state()
    commit_last_reading(users.backup, address, memory.registry, SystemClock())
    after = users.backup.state()
    assert (after.seq, sorted(held(users))) == (state.seq + 1, sorted([USER, ORDER]))
    assert (after.left_behind, after.incomplete, after.positions) == (state.left_behind, False, state.positions)
    commit_last_reading(users.backup, address, memory.registry, SystemClock())
    assert users.backup.state().seq == after.seq


def test_status_and_show_say_what_is_held(users: Site, registry: SchemaRegistryServer) -> None:
    users.back_up("users", registry=registry.url)
    users.source.write("users", [b"b"])
    users.back_up()
    (status,) = read_status(users.repository).backups
    assert "the schema registry is held, as of commit 1" in status.notes
    assert show_backup(users.backup).registry is None
    detail = show_backup(users.backup, with_registry=True)
    assert detail.registry is not None
    assert (detail.registry_commit, [v.subject for v in detail.registry.versions]) == (1, ["users-value"])


def test_a_run_that_is_asked_to_end_reads_what_its_last_records_need(
    users: Site, registry: SchemaRegistryServer
) -> None:
    clock = VirtualClock()
    following = FollowSettings(
        repository=users.repository,
        cluster=users.source.connected,
        runner=users.runner,
        request=BackupRequest(backup=BACKUP, selection=parse_selection(["users"]), registry=registry.url),
        times=FollowTimes(interval_s=10),
    )

    def on_round(completed: Round) -> None:
        if completed.state.seq == 2:
            registry.register("orders-value", ORDER)
            raise KeyboardInterrupt
        users.source.write("users", [b"b"])

    outages = Outages(give_up_after_s=3600, clock=clock, on_outage=lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        Follower(following, outages=outages, clock=clock, on_round=on_round).run()
    assert sorted(held(users)) == sorted([USER, ORDER])
    assert users.backup.state().seq == 3


@pytest.mark.parametrize("loss", ["changed", "missing"])
def test_verify_finds_damage_to_the_registry(users: Site, registry: SchemaRegistryServer, loss: str) -> None:
    users.back_up("users", registry=registry.url)
    ref, store = users.backup.state().registry, users.repository.store
    assert ref is not None
    assert verify_deep(users.backup, users.runner).ok
    data = store.get(ref.key) or b""
    store.delete(ref.key)
    if loss == "changed":
        store.put_if_absent(ref.key, data.replace(b"User", b"Uses"))
    else:
        assert [damage.key for damage in verify_quick(users.backup).damaged_snapshots] == [ref.key]
    (damage,) = verify_deep(users.backup, users.runner).damaged_snapshots
    assert (damage.key, damage.first_commit) == (ref.key, 1)


def test_the_command_takes_the_address_and_a_file_with_the_login(tmp_path: Path) -> None:
    file = tmp_path / "registry.properties"
    file.write_text("basic.auth.user.info=me:secret")
    request = BackupRunOptions(repo="r", backup="b", registry="http://[::1]:1", registry_config=file).request()
    assert request.registry_access is not None
    chosen = decide_registry(request.registry, request.registry_access, "http://elsewhere:1")
    assert chosen is not None
    assert (chosen.url, chosen.login) == ("http://[::1]:1", request.registry_access.login)
    with pytest.raises(BadOption, match="--registry-config works only with a registry"):
        decide_registry(None, request.registry_access, "")
    with pytest.raises(BadOption, match="the login would go to the registry https://elsewhere, which only the repos"):
        decide_registry(None, request.registry_access, "https://elsewhere")
    plain = decide_registry(None, replace(request.registry_access, login=None), "https://elsewhere")
    assert plain is not None
    assert plain.url == "https://elsewhere"


def test_commands_show_what_would_be_read_and_what_is_held(users: Site, registry: SchemaRegistryServer) -> None:
    registry.register("users-value", ORDER, references=[{"name": "User", "subject": "users-value", "version": 1}])
    users.back_up("users", registry=registry.url)
    repo = ["--repo", users.repository.store.url]
    source = str(users.source.config.bootstrap[0])
    planned = CliRunner().invoke(app, ["backup", "plan", "--backup", BACKUP, "--bootstrap", source, *repo])
    assert f"would be read before the commit: the schema registry {registry.url}" in planned.output
    outline = CliRunner().invoke(app, ["show", BACKUP, *repo])
    assert "the schema registry is held, as of commit 1 (--registry lists it)" in outline.output
    listed = CliRunner().invoke(app, ["show", BACKUP, "--registry", *repo])
    lines = [line.replace("│", " ").split() for line in listed.output.splitlines() if "users-value" in line]
    assert lines == [["users-value", "1", "1", "AVRO"], ["users-value", "2", "2", "AVRO", "users-value", "1"]]
    assert "settings of all subjects: BACKWARD, READWRITE" in listed.output


def test_an_interrupt_while_the_registry_is_read_loses_no_copied_record(
    users: Site, registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RegistryReadings, "read", interrupted)
    memory = PassMemory()
    with pytest.raises(KeyboardInterrupt):
        users.carry_out(users.plan_backup("users", registry=registry.url), memory=memory)
    (position,) = users.backup.state().positions.values()
    assert (position.end, users.backup.state().registry, memory.registry.is_behind) == (1, None, True)


@pytest.mark.parametrize(
    ("path", "answer"), [("/config", b'{"compatibilityLevel": "\\ud800"}'), ("/subjects?", b'["\\ud800"]')]
)
def test_text_that_is_none_costs_the_commit_nothing(
    users: Site, registry: SchemaRegistryServer, path: str, answer: bytes
) -> None:
    """Half of a character could be stored, and never be read again."""
    registry.interfere = lambda _method, target: (200, answer, {}) if target.startswith(path) else None
    result = users.back_up("users", registry=registry.url)
    assert users.backup.state().registry is None
    assert result.registry is not None
    assert "no Unicode" in result.registry.problem
