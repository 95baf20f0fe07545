from __future__ import annotations

import pickle
import random

from offsite.repository.state import LayeredMap, LayeredMapBuilder


def test_it_says_what_a_dict_would_say_and_earlier_ones_never_change() -> None:
    drawn = random.Random(7)
    model: dict[int, int] = {}
    found: LayeredMap[int, int] = LayeredMap()
    kept: list[tuple[LayeredMap[int, int], dict[int, int]]] = []
    for step in range(300):
        building = LayeredMapBuilder(found)
        for key in drawn.sample(range(200), drawn.randrange(12)):
            if key in model and drawn.random() < 0.3:
                del model[key]
                building.remove(key)
                assert building.get(key) is None
            else:
                model[key] = step
                building[key] = step
                assert building.get(key) == step
        found = building.build()
        kept.append((found, dict(model)))
        assert len(found) == len(model)
        assert all(found.get(key) == model.get(key) and (key in found) == (key in model) for key in range(200))
    assert all(pickle.loads(pickle.dumps(seen)) == said for seen, said in kept[::10])
    assert all(seen == said and len(seen) == len(said) and dict(seen.items()) == said for seen, said in kept)


def test_entries_stand_in_the_order_in_which_they_first_came() -> None:
    building = LayeredMapBuilder(LayeredMap({"b": 1, "a": 1}))
    building["c"] = 1
    once = building.build()
    building["b"] = 2
    assert (list(once), list(building.build()), once["b"]) == (["b", "a", "c"], ["b", "a", "c"], 1)


def test_a_change_costs_what_it_changes() -> None:
    """Not a copy of what stays: 20,000 partitions, of which each round moves a few."""
    found: LayeredMap[int, int] = LayeredMap(dict.fromkeys(range(20_000), 0))
    base = found._layers[0]
    for step in range(1_000):
        building = LayeredMapBuilder(found)
        for key in range(4):
            building[key + step % 100] = step
        found = building.build()
        assert found._layers[0] is base
        assert len(found._layers) < 16
