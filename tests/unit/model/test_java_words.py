"""Why a Java did not start: texts of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from offsite.model.untrusted.java_failure import (
    DEFAULT_HINT,
    OPEN_FILES_MIN,
    find_cause,
    folder_to_start_in,
    hint_for,
    innermost_exception,
)

NO_HOST = """\
Exception in thread "main" java.lang.ExceptionInInitializerError
\tat org.apache.spark.internal.config.package$.<clinit>(package.scala:1190)
Caused by: java.net.UnknownHostException: kafka-7: kafka-7: Name or service not known
\tat java.base/java.net.InetAddress.getLocalHost(InetAddress.java:1685)
\t... 19 more
[2.211s][warning][cds] Skipping org/apache/spark/internal/config/package$: In error state
"""
BEGAN = "Error occurred during initialization of VM\n"
REFUSED = "Error: Could not create the Java Virtual Machine.\nError: A fatal exception has occurred. Program will exit."


@pytest.mark.parametrize(
    ("written", "words"),
    [
        (NO_HOST, "java.net.UnknownHostException: kafka-7: kafka-7: Name or service not known"),
        (f"Picked up JAVA_TOOL_OPTIONS: -XX:+A\nUnrecognized VM option 'A'\n{REFUSED}", "Unrecognized VM option 'A'"),
        (f"NOTE: Picked up JDK_JAVA_OPTIONS: -Xmx1z\nInvalid size: -Xmx1z\n{REFUSED}", "Invalid size: -Xmx1z"),
        (f"Error opening zip file: /x.jar\n{BEGAN}agent library failed to init: x\n", "Error opening zip file: /x.jar"),
        (
            f"{BEGAN}java.lang.Error: no working folder\n\tat java.lang.A\n",
            "java.lang.Error: no working folder",
        ),
        (f"{BEGAN}Initial heap size set to a larger value\n", "Initial heap size set to a larger value"),
        ("#\n# There is insufficient memory.\n# An error report is:\n", "# There is insufficient memory."),
        ("no java\n", "no java"),
        ("", "exit code 1, without output"),
    ],
)
def test_the_line_with_the_cause_is_told(written: str, words: str) -> None:
    assert find_cause(written, exit_code=1) == words


@pytest.mark.parametrize("exit_code", [-9, 137])
def test_a_java_that_was_killed_is_told_to_have_been(exit_code: int) -> None:
    assert find_cause(NO_HOST, exit_code=exit_code) == "it was killed by SIGKILL"


def test_the_cause_is_that_of_the_last_exception() -> None:
    assert (
        innermost_exception(f'{NO_HOST}Exception in thread "main" a.B: c\n\tat d\n')
        == 'Exception in thread "main" a.B: c'
    )
    assert innermost_exception("no stack") == ""


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("java.net.UnknownHostException: kafka-7", "/etc/hosts"),
        ("java.io.IOException: Too many open files", "ulimit -n"),
        ("java.io.IOException: No space left on device", "TMPDIR"),
        ("Could not allocate compressed class space: 1073741824 bytes", "ulimit -v"),
        ("it was killed by SIGKILL", "free memory"),
        ("invalid null input: name", "/etc/passwd"),
        ("[Errno 101] Network is unreachable", "ip link set lo up"),
        ("who knows", DEFAULT_HINT),
    ],
)
def test_the_hint_fits_the_cause(words: str, part: str) -> None:
    assert part in hint_for(words, {}, open_files=1024)


def test_options_that_every_java_takes_are_named() -> None:
    given = {"JAVA_TOOL_OPTIONS": "-XX:+A", "_JAVA_OPTIONS": ""}
    assert "JAVA_TOOL_OPTIONS:" in hint_for("Unrecognized VM option 'A'", given, open_files=-1)


def test_where_next_to_no_file_may_be_opened_nothing_else_is_blamed() -> None:
    words = "java.lang.ClassNotFoundException: org.apache.logging.log4j.core.Filter"
    assert "it may open 64 files" in hint_for(words, {}, open_files=64)
    assert hint_for(words, {}, open_files=OPEN_FILES_MIN) == DEFAULT_HINT


def test_nobody_is_asked_to_enter_the_working_folder_where_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`cd /root; sudo -u kafka offsite …`: a process is in a folder that it may not enter."""
    (folder := tmp_path / "folder").mkdir()
    monkeypatch.chdir(folder)
    assert folder_to_start_in(tmp_path) is None
    folder.rmdir()
    assert folder_to_start_in(tmp_path) == tmp_path
