"""`offsite operator run --kubernetes`: what it refuses, and what probes and Prometheus see of it."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from offsite.cli.app import app
from offsite.cli.commands.operator_processes import KubernetesOptions
from offsite.model.errors import BadOption, KubernetesUnavailable
from offsite.monitor.server import StatusServer, parse_address
from offsite.operator.core.monitor import SILENT_MAX_S, HomeMonitor
from tests.unit.operator.kubernetes.kubernetes_home import World, opened_world


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["operator", "run", *arguments])


@pytest.mark.parametrize("more", [("folder",), ("--once",), ("--stop-agents",)])
def test_it_goes_with_neither_a_folder_nor_what_is_of_one(more: tuple[str, ...]) -> None:
    done = run("--kubernetes", *more)
    assert isinstance(done.exception, BadOption)
    assert "--kubernetes cannot be used with a folder" in done.exception.message


@pytest.mark.parametrize("more", [("--namespace", "a"), ("--state", "s3://b/c")])
def test_what_is_of_kubernetes_is_refused_without_it(tmp_path: Path, more: tuple[str, str]) -> None:
    done = run(str(tmp_path), "--once", *more)
    assert isinstance(done.exception, BadOption)
    assert done.exception.message.startswith(more[0])


def test_one_look_shows_no_metrics(tmp_path: Path) -> None:
    done = run(str(tmp_path), "--once", "--metrics-port", "9464")
    assert isinstance(done.exception, BadOption)
    assert "--once cannot be used with --metrics-port" in done.exception.message


@pytest.mark.parametrize(
    ("variables", "words", "found_words"),
    [
        (("", "", ""), (), ([], [], [])),
        (("shops fairs", "a:1 b:2", "team"), (), (["shops", "fairs"], ["a:1", "b:2"], ["team"])),
        (
            ("shops", "a:1", "team"),
            ("--namespace", "x", "--allow-image", "y", "--allow-metadata", "z"),
            (["x"], ["y"], ["z"]),
        ),
    ],
)
def test_lists_are_words_of_variables_or_options(
    monkeypatch: pytest.MonkeyPatch,
    variables: tuple[str, str, str],
    words: tuple[str, ...],
    found_words: tuple[list[str], list[str], list[str]],
) -> None:
    found: list[KubernetesOptions] = []
    monkeypatch.setattr(
        "offsite.cli.commands.operator.run_in_kubernetes", lambda options, *_, **__: found.append(options)
    )
    names = ("OFFSITE_NAMESPACES", "OFFSITE_ALLOWED_IMAGES", "OFFSITE_ALLOWED_METADATA")
    for name, value in zip(names, variables, strict=True):
        monkeypatch.setenv(name, value)
    assert run("--kubernetes", *words).exit_code == 0
    options = found[0]
    lists = (options.namespace, options.allow_image, options.allow_metadata)
    assert tuple(list(each or ()) for each in lists) == found_words


def test_who_is_not_logged_in_is_told_so_at_once(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBE")}
    done = subprocess.run(
        [sys.executable, "-c", "from offsite.cli.main import main; main()", "operator", "run", "--kubernetes"],
        env={**environment, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == KubernetesUnavailable.exit_code, done.stderr
    assert "there is no service account and no kubeconfig" in done.stderr
    assert "KUBECONFIG" in done.stderr


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with opened_world(tmp_path, monkeypatch) as found:
        yield found


def answer(server: StatusServer, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{server.address}{path}", timeout=10) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_probes_fail_when_no_round_has_ended_for_long_and_metrics_count_each_kind(world: World) -> None:
    world.make()
    world.declare("Restore", "back", backupUrl=f"{world.root}/backups#none", account="misspelt", cluster="shop")
    home = world.home()
    shown = HomeMonitor(home=home, clock=world.clock)
    with StatusServer(shown, listen=parse_address("127.0.0.1:0"), clock=world.clock) as server:
        assert [answer(server, path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        assert 'offsite_operator_resources{kind="Backup"} 0.0' in answer(server, "/metrics")[1]

        world.look(home)
        lines = answer(server, "/metrics")[1].splitlines()
        assert 'offsite_operator_resources{kind="Backup"} 1.0' in lines
        assert 'offsite_operator_resources{kind="Schedule"} 0.0' in lines
        assert 'offsite_operator_unreconciled_resources{kind="Restore"} 1.0' in lines
        assert "# TYPE offsite_operator_resources gauge" in lines

        world.clock.sleep(SILENT_MAX_S + 60)
        for path in ("/healthz", "/readyz"):
            status, said = answer(server, path)
            assert status == 503
            assert "no round has ended" in said
