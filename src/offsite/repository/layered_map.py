"""Immutable mappings. A changed copy costs only its changes.

A state of a backup has tens of thousands of partitions, and a round moves a few: states share the unchanged entries. A
mapping consists of a few dicts, each laid over the previous ones; no dict is written to after its creation. The newest
dict is merged into the one below as soon as the lower dict is at most twice as large. So layers stay few, and each
entry is copied only a few times.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_GONE = object()
"""Marks a key of the layers below as removed."""


class LayeredMap(Mapping[K, V]):
    """Immutable. Keeps the order of first appearance, as a dict does."""

    __slots__ = ("_layers", "_length")

    def __init__(self, entries: Mapping[K, V] | None = None) -> None:
        self._layers: tuple[dict[K, object], ...] = (dict(entries or {}),)
        self._length = len(self._layers[0])

    def with_changes(self, changes: Mapping[K, object]) -> LayeredMap[K, V]:
        """A copy with `changes`; `_GONE` removes a key."""
        result: LayeredMap[K, V] = LayeredMap()
        result._length = self._length + sum((value is not _GONE) - (key in self) for key, value in changes.items())
        result._layers = _merged((*self._layers, dict(changes)))
        return result

    def __getitem__(self, key: K) -> V:
        for layer in reversed(self._layers):
            if (value := layer.get(key, self)) is not self:
                if value is _GONE:
                    break
                return cast("V", value)
        raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        for layer in reversed(self._layers):
            if (value := layer.get(cast("K", key), self)) is not self:
                return value is not _GONE
        return False

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[K]:
        return iter(self._plain())

    def keys(self) -> KeysView[K]:
        return self._plain().keys()

    def values(self) -> ValuesView[V]:
        return self._plain().values()

    def items(self) -> ItemsView[K, V]:
        return self._plain().items()

    def __reduce__(self) -> tuple[object, ...]:
        return LayeredMap, (self._plain(),)

    def __repr__(self) -> str:
        return f"LayeredMap({self._plain()})"

    def _plain(self) -> dict[K, V]:
        """All entries in one layer, kept in place of the layers: the content is equal."""
        if len(self._layers) > 1:
            self._layers = (_laid_over(self._layers),)
        return cast("dict[K, V]", self._layers[0])


class LayeredMapBuilder(Generic[K, V]):
    """The working copy of a mapping; copies only the changes."""

    def __init__(self, base: Mapping[K, V]) -> None:
        self._base: LayeredMap[K, V] = base if isinstance(base, LayeredMap) else LayeredMap(base)
        self._changes: dict[K, object] = {}

    def get(self, key: K) -> V | None:
        value = self._changes.get(key, self)
        if value is self:
            return self._base.get(key)
        return None if value is _GONE else cast("V", value)

    def __contains__(self, key: K) -> bool:
        return self.get(key) is not None

    def __setitem__(self, key: K, value: V) -> None:
        self._changes[key] = value

    def remove(self, key: K) -> None:
        self._changes[key] = _GONE

    def build(self) -> LayeredMap[K, V]:
        """The mapping so far. Later changes do not affect the returned mapping."""
        if self._changes:
            self._base, self._changes = self._base.with_changes(self._changes), {}
        return self._base


def _merged(layers: tuple[dict[K, object], ...]) -> tuple[dict[K, object], ...]:
    stack = [layer for layer in layers if layer] or [{}]
    while len(stack) > 1 and len(stack[-2]) <= 2 * len(stack[-1]):
        newest = stack.pop()
        below = stack.pop()
        stack.append({**below, **newest})
    return tuple(stack) if len(stack) > 1 else (_laid_over(tuple(stack)),)


def _laid_over(layers: tuple[dict[K, object], ...]) -> dict[K, object]:
    whole: dict[K, object] = {}
    for layer in layers:
        whole.update(layer)
    if any(value is _GONE for value in whole.values()):
        return {key: value for key, value in whole.items() if value is not _GONE}
    return whole
