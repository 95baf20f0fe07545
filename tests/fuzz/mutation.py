"""The mutants of a target by number: the same number is the same mutant, on every machine, for ever.

Drawn from a plain `random.Random`, not by hypothesis: a mutant is one of thousands that no assertion distinguishes,
each runs in another process that may die of it, and shrinking would run it there hundreds of times. (Target, seed,
number) is a shorter recipe than any shrunk example, and a few KiB of corpus need no shrinking.
"""

from __future__ import annotations

from random import Random

from tests.fuzz.byte_mutators import BYTE_MUTATORS, splice_with
from tests.fuzz.json_mutators import mutate_json
from tests.fuzz.target import Files, Target

_CHANGES_MAX = 3


def mutant(target: Target, *, name: str, seed: int, index: int) -> Files:
    """Mutant `index` of the target called `name`: all of its files, one of them changed."""
    rng = Random(f"{name}/{seed}/{index}")
    key = rng.choice(sorted(target.files))
    data = target.files[key]
    layers = target.layers(key, data)
    layer = rng.choice(layers) if layers and rng.random() < 0.7 else None
    if layer is None:
        return target.seal(target.files, key, changed(data, target, rng))
    return target.seal(target.files, key, layer.close(changed(layer.open(data), target, rng)))


def changed(data: bytes, target: Target, rng: Random) -> bytes:
    """`data` after one change, sometimes a few."""
    donors = [*target.donors, *(target.files[key] for key in sorted(target.files))]
    mutators = (*BYTE_MUTATORS, splice_with(donors))
    for _ in range(rng.choice((1, 1, 1, 2, _CHANGES_MAX))):
        as_json = mutate_json(data, rng) if rng.random() < 0.6 else None
        if as_json is not None:
            data = as_json
        elif data:
            data = rng.choice(mutators)(data, rng)
    return data
