from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "vague_names.py"
VAGUE = "for each in range(3):\n    print(each)\n"
PLAIN = "for number in range(3):\n    print(number)\n"


def check(root: Path, allowed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a copy of the script over the tree `root`, whose list says `allowed`."""
    (root / "scripts").mkdir(exist_ok=True)
    script = root / "scripts" / SCRIPT.name
    script.write_text(SCRIPT.read_text())
    (root / "scripts" / "vague_names.txt").write_text(allowed)
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("source", "allowed", "code"),
    [
        (PLAIN, "", 0),
        (VAGUE, "", 1),
        (VAGUE, "src/one.py 1\n", 0),
        (PLAIN, "src/one.py 1\n", 1),
        ("def find(found: int) -> int:\n    return found\n", "", 1),
        ("_found = 1\n", "", 1),
    ],
)
def test_only_listed_vague_names_pass_and_the_list_is_exact(
    tmp_path: Path, source: str, allowed: str, code: int
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "one.py").write_text(source)
    assert check(tmp_path, allowed).returncode == code


def test_write_lowers_a_count_and_never_raises_one(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "fewer.py").write_text(VAGUE)
    (tmp_path / "src" / "more.py").write_text(VAGUE * 2)
    result = check(tmp_path, "src/fewer.py 3\nsrc/gone.py 2\nsrc/more.py 1\n", "--write")
    assert result.returncode == 1
    assert "src/more.py: 2 vague names, 1 allowed" in result.stdout
    assert (tmp_path / "scripts" / "vague_names.txt").read_text() == "src/fewer.py 1\nsrc/more.py 1\n"
