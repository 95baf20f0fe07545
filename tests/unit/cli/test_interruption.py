"""A signal must never be lost, and never show a traceback: in a process of its own, which ends itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, signal, sys, time
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_DFL)
from offsite.cli.process import Interruption
interruption = Interruption()
interruption.raise_in_command()
NUMBER = int(sys.argv[1])
def wait_for_ever():
    while True:
        time.sleep(0.01)
try:
"""
END = """
except KeyboardInterrupt:
    print("cleaned up")
    interruption.tell()
    interruption.end_at_once()
    sys.exit(interruption.exit_code)
"""
AT_WORK = """
    os.kill(os.getpid(), NUMBER)
    wait_for_ever()
"""
IN_AN_IMPORT = """
    import signalled
    assert signalled.whole
    wait_for_ever()
"""
IN_A_FINALISER = """
    class Signalled:
        def __del__(self):
            os.kill(os.getpid(), NUMBER)
    Signalled()
    wait_for_ever()
"""
SWALLOWED = """
    import weakref
    class Watched: pass
    watched = Watched()
    reference = weakref.ref(watched, lambda _: os.kill(os.getpid(), NUMBER))
    del watched
    wait_for_ever()
"""
SWALLOWED_SLOWLY = (
    """
    raise_later = interruption._raise_later
    def raise_later_and_sleep():
        interruption._raise_later = raise_later
        raise_later()
        time.sleep(0.1)
    interruption._raise_later = raise_later_and_sleep
"""
    + SWALLOWED
)
AGAIN_IN_THE_CLEAN_UP = """
    try:
        os.kill(os.getpid(), NUMBER)
        wait_for_ever()
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.05)
"""
MODULE = """
import os, sys, time
os.kill(os.getpid(), int(sys.argv[1]))
time.sleep(0.05)
whole = True
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "body", [AT_WORK, IN_AN_IMPORT, IN_A_FINALISER, SWALLOWED, SWALLOWED_SLOWLY, AGAIN_IN_THE_CLEAN_UP]
)
def test_a_signal_ends_the_command_wherever_it_is(tmp_path: Path, body: str, number: signal.Signals) -> None:
    (tmp_path / "signalled.py").write_text(MODULE)
    done = run(BEGIN + body + END, number, tmp_path)
    told = "" if number == signal.SIGINT else f"interrupted by {number.name}\n"
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "cleaned up\n", told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_before_the_command_there_is_nothing_to_clean_up(tmp_path: Path, number: signal.Signals) -> None:
    script = BEGIN.replace("raise_in_command", "end_at_once") + AT_WORK + END
    done = run(script, number, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")


def run(script: str, number: signal.Signals, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, str(int(number))],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


LATE = """
import os, signal, sys
from offsite.cli import app, main
from offsite.cli.process import Interruption

class Late(Interruption):
    is_over = False

    @property
    def signal(self):
        if Late.is_over:
            Late.is_over = False
            os.kill(os.getpid(), signal.SIGTERM)
        return self.known

    @signal.setter
    def signal(self, known):
        self.known = known

def run():
    Late.is_over = True
    sys.exit(0)

main.Interruption, app.run = Late, run
main.main()
"""


def test_a_signal_while_the_end_of_the_command_is_looked_at_is_no_error() -> None:
    ended = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (128 + signal.SIGTERM, "")
