from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.errors import BadRepositoryUrl, StoreInClear
from offsite.stores.object_store import CloudStore
from offsite.stores.open_store import ALLOW_HTTP, open_store, places_above
from offsite.stores.posix_store import PosixStore


@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("/data/backups", "/data/backups"),
        ("file:///data/back%20ups", "/data/back ups"),
        ("relative", str(Path.cwd() / "relative")),
        ("~/b", str(Path.home() / "b")),
        ("./a:b", str(Path.cwd() / "a:b")),
        ("/data/a:b #1?", "/data/a:b #1?"),
        ("file:/data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
        ("file:///data/%ff", "/data/\udcff"),
    ],
)
def test_paths_are_folders(place: str, root: str) -> None:
    store = open_store(place)
    assert isinstance(store, PosixStore)
    assert str(store.root) == root


def test_urls_are_cloud_stores_with_credentials_from_the_environment() -> None:
    environment = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "very-secret", "HOME": "/root"}
    store = open_store("s3://bucket/a/b/?endpoint=http://127.0.0.1:9000&region=eu-1", environment=environment)
    assert isinstance(store, CloudStore)
    assert store.url == "s3://bucket/a/b"
    assert dict(store.options) == {
        "aws_access_key_id": "id",
        "aws_secret_access_key": "very-secret",
        "aws_endpoint": "http://127.0.0.1:9000",
        "aws_region": "eu-1",
    }
    assert "very-secret" not in repr(store)


@pytest.mark.parametrize(
    "place",
    [
        "",
        "ftp://host/x",
        "s3://",
        "s3:///x",
        "s3://key:secret@bucket/x",
        "s3://bucket/x?secret_access_key=x",
        "s3://bucket/x?region",
        "gs://bucket/x?region=x",
        "file://otherhost/x",
        "s3://[bucket/x",
        "s3://bucket/a#b?endpoint=http://127.0.0.1:1",
        "s3://bucket/a#",
        "file:///data#x",
        "file:///data?x",
        "file:data",
        "file:",
        "s3://bucket//x",
        "s3://bucket/a//b",
        "s3://bucket/a/../b",
        "s3://bucket/a/%2E/b",
        "s3://bucket/a%2Fb",
        "s3://bucket:9000/x",
        "s3://bucket/x?region=a&region=b",
        "s3://bucket/x\r",
        *("file:///data/%00x", "/data/a\0b", " /data/x", "/data/x ", r"\\nas\share", "s3://bucket/ "),
        *("s3://bucket/x ?region=a", "s3://bucket?region=a?endpoint=https://minio", "s3://bucket?region=us+east"),
        *(f"s3://bucket?endpoint={bad}" for bad in ("minio:9000", "https://", "ftp://m", "https://[bad", "https:/x")),
        *(f"s3://bucket?endpoint=https://m{bad}" for bad in (":x", "?region=a", ";region=a", ":9000;region=a", "+x")),
        *('"s3://bucket/x"', "'s3://bucket/x'", " s3:/bucket/x", "s3:/bucket/x", "s3:bucket/x", "gs:b/x", "az:/b/x"),
        *("sftp:host:/x", "rclone:remote:x", "nas:/export/x", "user@host:/x", r"C:\backup", "s3a://bucket/x"),
        *("${REPO}", "$HOME/x", "%h/x", "`pwd`/x", "repository\r", "\nrepository"),
    ],
)
def test_other_places_are_refused(place: str) -> None:
    with pytest.raises(BadRepositoryUrl) as caught:
        open_store(place)
    assert caught.value.hint


def test_credentials_in_an_endpoint_are_refused_and_not_repeated() -> None:
    with pytest.raises(BadRepositoryUrl, match="credentials are not allowed") as caught:
        open_store("s3://bucket/x?endpoint=https://user:secret@minio")
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"


def test_a_home_that_nobody_has_is_refused() -> None:
    with pytest.raises(BadRepositoryUrl, match="home directory"):
        open_store("~nobody-of-that-name/backups")


@pytest.mark.parametrize(
    ("place", "environment"),
    [
        ("s3://bucket/x?endpoint=http://minio.internal:9000", {}),
        ("s3://bucket/x?endpoint=HTTP://10.0.0.7", {}),
        ("s3://bucket/x", {"AWS_ENDPOINT_URL": "http://minio.internal:9000"}),
        ("s3://bucket/x", {"AWS_ENDPOINT": "http://minio.internal:9000"}),
        ("s3://bucket/x", {"AWS_ENDPOINT_URL_S3": "http://minio.internal:9000"}),
        ("gs://bucket/x?endpoint=http://gcs.internal", {}),
        ("az://container/x?endpoint=http://azurite.internal:10000&account=a", {}),
    ],
)
def test_an_endpoint_without_tls_elsewhere_is_refused_and_warned_of_where_it_is_allowed(
    place: str, environment: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    environment = {"AWS_SECRET_ACCESS_KEY": "very-secret", **environment}
    with pytest.raises(StoreInClear, match="would be used with http") as refused:
        open_store(place, environment=environment)
    assert "--allow-http" in (refused.value.hint or "")
    assert "very-secret" not in str(refused.value)
    open_store(place, environment={**environment, ALLOW_HTTP: "1"})
    (warning,) = [each for each in caplog.records if each.levelname == "WARNING"]
    assert warning.getMessage().startswith("unencrypted ")
    assert "very-secret" not in caplog.text


@pytest.mark.parametrize(
    "place",
    [
        "s3://bucket/x",
        "s3://bucket/x?endpoint=https://minio.internal:9000",
        "s3://bucket/x?endpoint=http://127.0.0.1:9000",
        "s3://bucket/x?endpoint=http://[::1]:9000",
        "s3://bucket/x?endpoint=http://localhost:9000",
        "s3://bucket/x?endpoint=http://minio.internal&anonymous=true",
        "memory:///x",
        "/data/backups",
    ],
)
def test_other_endpoints_are_not_warned_of(place: str, caplog: pytest.LogCaptureFixture) -> None:
    open_store(place, environment={})
    assert not caplog.records


def test_no_text_of_the_library_is_shown_for_a_prefix_with_an_empty_part() -> None:
    with pytest.raises(BadRepositoryUrl, match="a prefix in a bucket must not have an empty part") as refused:
        open_store("s3://bucket//x")
    assert "\n" not in refused.value.message
    assert refused.value.hint == "write it as s3://bucket/one/two"


def test_a_folder_lies_where_links_lead_to(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a/b")
    first, *_ = places_above(open_store(str(tmp_path / "link/c")))
    assert first.url == str(tmp_path / "a/b")


def test_the_places_above_are_those_that_the_path_leads_through() -> None:
    store = open_store("s3://bucket/a/b?endpoint=https://minio", environment={})
    assert [above.url for above in places_above(store)] == ["s3://bucket/a", "s3://bucket"]
    assert all(isinstance(above, CloudStore) and above.options == store.options for above in places_above(store))  # type: ignore[union-attr]
    assert [above.url for above in places_above(open_store("/a/b"))] == ["/a", "/"]
    assert list(places_above(open_store("s3://bucket"))) == []
