"""The examination as a whole: order, times, errors, exit codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from offsite.doctor import machine
from offsite.doctor.check import SAID_MAX, CheckResult, CheckVerdict, DoctorCheck, Need, failed, ok, warning
from offsite.doctor.examine import CHECKS, Examination, examine
from offsite.doctor.parts import DoctorRequest, Parts
from offsite.model.errors import (
    BadKafkaConfig,
    KafkaAuthenticationFailed,
    KafkaUnreachable,
    OffsiteError,
    OverwritingStore,
    RepositoryNotFound,
    StoreFull,
)
from offsite.model.plain import plain
from tests.fake_cluster.site import Site
from tests.unit.doctor.conftest import Examine


def check(
    name: str, run: Callable[[Parts], CheckResult], *, after: tuple[str, ...] = (), limit_s: float = 10, code: int = 1
) -> DoctorCheck[Parts]:
    return DoctorCheck(id=name, title=name, run=run, after=after, limit_s=limit_s, exit_code=code)


def examination(*checks: DoctorCheck[Parts]) -> Examination:
    return examine(DoctorRequest(), checks=checks)


def raising(error: BaseException) -> Callable[[Parts], CheckResult]:
    def run(_: Parts) -> CheckResult:
        raise error

    return run


def test_a_sound_site_is_found_so_by_every_check(
    site: Site, examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "_is_temporary", lambda _: False)
    site.source.make_topic("orders")
    site.source.write("orders", [b"a"])
    told = examined()
    assert [each.id for each in CHECKS] == list(told)
    assert {each.verdict for each in told.values()} == {CheckVerdict.OK, CheckVerdict.SKIPPED}
    assert {name for name, each in told.items() if each.verdict is CheckVerdict.SKIPPED} == {
        "rights.transactions",
        "clocks.cluster",
        "metastore",
    }


def test_what_is_not_given_is_skipped_and_says_what_to_give() -> None:
    told = examine(DoctorRequest(start_spark=False))
    skipped = {each.id for each in told.checks if each.verdict is CheckVerdict.SKIPPED}
    assert skipped == {each.id for each in CHECKS if each.needs}
    assert told.ok
    assert all(each.cure for each in told.checks if each.verdict is CheckVerdict.SKIPPED)


def test_the_document_has_the_names_that_scripts_rely_on() -> None:
    document = json.loads(json.dumps(plain(examination(check("a", lambda _: warning("b", cure="c"))))))
    reported = {"id": "a", "verdict": "warning", "said": "b", "cure": "c"}
    assert document == {"ok": True, "checks": [reported], "exit_code": 0}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KafkaUnreachable("x"), 15),
        (StoreFull("x"), 16),
        (KafkaAuthenticationFailed("x"), 17),
        (BadKafkaConfig("x"), 2),
        (RepositoryNotFound("x"), 10),
        (OverwritingStore("x"), 16),
        (ValueError("x"), 1),
    ],
)
def test_an_error_is_a_failure_with_the_exit_code_of_its_kind(error: Exception, code: int) -> None:
    told = examination(check("a", raising(error), code=16), check("b", lambda _: ok("fine")))
    assert (told.ok, told.exit_code) == (False, code)
    assert [each.verdict for each in told.checks] == ["failed", "ok"]
    assert (error.id if isinstance(error, OffsiteError) else "OFF-0100") in told.checks[0].said


def test_what_a_foreign_error_says_is_not_told() -> None:
    told = examination(check("a", raising(ValueError("hunter2"))))
    assert "hunter2" not in str(told)
    assert "ValueError" in told.checks[0].said


@pytest.mark.parametrize("codes", [(17, 15), (15, 17)])
def test_the_first_failure_decides_the_exit_code(codes: tuple[int, int]) -> None:
    told = examination(
        check("a", lambda _: warning("x", cure="y"), code=2),
        *(check(f"b{code}", lambda _: failed("x", cure="y"), code=code) for code in codes),
    )
    assert told.exit_code == codes[0]


def test_a_check_that_hangs_fails_and_the_others_are_made() -> None:
    never = threading.Event()

    def hang(_: Parts) -> CheckResult:
        never.wait()
        return ok("at last")

    told = examination(check("a", hang, limit_s=0.05), check("b", lambda _: ok("fine")))
    never.set()
    assert [each.verdict for each in told.checks] == ["failed", "ok"]
    assert "did not end" in told.checks[0].said


def test_what_could_fail_for_the_same_reason_only_is_skipped() -> None:
    told = examination(
        check("a", lambda _: failed("x", cure="mend a")),
        check("b", lambda _: ok("fine"), after=("a",)),
        check("c", lambda _: ok("fine"), after=("b",)),
    )
    assert [(each.verdict, each.cure) for each in told.checks] == [
        ("failed", "mend a"),
        ("skipped", "mend a"),
        ("skipped", "mend a"),
    ]


def test_text_of_others_is_bounded_and_in_one_line() -> None:
    told = examination(check("a", lambda _: ok("x\n\x1b[2J" + "y" * 10_000)))
    said = told.checks[0].said
    assert said.isprintable()
    assert len(said) <= SAID_MAX + 1


def test_each_outcome_is_told_as_it_comes() -> None:
    told: list[tuple[str, str]] = []
    examine(
        DoctorRequest(),
        checks=(check("a", lambda _: ok("x")), check("b", lambda _: failed("x", cure="y"))),
        on_report=lambda title, report: told.append((title, report.verdict)),
    )
    assert told == [("a", "ok"), ("b", "failed")]


def test_whoever_breaks_it_off_leaves_nothing_in_the_store(site: Site, tmp_path: Path) -> None:
    parts = Parts(DoctorRequest(repo=site.repository.store.url))

    def put(of: Parts) -> CheckResult:
        of.store.put_if_absent(of.probe_key(), b"x")
        return ok("put")

    def break_off(_: str, __: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        examine(parts.request, parts=parts, checks=(check("a", put),), on_report=break_off)
    assert [each.key for each in parts.store.list("probes/")] == ["probes/create-only"]


def test_every_check_has_a_time_and_names_only_earlier_ones() -> None:
    before: set[str] = set()
    for each in CHECKS:
        assert 0 < each.limit_s <= 150
        assert set(each.after) <= before
        before.add(each.id)
    assert len(before) == len(CHECKS)
    assert all(each.needs <= set(Need) for each in CHECKS)
