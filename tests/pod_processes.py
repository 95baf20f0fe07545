"""Pods as processes of this machine: what a kubelet would do, as far as one container of Spark needs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ADDRESS = "127.0.0.1"
_LOOK_EVERY_S = 0.2
_MERGE = {"Content-Type": "application/merge-patch+json"}


@dataclass(slots=True, kw_only=True)
class PodProcesses:
    """Runs the pods of a namespace, each in `folder`, as it would run in a container whose image this environment is.

    `places`: where something lies here that the image has elsewhere. `never`: pods whose names begin so find no room,
    and stay pending. `begun`: pods as they were when they were run.
    """

    client: httpx.Client
    namespace: str
    folder: Path
    places: Mapping[str, str]
    never: str = " "
    begun: dict[str, dict[str, Any]] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def log(self, name: str) -> str:
        return (self.folder / name / "log").read_text(encoding="utf-8", errors="replace")

    def phase(self, name: str) -> str:
        return str(self.client.get(f"{self.path}/{name}").json()["status"]["phase"])

    def look_again_and_again(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            pods = {pod["metadata"]["name"]: pod for pod in self.client.get(self.path).json()["items"]}
            for name in [each for each in pods if each not in self.begun and not each.startswith(self.never)]:
                self._run(name, pods[name])
            for name, process in self.processes.items():
                if name not in pods:
                    _kill(process)
                elif process.poll() is not None and pods[name]["status"]["phase"] == "Running":
                    self._tell(name, "Succeeded" if process.returncode == 0 else "Failed")

    def end(self) -> None:
        self._over.set()
        for process in self.processes.values():
            _kill(process)

    def _run(self, name: str, pod: dict[str, Any]) -> None:
        own = self.folder / name
        places = {**self.places, **self._volumes(own, pod)}
        (container,) = pod["spec"]["containers"]
        words = [_placed(word, places) for word in [*container["command"], *container.get("args", ())]]
        environment = {each: _placed(value, places) for each, value in self._environment(pod, container).items()}
        with (own / "log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                words,
                cwd=own,
                env={**_own_environment(), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        self.begun[name] = pod
        self._tell(name, "Running")

    def _tell(self, name: str, phase: str) -> None:
        """A pod that is gone meanwhile needs to be told nothing."""
        status = {"phase": phase, "podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}]}
        self.client.patch(f"{self.path}/{name}/status", json={"status": status}, headers=_MERGE)

    def _environment(self, pod: dict[str, Any], container: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in container.get("envFrom", ()):
            found |= self._held("secrets", each["secretRef"]["name"])
        metadata = pod["metadata"]
        fields = {
            "metadata.name": metadata["name"],
            "metadata.namespace": metadata["namespace"],
            "status.podIP": ADDRESS,
        }
        for each in container.get("env", ()):
            source = each.get("valueFrom")
            found[each["name"]] = fields[source["fieldRef"]["fieldPath"]] if source else each.get("value", "")
        return found

    def _volumes(self, own: Path, pod: dict[str, Any]) -> dict[str, str]:
        """Where what is mounted lies. A temporary folder stays where it is: there is one here as well."""
        (container,) = pod["spec"]["containers"]
        mounted = {each["name"]: each["mountPath"] for each in container["volumeMounts"] if each["mountPath"] != "/tmp"}
        places = {path: str(own / "volumes" / name) for name, path in mounted.items()}
        for volume in pod["spec"]["volumes"]:
            if volume["name"] not in mounted:
                continue
            place = own / "volumes" / volume["name"]
            place.mkdir(parents=True)
            for name, text in self._files(volume).items():
                (place / name).write_text(_placed(text, places), encoding="utf-8")
        own.mkdir(exist_ok=True)
        return places

    def _files(self, volume: dict[str, Any]) -> dict[str, str]:
        if "secret" in volume:
            return self._held("secrets", volume["secret"]["secretName"])
        return self._held("configmaps", volume["configMap"]["name"]) if "configMap" in volume else {}

    def _held(self, kind: str, name: str) -> dict[str, str]:
        found = self.client.get(f"/api/v1/namespaces/{self.namespace}/{kind}/{name}").json().get("data", {})
        return {key: b64decode(text).decode() for key, text in found.items()} if kind == "secrets" else found


@contextmanager
def running_pods(
    client: httpx.Client, namespace: str, folder: Path, places: Mapping[str, str], *, never: str = " "
) -> Iterator[PodProcesses]:
    pods = PodProcesses(client=client, namespace=namespace, folder=folder, places=places, never=never)
    thread = threading.Thread(target=pods.look_again_and_again, daemon=True)
    thread.start()
    try:
        yield pods
    finally:
        pods.end()
        thread.join()


def _own_environment() -> dict[str, str]:
    """What the image has, and that the one address of a pod is that of the loopback interface."""
    return {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": ADDRESS}


def _placed(text: str, places: Mapping[str, str]) -> str:
    for there in sorted(places, key=len, reverse=True):
        text = text.replace(there, places[there])
    return text


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
