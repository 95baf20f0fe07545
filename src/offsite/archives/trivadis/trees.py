"""Which of the two trees of a compacted topic to believe: two connectors archive it in turn, and one may be half there.

A tree that begins no later and reaches no less far than the other is taken alone: in a half deleted one, keys could
rise again whose tombstones are gone. Otherwise both are read, in the order of offsets. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from offsite.archives.trivadis.object_key import ArchiveObject

__all__ = ["choose_trees"]

Tree = Sequence[ArchiveObject]


def choose_trees(objects: Sequence[ArchiveObject], end_of: Callable[[ArchiveObject], int]) -> tuple[Tree, str]:
    """The objects of one partition to read, by offset, and what of them was left out, as a sentence or empty.

    `end_of` reads an object for the offset behind its last record; it is asked only when there are two trees.
    """
    trees = _by_tree(objects)
    if len(trees) < 2:
        return _in_order(objects), ""
    spans = {name: (tree[0].start, end_of(tree[-1])) for name, tree in trees.items()}
    best = min(trees, key=lambda name: (spans[name][0], -spans[name][1], name))
    begin, end = spans[best]
    where = f"{objects[0].topic}/{objects[0].partition}"
    if all(begin <= start and end >= stop for start, stop in spans.values()):
        others = ", ".join(name or "the topic itself" for name in sorted(trees) if name != best)
        return trees[best], f"{where}: of several trees, {best or 'the topic itself'} was read, not {others}"
    return _in_order(objects), f"{where}: none of {', '.join(sorted(trees))} is complete, and all were read"


def _by_tree(objects: Sequence[ArchiveObject]) -> dict[str, Tree]:
    return {
        tree: _in_order(archived for archived in objects if archived.tree == tree)
        for tree in {archived.tree for archived in objects}
    }


def _in_order(objects: Iterable[ArchiveObject]) -> Tree:
    return sorted(objects, key=lambda archived: (archived.start, archived.key))
