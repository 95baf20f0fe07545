"""What the operator relies on in a cluster: held against the one in memory that other tests use, and against the
adapter over HTTP with kmock behind it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import kmock
import pytest

from offsite.model.errors import BadResource, KubernetesDenied, KubernetesUnavailable, ResourceConflict
from offsite.operator.kubernetes.api import (
    ANSWER_MAX_BYTES,
    OBJECT_MAX_BYTES,
    PAGE,
    Access,
    HttpKubernetesApi,
    KubernetesApi,
)
from tests.unit.operator.kubernetes.memory_cluster import MemoryCluster

DEPLOYMENTS = "/apis/apps/v1/namespaces/shops/deployments"
SHOP: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "shop", "namespace": "shops", "annotations": {"a": "1", "b": "2"}},
    "spec": {"replicas": 3},
}


@pytest.fixture(scope="module")
def api() -> Iterator[tuple[kmock.KubernetesEmulator, HttpKubernetesApi]]:
    """kmock, and the adapter that asks it."""
    loop, started, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[tuple[kmock.KubernetesEmulator, HttpKubernetesApi]] = []

    async def serve() -> None:
        async with kmock.KubernetesEmulator() as emulator, kmock.Server(emulator) as server:
            access = Access(url=str(server.url).rstrip("/"), headers={"Authorization": "Bearer word"})
            found.append((emulator, HttpKubernetesApi(lambda: access)))
            started.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert started.wait(30)
    yield found[0]
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


@pytest.fixture(params=["memory", "http"])
def cluster(request: pytest.FixtureRequest) -> KubernetesApi:
    if request.param == "memory":
        return MemoryCluster()
    emulator, http = request.getfixturevalue("api")
    for key in list(emulator.objects):
        del emulator.objects[key]
    return http


def test_what_was_made_is_there_and_what_was_not_is_none(cluster: KubernetesApi) -> None:
    assert cluster.get(f"{DEPLOYMENTS}/shop") is None
    cluster.create(DEPLOYMENTS, SHOP)
    found = cluster.get(f"{DEPLOYMENTS}/shop")
    assert found is not None
    assert found["spec"] == {"replicas": 3}


def test_of_an_object_the_metadata_can_be_asked_alone(cluster: KubernetesApi) -> None:
    assert cluster.metadata(f"{DEPLOYMENTS}/shop") is None
    cluster.create(DEPLOYMENTS, SHOP)
    assert (cluster.metadata(f"{DEPLOYMENTS}/shop") or {})["name"] == "shop"
    assert cluster.patch(f"{DEPLOYMENTS}/shop", {"metadata": {"labels": {"a": "b"}}})
    assert (cluster.metadata(f"{DEPLOYMENTS}/shop") or {})["labels"] == {"a": "b"}


def test_nothing_is_made_twice(cluster: KubernetesApi) -> None:
    cluster.create(DEPLOYMENTS, SHOP)
    with pytest.raises(ResourceConflict):
        cluster.create(DEPLOYMENTS, SHOP)


def test_a_patch_is_merged_and_tells_whether_there_is_anything(cluster: KubernetesApi) -> None:
    assert not cluster.patch(f"{DEPLOYMENTS}/shop", {"spec": {"replicas": 1}})
    cluster.create(DEPLOYMENTS, SHOP)
    assert cluster.patch(f"{DEPLOYMENTS}/shop", {"metadata": {"annotations": {"a": None, "c": "3"}}})
    found = cluster.get(f"{DEPLOYMENTS}/shop")
    assert found is not None
    assert found["metadata"]["annotations"] == {"b": "2", "c": "3"}
    assert found["spec"] == {"replicas": 3}


def test_a_collection_is_listed_over_all_namespaces(cluster: KubernetesApi) -> None:
    cluster.create(DEPLOYMENTS, SHOP)
    cluster.create(DEPLOYMENTS.replace("shops", "others"), {**SHOP, "metadata": {"name": "b", "namespace": "others"}})
    assert [each["metadata"]["name"] for each in cluster.list("/apis/apps/v1/deployments")] == ["shop", "b"]
    assert [each["metadata"]["name"] for each in cluster.list(DEPLOYMENTS)] == ["shop"]


def test_what_is_gone_may_be_deleted_again(cluster: KubernetesApi) -> None:
    cluster.create(DEPLOYMENTS, SHOP)
    uid = (cluster.get(f"{DEPLOYMENTS}/shop") or {})["metadata"].get("uid", "")
    for _ in range(2):
        cluster.delete(f"{DEPLOYMENTS}/shop", uid=uid)
    assert cluster.get(f"{DEPLOYMENTS}/shop") is None


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, KubernetesDenied),
        (403, KubernetesDenied),
        (409, ResourceConflict),
        (422, BadResource),
        (429, KubernetesUnavailable),
        (500, KubernetesUnavailable),
    ],
)
def test_each_refusal_is_an_error_of_ours(
    api: tuple[kmock.KubernetesEmulator, HttpKubernetesApi], status: int, error: type[Exception]
) -> None:
    emulator, http = api
    emulator[f"get /broken/{status}"] << status << {"message": "why not"}
    with pytest.raises(error, match="why not"):
        http.get(f"/broken/{status}")


def test_what_is_denied_may_be_denied_by_a_quota(api: tuple[kmock.KubernetesEmulator, HttpKubernetesApi]) -> None:
    emulator, http = api
    emulator["get /broken/quota"] << 403 << {"message": "exceeded quota"}
    with pytest.raises(KubernetesDenied, match="exceeded quota") as caught:
        http.get("/broken/quota")
    assert "quota" in caught.value.hint
    assert "namespace.yaml" in caught.value.hint, "there is the role"


@pytest.mark.parametrize("status", [200, 404])
@pytest.mark.parametrize("body", ["", "{}", "[]", '{"error": "no backend"}'])
def test_an_answer_of_something_before_the_server_shows_nothing_to_be_gone(
    api: tuple[kmock.KubernetesEmulator, HttpKubernetesApi], status: int, body: str
) -> None:
    if status == 200 and "error" in body:
        return
    emulator, http = api
    path = f"/balancer/{status}/{len(body)}"
    for method in ("get", "patch"):
        emulator[f"{method} {path}"] << status << body.encode()
    for ask in (http.get, http.metadata, lambda path: http.patch(path, {})):
        with pytest.raises(KubernetesUnavailable, match="not by the API"):
            ask(path)


def test_an_api_that_is_not_there_is_waited_for() -> None:
    nowhere = HttpKubernetesApi(lambda: Access(url="http://127.0.0.1:1", headers={}))
    with pytest.raises(KubernetesUnavailable):
        nowhere.get(DEPLOYMENTS)


def test_who_asks_is_told_with_each_request_and_never_shown(
    api: tuple[kmock.KubernetesEmulator, HttpKubernetesApi],
) -> None:
    emulator, http = api
    http.get(f"{DEPLOYMENTS}/nobody")
    assert list(emulator)[-1].headers["Authorization"] == "Bearer word"
    assert "word" not in repr(Access(url="", headers={"Authorization": "Bearer word"}))


def test_of_a_secret_its_data_never_leave_the_server() -> None:
    """An API server answers with names and labels alone where it is asked so."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Accept"])
            data = b'{"metadata": {"name": "a", "labels": {"b": "c"}}}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster = HttpKubernetesApi(lambda: Access(url=f"http://127.0.0.1:{server.server_port}", headers={}))
        found = cluster.metadata("/api/v1/namespaces/shops/secrets/a")
        server.shutdown()
        thread.join()
    assert found == {"name": "a", "labels": {"b": "c"}}
    assert asked == ["application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"]


def test_a_page_of_the_largest_objects_is_read_whole() -> None:
    """Whoever may declare fills them, with labels alone: a page that was cut was no answer, for all namespaces."""
    assert PAGE * OBJECT_MAX_BYTES < ANSWER_MAX_BYTES
