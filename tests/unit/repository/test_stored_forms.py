"""The annotations of stored classes make sense: they are evaluated at first use, which may be far from a test."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import offsite.operator
import offsite.repository
from offsite.model.untrusted.json_codec import JsonCodec
from offsite.repository.json_form import StoredForm

MODULES = [
    module.name
    for package in (offsite.repository, offsite.operator)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_each_declared_form_is_complete(name: str) -> None:
    for form in vars(importlib.import_module(name)).values():
        codec = form.codec if isinstance(form, StoredForm) else form
        if isinstance(codec, JsonCodec):
            assert callable(codec.read)
            assert callable(codec.write)
