"""What a resource asks for, with its defaults, and the names of backups."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offsite.model.errors import BadResource
from offsite.model.names import check_backup_name
from offsite.operator.decide.desired import Account, RepositoryPlace, resolve_backup
from offsite.operator.decide.options import parse_parameters
from tests.worlds.operator.world import new_backup

ACCOUNTS = (Account(name="main", endpoint="s3://main"), Account(name="other", endpoint="s3://other"))
AT_MS = 1_626_771_903_000


def test_everything_has_a_default() -> None:
    found = resolve_backup(new_backup("aaaaaaaa", 1), ACCOUNTS)
    assert found.place == RepositoryPlace(account="main", repository="s3://main")
    assert (found.beginning.path, found.beginning.cluster, found.beginning.topics) == ("aaaa", "aaaa", ("*",))
    assert (found.settings.snapshot_duration, found.agents.replicas) == ("7d", 3)
    assert found.name_at(AT_MS) == "aaaa-2021-07-20T09.05.03Z.00.00"


@pytest.mark.parametrize(
    ("destination", "place", "name"),
    [
        (
            {"account": "other"},
            RepositoryPlace(account="other", repository="s3://other"),
            "aaaa-2021-07-20T09.05.03Z.00.00",
        ),
        (
            {"endpoint": "s3://b/p"},
            RepositoryPlace(account="main", repository="s3://b/p"),
            "aaaa-2021-07-20T09.05.03Z.00.00",
        ),
        ({"path": "shop"}, RepositoryPlace(account="main", repository="s3://main"), "shop-2021-07-20T09.05.03Z.00.00"),
        ({"timestampFormat": "-20060102"}, RepositoryPlace(account="main", repository="s3://main"), "aaaa-20210720"),
        ({"timestampFormat": ""}, RepositoryPlace(account="main", repository="s3://main"), "aaaa"),
    ],
)
def test_a_destination_is_an_account_an_endpoint_a_path_and_a_time(
    destination: dict[str, str], place: RepositoryPlace, name: str
) -> None:
    found = resolve_backup(new_backup("aaaaaaaa", 1, destination=destination), ACCOUNTS)
    assert (found.place, found.name_at(AT_MS)) == (place, name)


@given(st.text(max_size=60), st.integers(0, 4_102_444_800_000))
def test_any_format_gives_a_name_that_a_backup_may_have(layout: str, at_ms: int) -> None:
    found = resolve_backup(new_backup("aaaaaaaa", 1, destination={"timestampFormat": layout}), ACCOUNTS)
    assert check_backup_name(found.name_at(at_ms)).startswith("aaaa")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"destination": {"account": "none"}}, "names account 'none'"),
        ({"parameters": {"intervall": "5s"}}, "there is no such parameter"),
        ({"parameters": {"interval": "soon"}}, "spec.parameters.interval"),
        *(
            ({"agents": {"template": {"environment": {name: "x"}}}}, f"may not set {name}")
            for name in ("LD_PRELOAD", "PYTHONPATH", "PATH", "AWS_ENDPOINT_URL", "JAVA_TOOL_OPTIONS", "OFFSITE_REPO")
        ),
    ],
)
def test_what_there_is_not_is_told(spec: dict[str, object], said: str) -> None:
    with pytest.raises(BadResource, match=said):
        resolve_backup(new_backup("aaaaaaaa", 1, **spec), ACCOUNTS)


def test_without_an_account_an_endpoint_is_needed() -> None:
    with pytest.raises(BadResource, match="no destination"):
        resolve_backup(new_backup("aaaaaaaa", 1), ())
    assert resolve_backup(new_backup("aaaaaaaa", 1, destination={"endpoint": "/b"}), ()).place.repository == "/b"


def test_parameters_have_the_defaults_of_the_command() -> None:
    found = parse_parameters({"groups": "a, b", "read-limit": "5MB"})
    assert (found.interval_s, found.groups, found.read_limit, found.write_limit) == (10.0, ("a", "b"), "5MB", None)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"topics": ["regex:("]}, "spec.topics"),
        ({"topics": ["a/b"]}, "spec.topics"),
        ({"exclude": ["regex:("]}, "spec.topics"),
        ({"parameters": {"read-limit": "much"}}, "spec.parameters.read-limit"),
        ({"topics": ["regex:a{4294967295}"]}, "spec.topics"),
        (
            {"topics": ["a", *(f"regex:{n}{'a' * 500}" for n in range(5))], "exclude": ["regex:" + "a" * 500] * 4},
            "4096",
        ),
        ({"exclude": [f"regex:{'(' * 400}"]}, "spec.topics"),
        ({"snapshotDuration": "99999999999999999w"}, "spec.snapshotDuration"),
        ({"expiry": {"maximumRetention": "99999999999999999w"}}, "spec.expiry.maximumRetention"),
        ({"expiry": {"minimumRestorable": "99999999999999999w"}}, "spec.expiry.minimumRestorable"),
        ({"parameters": {"write-limit": "-1"}}, "spec.parameters.write-limit"),
        ({"parameters": {"compression": "rar"}}, "spec.parameters.compression"),
        ({"parameters": {"groups": "regex:("}}, "spec.parameters.groups"),
    ],
)
def test_what_agents_could_not_read_is_told_before_a_slot_is_taken(spec: dict[str, object], said: str) -> None:
    with pytest.raises(BadResource, match=said):
        resolve_backup(new_backup("aaaaaaaa", 1, **spec), ACCOUNTS)


def test_expressions_that_take_minutes_to_be_read_are_not_read() -> None:
    """Whoever may declare could have the operator read them with each look, and nobody else be looked at."""
    slow = [f"regex:(?i){number}" + "[\x01-\U0010fffe]" * 99 for number in range(256)]
    with pytest.raises(BadResource, match="regular expressions"):
        resolve_backup(new_backup("aaaaaaaa", 1, topics=slow, exclude=slow), ACCOUNTS)
