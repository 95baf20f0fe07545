"""How objects of Kubernetes are merged: as `kubectl apply` merges a pod template, and as an API server takes a patch.
Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

_KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
"""Lists that are merged: the field by which two of their parts are the same. Others are replaced as a whole."""


def strategic_merge(base: Object, patch: Object) -> dict[str, Any]:
    """`base` with what `patch` says of it. Maps are merged, and so are lists of parts that have names; what is new in
    these comes last."""
    made = dict(base)
    for name, value in patch.items():
        before = made.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            made[name] = strategic_merge(before, value)
        elif name in _KEYS and before is not None:
            made[name] = _merged(before, value, _KEYS[name])
        else:
            made[name] = value
    return made


def _merged(base: Sequence[Object], patch: Sequence[Object], key: str) -> list[Object]:
    patches = {part[key]: part for part in patch}
    known = [strategic_merge(part, patches.pop(part[key], {})) for part in base]
    return [*known, *patches.values()]


def merge_patch(before: Object, after: Object) -> dict[str, Any]:
    """What makes `after` of one that has `before`, and may have more, by a patch of RFC 7396: that merges maps, so what
    is gone is named."""
    made: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        was = before.get(name)
        is_merged = isinstance(value, Mapping) and isinstance(was, Mapping)
        made[name] = merge_patch(was, value) if is_merged else value  # type: ignore[arg-type]  # as was asked
    return made
