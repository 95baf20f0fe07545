"""Whoever may declare a resource sends no secret of an account anywhere but to the places that the account opens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from offsite.model.errors import BadResource
from offsite.operator.core.accounts import Accounts, read_accounts
from offsite.operator.decide.desired import Account, RepositoryPlace
from offsite.repository.repository import Repository
from offsite.stores.posix_store import PosixStore
from tests.processes import wait_until
from tests.unit.operator.folder.home import QUICK, Home, opened_home, resource, restore


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with opened_home(tmp_path, monkeypatch) as found:
        yield found


@contextmanager
def stranger() -> Iterator[tuple[str, list[str]]]:
    """A server that notes what arrives: its URL, and the headers of each request."""
    arrived: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            arrived.append(str(self.headers))
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815  # as the base class has them

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", arrived
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def put_account(home: Home, **more: Any) -> None:
    secrets = {"AWS_ACCESS_KEY_ID": "key-id", "AWS_SECRET_ACCESS_KEY": "s3", "AWS_SESSION_TOKEN": "session"}
    entry = {"name": "main", "endpoint": str(home.repository.store.root), "environment": secrets, **more}
    home.layout.accounts.write_text(yaml.safe_dump([entry]))


@pytest.mark.parametrize("kind", ["Backup", "Restore"])
def test_an_endpoint_that_a_resource_names_hears_nothing(home: Home, kind: str) -> None:
    put_account(home)
    with stranger() as (url, arrived):
        place = f"s3://bucket/kafka?endpoint={url}&region=here"
        declared = (
            resource(destination={"endpoint": place})
            if kind == "Backup"
            else restore("shop", backupUrl=f"{place}#shop")
        )
        home.put("shop.yaml", declared)
        operator = home.operator(queue=QUICK)
        for _ in range(3):
            operator.look()
            home.pass_s(11)

    assert arrived == []
    told = {each["type"]: each["message"] for each in home.status("shop", kind.lower())["status"]["conditions"]}
    assert "the part after ? belongs to the account" in told[f"Misconfigured{kind}"]


def test_the_endpoint_of_an_account_goes_with_what_it_opens(home: Home) -> None:
    with stranger() as (url, arrived):
        put_account(home, endpoint=f"s3://bucket?endpoint={url}&region=here")
        home.put("shop.yaml", resource(destination={"endpoint": "s3://bucket/kafka"}))
        home.operator(queue=QUICK).look()

    assert any("Credential=key-id" in each for each in arrived)
    assert "offsite init" in home.conditions("shop")["MisconfiguredBackup"]


def test_what_an_account_does_not_open_is_told_with_the_line_to_add_and_opened_once_it_is_there(
    home: Home, tmp_path: Path
) -> None:
    Repository.init(PosixStore(root=tmp_path / "cellar"))
    home.put("shop.yaml", resource(destination={"endpoint": str(tmp_path / "cellar")}, agents={"replicas": 1}))
    operator = home.operator(queue=QUICK)
    operator.look()
    told = home.conditions("shop")["MisconfiguredBackup"]
    assert f"account main does not open {tmp_path / 'cellar'}" in told
    line = told.partition("in accounts.yaml: ")[2]
    assert home.record(operator, "shop").places == ()

    put_account(home, **yaml.safe_load(line))
    for _ in range(4):
        operator.look()
        home.pass_s(11)
    assert home.lows(home.record(operator, "shop").uid) == ()
    assert "MisconfiguredBackup" not in home.conditions("shop")


def test_a_restore_that_is_not_opened_notes_nothing_and_goes_at_once(home: Home, tmp_path: Path) -> None:
    Repository.init(PosixStore(root=tmp_path / "cellar"))
    home.put("back.yaml", restore(backupUrl=f"{tmp_path / 'cellar'}#shop"))
    operator = home.operator()
    operator.look()

    assert home.record(operator, "back", "Restore").places == ()


OPENED = [
    ("s3://bucket/kafka", "s3://bucket/kafka", True),
    ("s3://bucket/kafka", "s3://bucket/kafka/", True),
    ("s3://bucket/kafka", "s3://bucket/kafka/shop", True),
    ("s3://bucket", "s3://bucket/anything", True),
    ("s3://bucket/kafka", "s3://bucket/kafka-of-others", False),
    ("s3://bucket/kafka", "s3://bucket", False),
    ("s3://bucket/kafka", "s3://bucket.evil/kafka", False),
    ("s3://bucket/kafka", "s3://bucket/kafka/../others", False),
    ("s3://bucket/kafka", "s3://bucket/kafka/%2e%2e/others", False),
    ("s3://bucket/kafka", "s3://bucket/kafka//others", False),
    ("s3://bucket/kafka", "s3://bucket/kafka/.. ", False),
    ("s3://bucket/kafka", "s3://bucket/kafka/..\x01", False),
    ("s3://bucket/kafka?endpoint=http://own", "s3://bucket/kafka/.. ?endpoint=http://own", False),
    ("s3://bucket/kafka", "s3://bucket/kafka/a b", True),
    ("s3://bucket/kafka", "gs://bucket/kafka", False),
    ("s3://bucket/kafka", "s3://bucket/kafka?endpoint=http://evil", False),
    ("s3://bucket/kafka?endpoint=http://own", "s3://bucket/kafka/shop?endpoint=http://own", True),
    ("s3://bucket/kafka?endpoint=http://own", "s3://bucket/kafka", False),
    ("/backups", "/backups/shop", True),
    ("/backups", "file:///backups/./shop", True),
    ("/backups", "/backups-of-others", False),
    ("/backups", "/backups/../etc", False),
    ("/backups", "s3://backups", False),
    ("", "/backups", False),
    ("", "s3://bucket/kafka", False),
]


@pytest.mark.parametrize(("endpoint", "url", "is_opened"), OPENED)
def test_an_account_opens_what_is_below_its_endpoint_by_whole_components(
    endpoint: str, url: str, *, is_opened: bool
) -> None:
    accounts = Accounts(listed=(Account(name="main", endpoint=endpoint),))
    if is_opened:
        assert accounts.account(RepositoryPlace(account="main", repository=url)) is not None
    else:
        with pytest.raises(BadResource, match=r"main does not open|a prefix in a bucket|must not begin or end"):
            accounts.account(RepositoryPlace(account="main", repository=url))


def test_a_link_below_a_prefix_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups" / "out").symlink_to(tmp_path)
    accounts = Accounts(listed=(Account(name="main", endpoint=str(tmp_path / "backups")),))
    with pytest.raises(BadResource, match="does not open"):
        accounts.account(RepositoryPlace(account="main", repository=str(tmp_path / "backups" / "out")))


def test_without_an_account_a_folder_is_opened_and_no_url(tmp_path: Path) -> None:
    accounts = Accounts(listed=(), inherited={"AWS_SECRET_ACCESS_KEY": "of the operator"})
    assert accounts.account(RepositoryPlace(account="", repository=str(tmp_path))) is None
    with pytest.raises(BadResource, match="needs an account"):
        accounts.account(RepositoryPlace(account="", repository="s3://bucket/kafka"))


def test_an_account_lists_more_than_its_endpoint(home: Home) -> None:
    put_account(home, opens=["s3://bucket/kafka", "gs://other"])
    accounts = Accounts(listed=read_accounts(home.layout))

    for url in (str(home.repository.store.root), "s3://bucket/kafka/a", "gs://other/b"):
        assert accounts.account(RepositoryPlace(account="main", repository=url)) is not None


UNREADABLE = ["s3://[x/y", "s3://ex\u2100mple/x", "~nobody-of-that-name/x", "/backups/\0"]


@pytest.mark.parametrize("url", UNREADABLE)
@pytest.mark.parametrize("kind", ["Backup", "Restore"])
def test_a_place_that_cannot_be_read_is_told_and_stops_nobody_else(home: Home, kind: str, url: str) -> None:
    evil = resource("evil", cluster="shop", destination={"endpoint": url})
    home.put("evil.yaml", evil if kind == "Backup" else restore("evil", backupUrl=f"{url}#shop"))
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    operator = home.operator(queue=QUICK)
    for _ in range(3):
        operator.look()
        home.pass_s(11)

    assert len(home.lows(home.record(operator, "shop").uid)) == 1
    told = {each["type"]: each["message"] for each in home.status("evil", kind.lower())["status"]["conditions"]}
    assert repr(url) in told[f"Misconfigured{kind}"]


def test_a_file_whose_name_is_no_text_is_told_and_keeps_no_other_for_ever(home: Home) -> None:
    evil = Path(os.fsdecode(os.fsencode(home.root) + b"/evil\xff.yaml"))
    evil.write_text(yaml.safe_dump(resource("evil", cluster="shop")))
    shop = home.put("shop.yaml", resource(agents={"replicas": 1}))
    operator = home.operator(queue=QUICK)
    for _ in range(2):
        told = operator.look().waiting
        home.pass_s(11)
    evil.unlink()
    shop.unlink()

    def is_gone() -> bool:
        operator.look()
        home.pass_s(11)
        return operator.records.find("Backup", "shop") is None

    wait_until(is_gone, "the end of the record")
    assert {each.name: each.why for each in told}["evil\\udcff.yaml"] == "its name is not valid text: rename the file"


def test_a_link_that_cannot_be_followed_is_told_and_stops_nobody_else(home: Home) -> None:
    (home.root / "evil.yaml").symlink_to("x" * 300)
    home.put("shop.yaml", resource(agents={"replicas": 1}))
    operator = home.operator(queue=QUICK)
    for _ in range(2):
        told = operator.look().waiting
        home.pass_s(11)

    assert len(home.lows(home.record(operator, "shop").uid)) == 1
    assert "File name too long" in {each.name: each.why for each in told}["evil.yaml"]
