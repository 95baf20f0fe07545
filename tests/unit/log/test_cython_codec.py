"""Threads that decode their first records while another one imports the codec all get it."""

from __future__ import annotations

import subprocess
import sys

_AT_ONCE = """
import threading, time
from offsite.log.cython_codec import cython_codec
from offsite.log.varint import varint_reader

codecs = []

def decode(number):
    time.sleep(number / 100)  # at every moment of an import
    codecs.append(varint_reader() if number % 2 else cython_codec().batch)

threads = [threading.Thread(target=decode, args=(number,)) for number in range(40)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(codecs) == 40
"""


def test_threads_that_decode_first_at_once_import_the_codec_once() -> None:
    done = subprocess.run([sys.executable, "-c", _AT_ONCE], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
