"""Merges Kubernetes objects: pod templates as in `kubectl apply`, and patches as in an API server. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]

_KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
"""Lists that are merged, with the field that identifies an element. Other lists are replaced as a whole."""


def strategic_merge(base: Object, patch: Object) -> dict[str, Any]:
    """Merge `patch` into `base`. Maps are merged, and so are lists of named elements; new elements come last."""
    merged = dict(base)
    for name, value in patch.items():
        before = merged.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            merged[name] = strategic_merge(before, value)
        elif name in _KEYS and before is not None:
            merged[name] = _merged(before, value, _KEYS[name])
        else:
            merged[name] = value
    return merged


def _merged(base: Sequence[Object], patch: Sequence[Object], key: str) -> list[Object]:
    patches = {part[key]: part for part in patch}
    existing = [strategic_merge(part, patches.pop(part[key], {})) for part in base]
    return [*existing, *patches.values()]


def merge_patch(before: Object, after: Object) -> dict[str, Any]:
    """Return the RFC 7396 patch that changes an object with `before` (and possibly more) into one with `after`. The
    patch format merges maps, so removed keys are named with null."""
    patch: dict[str, Any] = dict.fromkeys(before.keys() - after.keys())
    for name, value in after.items():
        was = before.get(name)
        is_merged = isinstance(value, Mapping) and isinstance(was, Mapping)
        patch[name] = merge_patch(was, value) if is_merged else value  # type: ignore[arg-type]  # as was asked
    return patch
