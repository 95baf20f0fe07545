"""Each part of pyspark that the quick start uses is looked for before it is used."""

from __future__ import annotations

from importlib import import_module
from operator import attrgetter

import pytest

from offsite.engine.local import pyspark_internals
from offsite.engine.local.pyspark_internals import PARTS, InternalsMissing, check_parts


def test_this_pyspark_has_all_parts() -> None:
    check_parts()


@pytest.mark.parametrize(("module", "name"), PARTS)
def test_a_part_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    owner, _, last = name.rpartition(".")
    found = import_module(module)
    monkeypatch.delattr(attrgetter(owner)(found) if owner else found, last)
    with pytest.raises(InternalsMissing, match=last):
        check_parts()


def test_a_module_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark_internals, "_WORKER", "pyspark.no_worker")
    with pytest.raises(InternalsMissing, match="no_worker"):
        check_parts()
