from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator

import pytest

from offsite.model import errors
from offsite.model.errors import Bug, OffsiteError


def _tree(kind: type[OffsiteError]) -> Iterator[type[OffsiteError]]:
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from _tree(child)


ALL = sorted(set(_tree(OffsiteError)), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_error_says_what_it_means_in_one_docstring(kind: type[OffsiteError]) -> None:
    assert (kind.__doc__ or "").strip().endswith("."), kind
    assert "__doc__" in vars(kind)


def test_every_error_has_an_id_of_its_own() -> None:
    ids = [kind.id for kind in ALL]

    assert len(set(ids)) == len(ids), sorted({each for each in ids if ids.count(each) > 1})
    assert all(each.startswith("OFF-") and len(each) == len("OFF-0000") for each in ids)


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_an_id_begins_with_the_exit_code_where_the_code_is_one_of_a_kind(kind: type[OffsiteError]) -> None:
    """So that a person who sees one knows the other; exit code 1 stands for all the rest."""
    assert int(kind.id[4:6]) == kind.exit_code or (kind.exit_code == 1 and kind.id[4:6] in {"00", "01"})


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_errors_cross_process_borders_with_their_hint(kind: type[OffsiteError]) -> None:
    copy = pickle.loads(pickle.dumps(kind("what happened", hint="what to do")))

    assert (type(copy), copy.message, copy.hint) == (kind, "what happened", "what to do")


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    lines = [line.split() for line in (inspect.getdoc(errors) or "").splitlines() if line.strip()[:1] in {"|", "`"}]
    kinds = [kind for kind in OffsiteError.__subclasses__() if kind.__subclasses__() or kind is Bug]

    assert {name: int(code) for _, name, code, *_ in lines} == {kind.__name__: kind.exit_code for kind in kinds}
