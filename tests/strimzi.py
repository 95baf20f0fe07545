"""Strimzi's definitions for Kubernetes, made by Strimzi's own generator out of Strimzi's own classes: those of 0.51,
the last version with `v1` and `v1beta2`. Published definitions of later versions have `v1` alone, and other labels."""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from offsite.sandbox.java import find_java
from offsite.sandbox.versions import Jar
from tests.fetched_tools import NoTool, kept, maven_jars

VERSIONS = ("v1", "v1beta2")
_API, _GENERATOR, _MODEL = "0.51.0", "0.45.0", "7.4.0"
_CLASSES = {
    "Kafka": "io.strimzi.api.kafka.model.kafka.Kafka",
    "KafkaTopic": "io.strimzi.api.kafka.model.topic.KafkaTopic",
    "KafkaUser": "io.strimzi.api.kafka.model.user.KafkaUser",
}
_JARS = (
    Jar(  # first: the generator has an older one inside, without a class that the definition of Kafka needs
        group="io.fabric8",
        artifact="kubernetes-model-core",
        version=_MODEL,
        sha256="673155a4ef2a136a7abd8944f4d5d78d1582787cbb55a0745dbbe2e5fdb4fef2",
    ),
    Jar(
        group="io.strimzi",
        artifact="crd-generator",
        version=_GENERATOR,
        sha256="f03aab1b83d29bbd340ce484a4bb651faac7685c685865a30351a636da6008ea",
    ),
    Jar(
        group="io.strimzi",
        artifact="crd-annotations",
        version=_GENERATOR,
        sha256="a0f4e6cf97f07a64665397b5202e12ef1a5fd76d36f5c089eb085759b1cf2cce",
    ),
    Jar(
        group="io.strimzi",
        artifact="api",
        version=_API,
        sha256="219b54d570c408523f62bffc999041c64ea926afbc784be942290709fbbcde62",
    ),
)
_LIMIT_S = 300


@functools.cache
def definition(kind: str) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind. Raises `NoTool`."""
    text = (_definitions() / f"{kind}.yaml").read_text(encoding="utf-8")
    made: dict[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)  # safe, and ten times as fast
    return made


def schema(kind: str, version: str) -> dict[str, Any]:
    """The schema by which an API server checks the resources of a kind."""
    (served,) = (served for served in definition(kind)["spec"]["versions"] if served["name"] == version)
    of_version: dict[str, Any] = served["schema"]["openAPIV3Schema"]
    return of_version


def _definitions() -> Path:
    return kept(f"strimzi-definitions-{_API}", _generate)


def _generate(work: Path) -> Path:
    jars = maven_jars(f"strimzi-{_API}", _JARS)
    (folder := work / "definitions").mkdir()
    command = [
        *(str(find_java().launcher), "-cp", os.pathsep.join(str(jars / jar.file_name) for jar in _JARS)),
        *("io.strimzi.crdgenerator.CrdGenerator", "--yaml"),
        *(f"{name}={folder / kind}.yaml" for kind, name in _CLASSES.items()),
    ]
    try:
        subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, timeout=_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoTool(f"Strimzi's generator failed: {error}") from error
    return folder


def strict_schema(kind: str, version: str) -> dict[str, Any]:
    """The same schema, which refuses fields that an API server would drop in silence."""
    return _strict(schema(kind, version))


def _strict(node: dict[str, Any]) -> dict[str, Any]:
    strict = dict(node)
    if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields"):
        strict["properties"] = {name: _strict(child) for name, child in node["properties"].items()}
        if "description" in node:  # metadata is of Kubernetes, and has no fields here
            strict["additionalProperties"] = False
    if "items" in node:
        strict["items"] = _strict(node["items"])
    return strict
