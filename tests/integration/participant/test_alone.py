"""Who embeds the package pays for nothing else: not for offsite, nor for what offsite requires."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from zipfile import ZipFile

import pytest

import offsite_participant
from offsite.engine.executor_archive import PACKAGES
from offsite.model.version import __version__

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "participant"
NAMES = sorted(module.name for module in pkgutil.iter_modules(offsite_participant.__path__))
OLDER_NAMES = [f"offsite.{'cut' if name.startswith('bcs') else 'participant'}.{name}" for name in NAMES]
_LOADED = "import json, sys; before = set(sys.modules); import {}; print(json.dumps(sorted(set(sys.modules) - before)))"


def loaded_by(module: str, *options: str, path: Path | None = None) -> set[str]:
    """The modules that an import of `module` loads, without those of the standard library."""
    command = [sys.executable, *options, "-c", _LOADED.format(module)]
    environment = os.environ if path is None else os.environ | {"PYTHONPATH": str(path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return {name for name in json.loads(done.stdout) if name.partition(".")[0] not in sys.stdlib_module_names}


@pytest.mark.parametrize("name", NAMES)
def test_a_module_loads_the_standard_library_and_its_package(name: str) -> None:
    loaded = loaded_by(f"offsite_participant.{name}")
    assert {module.partition(".")[0] for module in loaded} == {"offsite_participant"}


@pytest.mark.parametrize("module", ["offsite.participant", *OLDER_NAMES])
def test_an_older_name_loads_no_more_of_offsite(module: str) -> None:
    loaded = {name for name in loaded_by(module) if not name.startswith("offsite_participant")}
    assert loaded == {"offsite", module.rpartition(".")[0], module}


@pytest.mark.parametrize(("name", "older_name"), list(zip(NAMES, OLDER_NAMES, strict=True)))
def test_an_older_name_offers_the_same(name: str, older_name: str) -> None:
    module, older = import_module(f"offsite_participant.{name}"), import_module(older_name)
    public = {key: value for key, value in vars(module).items() if not key.startswith("_")}
    assert {key: vars(older).get(key) for key in public} == public
    assert older.__doc__ == module.__doc__


def test_both_distributions_have_one_version_and_one_license() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == __version__
    assert project["dependencies"] == []
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_executors_get_every_package_of_offsite() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {Path(folder).name for folder in folders} == set(PACKAGES)


def test_its_wheel_works_without_any_other_package(tmp_path: Path) -> None:
    wheel = built_wheel(FOLDER, tmp_path)
    imports = ", ".join(f"offsite_participant.{name}" for name in NAMES)
    loaded = loaded_by(imports, "-S", path=wheel)  # -S: without installed packages
    assert {module.partition(".")[0] for module in loaded} == {"offsite_participant"}
    with ZipFile(wheel) as files:
        (metadata,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        assert b"Requires-Dist" not in files.read(metadata)


def test_the_wheel_of_offsite_contains_it(tmp_path: Path) -> None:
    wheel = built_wheel(ROOT, tmp_path)
    with ZipFile(wheel) as files:
        contents = set(files.namelist())
    assert {f"offsite_participant/{name}.py" for name in NAMES} <= contents
    assert {"offsite/__init__.py", "pyspark_offsite/__init__.py", "offsite_participant/py.typed"} <= contents


def built_wheel(project: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel
