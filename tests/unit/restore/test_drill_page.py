"""The page of a drill: it says what the report says, and nothing in a name can become markup."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

from offsite.reports.point_report import HoleReport
from offsite.restore.drill_report import DrilledTopic, DrillReport, drill_page

TOPIC = DrilledTopic(
    source="orders",
    target="offsite-drill-0123abcd-orders",
    partitions=3,
    same_offsets=True,
    records=1500,
    bytes=4096,
    invisible_records=7,
    digests=("0: blake3:aa", "1: blake3:bb"),
)
REPORT = DrillReport(
    drill="20261121-150000-0123abcd",
    backup="shop",
    repository="s3://bucket/kafka",
    by="root@host",
    versions={"offsite": "0.1.0"},
    began="2026-11-21T15:00:00.000Z",
    ended="2026-11-21T15:01:00.000Z",
    place="a sandbox of its own",
    proven=True,
    commit=2,
    committed="2026-11-21T14:00:00.000Z",
    records=1500,
    topics=(TOPIC,),
)


def test_the_page_says_what_was_proven() -> None:
    page = drill_page(REPORT)
    assert "Proven: 1,500 records" in page
    assert all(text in page for text in ("orders", "commit 2", "s3://bucket/kafka", "root@host", "1: blake3:bb"))


def test_a_drill_that_failed_says_why() -> None:
    found = replace(REPORT, proven=False, findings=("orders/1: missing: 1 record",))
    assert "Not proven: the restored records differ from the backup." in drill_page(found)
    assert "<li>orders/1: missing: 1 record</li>" in drill_page(found)
    assert "Not proven: the store is away" in drill_page(replace(REPORT, proven=False, problem="the store is away"))


def test_a_drill_that_compared_nothing_proves_nothing() -> None:
    page = drill_page(replace(REPORT, proven=None, records=0, problem="nothing was restored: no records of orders"))
    assert "Nothing proven: nothing was restored: no records of orders" in page
    assert "Proven:" not in page


def test_what_the_backup_lacks_is_said_with_the_verdict_and_listed() -> None:
    holes = tuple(HoleReport(topic="orders", partition=1, start=n, end=n + 1, reason="retention") for n in range(103))
    page = drill_page(replace(REPORT, lacking=holes))
    assert "The backup itself does not have the ranges listed below." in page
    assert "<li>orders/1 [0, 1) retention</li>" in page
    assert "and 3 more" in page
    assert "lacks" not in drill_page(REPORT)


def test_what_was_restored_is_plotted_by_topic_and_by_second() -> None:
    page = drill_page(replace(REPORT, bytes=4096, restore_s=2.0, compare_s=0.5))
    assert all(f'<td class="number">{rate}</td>' in page for rate in ("4.0 KiB", "2.0 KiB/s", "8.0 KiB/s"))
    assert all(f'<td class="number">{rate} records/s</td>' in page for rate in ("750", "3,000"))
    assert "<figure" not in drill_page(replace(REPORT, records=0, topics=()))
    assert "Nothing is known yet." in drill_page(REPORT), "an earlier report, without durations"


def test_names_never_become_markup() -> None:
    evil = "<script>alert(1)</script>"
    page = drill_page(replace(REPORT, by=evil, repository=evil, skipped=((evil, evil),), leftovers=(evil,)))
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_names_that_are_no_text_are_escaped() -> None:
    evil = "\x1b[31m\ud800\u202e"
    page = drill_page(replace(REPORT, backup=evil, repository=evil, skipped=((evil, evil),), findings=(evil,)))
    assert page.encode()
    assert page.count(r"\x1b[31m\ud800\u202e") == 6
    assert not {"\x1b", "\u202e"} & set(page)


def test_every_element_that_opens_closes_and_nothing_is_loaded_from_elsewhere() -> None:
    reader = _Reader()
    reader.feed(drill_page(REPORT))
    assert reader.open == []
    assert not {"src", "href"} & reader.attributes


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
