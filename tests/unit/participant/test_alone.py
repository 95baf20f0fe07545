"""Who imports the package pays for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

MODULES = (
    "offsite.participant",
    "offsite.participant.core",
    "offsite.participant.confluent",
    "offsite.participant.kafka_python",
)
_LOADED = "import json, sys; before = set(sys.modules); import {}; print(json.dumps(sorted(set(sys.modules) - before)))"


@pytest.mark.parametrize("module", MODULES)
def test_it_loads_the_standard_library_and_itself(module: str) -> None:
    command = [sys.executable, "-c", _LOADED.format(module)]
    loaded = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    roots = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    assert roots == {"offsite"}
    assert {name for name in loaded if name.startswith("offsite.")} == {
        name for name in loaded if name.startswith("offsite.participant")
    }
