"""A restore is chosen by pointing: what a form proposes, what it keeps, and what its buttons do, without a script."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from starlette.testclient import TestClient

from offsite.model.plain import plain
from offsite.repository.job import JobEnd, JobLayout, JobProgress, JobTopic
from offsite.repository.job_records import JobRecords
from tests.fake_cluster.site import Site
from tests.unit.serve.conftest import FakedClusters
from tests.unit.serve.test_pages import BASE, HTML, Tree, shown

FORM = f"{BASE}/restore"


def fields_of(text: str) -> dict[str, str]:
    """What a browser sends of the form: fields with values, ticked boxes and radio buttons."""
    (form,) = re.findall(r'<form method="post" action="[^"]+/restore/choice" id="restore".*?</form>', text, re.DOTALL)
    sent: dict[str, str] = {}
    for field in re.findall(r"<input[^>]*>", form):
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', field))
        if attributes.get("type") in {"radio", "checkbox"} and " checked" not in field:
            continue
        sent[unescape(attributes["name"])] = unescape(attributes.get("value", "on"))
    selected = re.search(r"<option selected>([^<]*)</option>", form)
    return sent | ({"target": unescape(selected[1])} if selected else {})


def post(client: TestClient, fields: dict[str, str], step: str = "choice", **more: str) -> str:
    answer = client.post(f"{FORM}/{step}", data={**fields, **more}, headers=HTML)
    assert answer.status_code == 200, answer.text
    assert Tree(answer.text).open == []
    return answer.text


def planned(client: TestClient, fields: dict[str, str], **more: str) -> str:
    """The equivalent command of the plan."""
    text = post(client, fields, "plan", **more)
    command = re.search(r"<pre>(offsite restore run[^<]*)</pre>", text)
    assert command is not None, re.findall(r'role="alert">([^<]*)', text)
    return unescape(command[1])


@pytest.fixture
def more_topics(site: Site) -> Site:
    """120 topics beside `orders`, more than two pages, and a second restore point."""
    for number in range(120):
        site.source.make_topic(f"orders-{number:03}")
        site.source.write(f"orders-{number:03}", [b"x"])
    site.back_up()
    return site


def test_a_link_lands_in_the_form_with_all_chosen(client: TestClient, site: Site) -> None:
    site.source.commit_group("billing", "orders", [1, 0])
    site.back_up()
    fields = fields_of(shown(client, f"{FORM}?topics=orders&commit=1&groups=all&target=target"))
    assert (fields["which"], fields["pick.orders"], fields["point"]) == ("some", "on", "commit-1")
    assert (fields["groups"], fields["target"], fields["as.orders"]) == ("all", "target", "orders")
    command = planned(client, fields)
    assert all(word in command for word in ("--topics=orders", "--commit=1", "--groups=all", "--bootstrap=target:9092"))
    assert "--rename" not in command


def test_the_form_says_where_groups_would_stand(client: TestClient, site: Site) -> None:
    site.source.commit_group("bil<b>ing", "orders", [1, 0])
    site.back_up()
    text = shown(client, FORM)
    assert "bil&lt;b&gt;ing" in text
    assert "records before the end" in text
    assert "the plan tells it for the chosen point" in shown(client, f"{FORM}?topics=orders&commit=1")
    assert "knows of no group" in shown(client, f"{FORM}?topics=none")


@pytest.mark.usefixtures("more_topics")
def test_ticks_are_kept_across_searches_and_pages(client: TestClient) -> None:
    text = shown(client, FORM)
    assert "Topics 1 to 50 of 121" in text
    first = fields_of(text) | {"pick.orders-003": "on"}
    searched = fields_of(post(client, first, find="orders-11"))
    assert "as.orders-003" not in searched
    assert searched["picked"] == "orders-003"
    ticked = searched | {"pick.orders-111": "on", "as.orders-111": "mine"}
    paged = fields_of(post(client, ticked, find="", do="page-3"))
    command = planned(client, paged, target="target")
    assert "--topics=orders-003 --topics=orders-111" in command
    assert "--rename=orders-111=mine" in command
    assert "--topics=orders " not in command


@pytest.mark.usefixtures("more_topics")
def test_all_found_are_ticked_and_unticked_at_once(client: TestClient) -> None:
    ticked = fields_of(post(client, fields_of(shown(client, FORM)), find="orders-00", do="tick"))
    assert sum(name.startswith("pick.") for name in ticked) == 10
    fewer = fields_of(post(client, ticked, find="orders-009", do="untick"))
    assert planned(client, fewer, target="target").count("--topics=") == 9
    rest = fields_of(post(client, fields_of(shown(client, FORM)), find="orders-00", do="untick"))
    assert planned(client, rest, target="target").count("--topics=") == 111, "all but those"


def test_everything_stays_chosen_through_the_plan_and_back(client: TestClient) -> None:
    fields = fields_of(shown(client, f"{FORM}?topics=orders&commit=1")) | {"as.orders": "mine", "target": "target"}
    text = post(client, fields, "plan")
    (form,) = re.findall(r"<form(?:(?!<form).)*Change the selection", text, re.DOTALL)
    back = {name: unescape(value) for name, value in re.findall(r'name="(\w+)" value="([^"]*)"', form)}
    again = fields_of(post(client, back))
    assert (again["pick.orders"], again["as.orders"], again["point"], again["target"]) == (
        "on",
        "mine",
        "commit-1",
        "target",
    )


def test_names_that_the_target_turns_out_to_have_are_proposed_anew(client: TestClient, site: Site) -> None:
    site.target.make_topic("orders", partitions=2)
    site.target.write("orders", [b"other"])
    text = post(client, fields_of(shown(client, f"{FORM}?topics=orders&target=target")), "plan")
    assert "free names are proposed below</p>" in text
    fields = fields_of(text)
    assert fields["as.orders"] == "orders-restored"
    assert "--rename=orders=orders-restored" in planned(client, fields)


def test_the_plan_tells_time_bytes_and_what_the_target_has(client: TestClient, site: Site) -> None:
    fields = fields_of(shown(client, f"{FORM}?topics=orders&target=target"))
    text = post(client, fields, "plan")
    assert "unknown: no restore or drill of this backup has been finished" in text
    assert "none of these topics: each is created" in text
    site.restore()
    again = post(client, fields | {"as.orders": "again"}, "plan")
    assert "proof included, by the last restore or drill of this backup" in again
    site.target.make_topic("empty", partitions=2, retention_ms="-1")
    text = post(client, fields | {"as.orders": "empty"}, "plan")
    assert "1 of these topics exists without records: empty" in text, re.findall(r'role="alert">([^<]*)', text)


def test_a_point_is_taken_from_the_line_and_the_line_zooms(client: TestClient, site: Site) -> None:
    for _ in range(40):
        site.source.write("orders", [b"x"])
        site.back_up()
    text = shown(client, FORM)
    views = re.findall(r'name="do" value="(view-\d+-\d+)"[^>]*aria-label="Zoom in', text)
    assert views or text.count('name="point" value="commit-') == 32, "within one second"
    bars = re.findall(r'data-commit="(\d+)"', text)
    assert [f'name="point" value="commit-{commit}"' in text for commit in bars] == [True] * len(bars)
    chosen = fields_of(post(client, fields_of(text), point="commit-2"))
    assert chosen["point"] == "commit-2", "though the line may not list it alone"
    assert "--commit=2" in planned(client, chosen, target="target")
    assert shown(client, f"{BASE}/points?view=0-1") == shown(client, f"{BASE}/points?view=x"), "views that are none"


@pytest.mark.parametrize(
    "query",
    [
        "topics=regex:(a%2B)%2B$",
        "topics=%00",
        "rename=%3Cb%3E",
        "rename=" + ",".join(f"a*{number}=b*" for number in range(60)),
        "topics=" + ",".join(f"a{number}*" for number in range(60)),
        "rename=orders%3D*",
        "commit=999",
        "commit=-1",
        "commit=" + "9" * 5_000,
        "point=commit-" + "9" * 5_000,
        "checkpoint=x",
        "point=%22%3E%3Cb%3E",
        "view=9-1",
        "number=99999999999",
        "do=page-x",
        "target=evil",
        "named=orders%3D%3Cb%3E",
        "picked=%3Cb%3E,orders",
        "find=%3Cb%3E" + "x" * 900,
        "groups=%22%3E%3Cb%3E",
        "as.orders=%22%3E%3Cb%3E",
        "which=some",
    ],
)
def test_any_link_leads_to_a_sound_form(client: TestClient, query: str) -> None:
    text = shown(client, f"{FORM}?{query}")
    assert Tree(text).open == []
    assert "<b>" not in text
    assert "See the plan" in text


def test_an_address_of_an_answer_leads_back_to_the_form(client: TestClient) -> None:
    for step in ("choice", "plan"):
        answer = client.get(f"{FORM}/{step}", headers=HTML)
        assert (answer.status_code, answer.headers["Location"]) == (303, FORM)


def test_the_form_waits_for_no_cluster(client: TestClient, coordinator: FakedClusters) -> None:
    coordinator.clusters = {}
    fields = fields_of(shown(client, FORM))
    post(client, fields, find="x")
    shown(client, f"{BASE}/points")


def restore_job(client: TestClient, coordinator: FakedClusters, site: Site) -> tuple[str, JobRecords]:
    """A restore that was begun in the browser, and the records that its process writes."""
    text = post(client, fields_of(shown(client, f"{FORM}?topics=orders&target=target")), "plan")
    sent = {name: unescape(re.findall(rf'name="{name}" value="([^"]*)"', text)[0]) for name in ("word", "once", "plan")}
    answer = client.post(FORM, data={**sent, "name": site.target.admin.cluster().cluster_id})
    job = answer.headers["Location"].rpartition("/")[2]
    assert coordinator.begun[-1][0] == job
    return job, JobRecords(store=site.repository.store, layout=JobLayout(job=job))


def test_the_page_of_a_restore_tells_each_topic_under_way(
    client: TestClient, coordinator: FakedClusters, site: Site
) -> None:
    job, records = restore_job(client, coordinator, site)
    topics = (
        JobTopic(topic="orders<b>", done=500, total=1_500, rate=100),
        JobTopic(topic="idle", done=0, total=0, rate=0),
    )
    records.put_progress(
        JobProgress(
            label="restore",
            moved_bytes=2048,
            records=7,
            tasks_done=1,
            tasks_total=9,
            elapsed_s=2.0,
            topics=topics,
            topics_done=3,
            topics_total=40,
        )
    )
    text = shown(client, f"/jobs/{job}")
    assert Tree(text).open == []
    parts = (
        "3 of 40 topics are complete",
        "500 of 1,500",
        "10.0 s",
        "and 35 more topics that wait",
        "1.0 KiB/s",
        "&lt;b&gt;",
    )
    assert [part for part in parts if part not in text] == []


def test_the_proof_is_one_file_that_is_stored_and_never_shown_here(
    client: TestClient, coordinator: FakedClusters, site: Site
) -> None:
    job, records = restore_job(client, coordinator, site)
    assert client.get(f"/jobs/{job}/proof.html").status_code == 404, "it has not ended"
    result = json.dumps(plain(site.restore(topics=["orders"])))
    end = JobEnd(id=job, at_ms=site.repository.store.now_ms(), exit_code=0, result=result, said="")
    records.put_end(end, secret=coordinator.secrets[job])
    assert "Download the proof" in shown(client, f"/jobs/{job}")
    answer = client.get(f"/jobs/{job}/proof.html")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="restore-{job}.html"'
    assert "style-src 'self'" in answer.headers["Content-Security-Policy"]
    assert "Proven: 2 records were restored and read back" in answer.text
    assert "blake3:" in answer.text
    assert "read from the repository: whoever may write there can change them" in answer.text


@pytest.mark.parametrize("result", ['{"verified": true}', '{"verified": true, "restore": "../../x"}', "[]", '"x"'])
def test_a_forged_result_makes_no_page(client: TestClient, coordinator: FakedClusters, site: Site, result: str) -> None:
    job, records = restore_job(client, coordinator, site)
    records.put_end(JobEnd(id=job, at_ms=1, exit_code=0, result=result, said=""), secret=coordinator.secrets[job])
    assert client.get(f"/jobs/{job}/proof.html", headers=HTML).status_code in {404, 422}
    assert Tree(shown(client, f"/jobs/{job}")).open == []
