"""Resources of Strimzi as YAML: their names, their envelope, their text. Pure.

The text is written here, because a reader of YAML is no part of a plain installation: mappings and lists in block form,
and every text that YAML could read otherwise in the quotes of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from offsite.model.options import StrimziVersion

Manifest = Mapping[str, object]
CLUSTER_LABEL = "strimzi.io/cluster"
"""Strimzi's operators own a resource by this label, which names the resource Kafka."""
NAME_MAX_CHARS = 253
_LABEL_MAX_CHARS = 63
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./-]*")
_WORDS_OF_YAML = frozenset({"y", "yes", "n", "no", "true", "false", "on", "off", "null"})
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def is_name(text: str) -> bool:
    """Whether `text` may be the name of a resource (RFC 1123, a subdomain)."""
    return len(text) <= NAME_MAX_CHARS and _NAME.fullmatch(text) is not None


def is_cluster(text: str) -> bool:
    """Whether `text` may be the name of a resource Kafka: the value of a label as well."""
    return is_name(text) and len(text) <= _LABEL_MAX_CHARS


def manifest(kind: str, name: str, spec: Manifest, *, cluster: str, version: StrimziVersion) -> Manifest:
    """The resource of a `kind`. `cluster`: the name of the resource Kafka; empty: no operator owns the resource yet."""
    labels = {"labels": {CLUSTER_LABEL: cluster}} if cluster else {}
    return {
        "apiVersion": f"kafka.strimzi.io/{version}",
        "kind": kind,
        "metadata": {"name": name, **labels},
        "spec": spec,
    }


def document_text(document: Manifest) -> str:
    """A document of YAML, with its `---`."""
    return "\n".join(["---", *_mapping(document), ""])


def _mapping(value: Manifest) -> Iterator[str]:
    for name, inner in value.items():
        yield from _entry(f"{_scalar(name)}:", inner)


def _entry(head: str, value: object) -> Iterator[str]:
    """The lines of a value behind its name. An empty mapping or list is written in the form of JSON."""
    if isinstance(value, Mapping) and value:
        yield head
        yield from (f"  {line}" for line in _mapping(value))
    elif isinstance(value, list | tuple) and value:
        yield head
        yield from (f"  {line}" for line in _items(value))
    else:
        yield f"{head} {_scalar(value)}"


def _items(values: Sequence[object]) -> Iterator[str]:
    for value in values:
        first, *following = _mapping(value) if isinstance(value, Mapping) and value else (_scalar(value),)
        yield f"- {first}"
        yield from (f"  {line}" for line in following)


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
