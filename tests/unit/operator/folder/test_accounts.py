from __future__ import annotations

import logging
from pathlib import Path

import pytest

from offsite.model.errors import BadResource, RepositoryNotFound
from offsite.operator.core.accounts import Accounts, read_accounts, variables_of
from offsite.operator.core.files import FolderLayout
from offsite.operator.decide.desired import Account, RepositoryPlace

SECRET = "very-secret"


def written(tmp_path: Path, text: str, *, mode: int = 0o600) -> FolderLayout:
    layout = FolderLayout(root=tmp_path)
    layout.accounts.write_text(text)
    layout.accounts.chmod(mode)
    return layout


def test_the_first_account_is_the_first_one(tmp_path: Path) -> None:
    layout = written(tmp_path, "[{name: main, endpoint: 's3://a/b'}, {name: other, endpoint: /backups}]")

    assert [(each.name, each.endpoint) for each in read_accounts(layout)] == [
        ("main", "s3://a/b"),
        ("other", "/backups"),
    ]


def test_without_the_file_there_are_none(tmp_path: Path) -> None:
    assert read_accounts(FolderLayout(root=tmp_path)) == ()


def test_variables_come_from_a_file_and_from_the_account_which_counts_more(tmp_path: Path) -> None:
    (tmp_path / "main.env").write_text(
        f"# of the store\n\nexport AWS_SECRET_ACCESS_KEY='{SECRET}'\nAWS_REGION=one\nA=\"b c\"\n"
    )
    layout = written(tmp_path, "[{name: main, environmentFile: main.env, environment: {AWS_REGION: two}}]")
    (account,) = read_accounts(layout)

    assert dict(account.environment) == {"AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "two", "A": "b c"}


@pytest.mark.parametrize(
    "text",
    [
        "[{name: main, environmnt: {A: %s}}]",
        "[{name: main, environment: {A: [%s]}}]",
        "{name: %s}",
        "[{name: main, environment: %s}]",
    ],
)
def test_what_is_wrong_is_told_without_a_value(tmp_path: Path, text: str) -> None:
    layout = written(tmp_path, text % SECRET)
    with pytest.raises(BadResource) as raised:
        read_accounts(layout)

    assert SECRET not in raised.value.message + raised.value.hint
    assert raised.value.__cause__ is None


def test_a_wrong_line_of_a_file_of_variables_is_told_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "main.env").write_text(f"A=b\n{SECRET}\n")
    layout = written(tmp_path, "[{name: main, environmentFile: main.env}]")
    with pytest.raises(BadResource, match="line 2") as raised:
        read_accounts(layout)

    assert SECRET not in raised.value.message


def test_a_file_that_others_can_read_is_warned_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    layout = written(tmp_path, "[{name: main}]", mode=0o644)
    with caplog.at_level(logging.WARNING, logger="offsite.journal"):
        read_accounts(layout)
        read_accounts(layout)

    assert sum("chmod 600 accounts.yaml" in line for line in caplog.messages) == 1


def test_an_account_with_credentials_inherits_none() -> None:
    account = Account(name="main", endpoint="", environment=(("AWS_ACCESS_KEY_ID", "own"),))
    inherited = {"AWS_SESSION_TOKEN": "x", "GOOGLE_SERVICE_ACCOUNT": "y", "PATH": "/bin"}

    assert variables_of(account, inherited) == {"AWS_ACCESS_KEY_ID": "own", "PATH": "/bin"}
    assert variables_of(None, inherited) == inherited


def test_a_repository_that_there_is_not_is_never_begun(tmp_path: Path) -> None:
    with pytest.raises(RepositoryNotFound):
        Accounts(listed=()).open_store(RepositoryPlace(account="", repository=str(tmp_path / "nothing")))
    assert not (tmp_path / "nothing").exists()


def test_an_account_that_is_gone_opens_nothing() -> None:
    with pytest.raises(BadResource, match="account 'main' no longer exists"):
        Accounts(listed=()).open_store(RepositoryPlace(account="main", repository="/backups"))
