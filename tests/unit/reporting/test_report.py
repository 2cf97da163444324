"""Tests of the report page: the texts that it must show, and the texts that it must not show."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support import report_material
from support.advised import advised
from support.readers import visible
from support.report_tables import ANOMALIES, CASES, case

from delivery_verifier.model.anomalies import KINDS, Anomaly
from delivery_verifier.model.history import Injection, Observation
from delivery_verifier.reporting.report import page, story
from delivery_verifier.reporting.report.inventory import DATA_DOCS
from delivery_verifier.run_directory.replicas import REPLICAS
from delivery_verifier.run_directory.table import arrow_schema

LIMIT_BYTES = 1_600_000
POISON = "\"><img src=x onerror=alert(1)></script><script>alert(2)</script>{{7*7}}'\x1b[31m\u202e$$x$$"


@pytest.fixture
def without_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets pages have no plots. Drawing plots takes most of the time of a page. Other tests of this file draw them."""
    for owner, plot in ((page.timeline, "timeline"), (page.timeline, "rates"), (page, "distribution")):
        monkeypatch.setattr(owner, plot, lambda *inputs: None)


def badge(text: str) -> str:
    found = re.search(r'<span class="badge big tone-(\w+)">(.*?)</span>', text, re.S)
    assert found
    return found.group(2).strip()


@pytest.mark.slow
def test_a_held_run_says_so_with_its_limits_and_every_arm(tmp_path: Path) -> None:
    text = page.render(*report_material.held(tmp_path))
    assert badge(text) == "✔ HELD"
    told = visible(text)
    assert "All 41,210 acknowledged records are in the log exactly once" in told
    for limit in report_material.LIMITS:
        assert limit in told
    for arm in ("safe", "control-acks_0", "canary"):
        assert arm in told
    assert re.search(r'<td class="n mark-permitted" data-name="lost">1,204 <small>permitted</small></td>', text)
    assert re.search(r'<span class="badge tone-NONE">✔ HELD</span>', text), "an arm that lost records is never green"
    assert "Lost: record 500 of producer 0, partition 1, arm control-acks_0 (permitted)" in told
    assert "2.92 % of 41,210 reported" in told
    assert "Doubts" not in told
    assert "Not everything this page should show" not in told


@pytest.mark.usefixtures("without_plots")
def test_a_command_in_a_limit_is_shown_as_code_and_everything_in_it_is_escaped(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    limits = ["Repeat it: `kdv run --profile '<b>'` <i>29</i> times."]
    text = page.render(path, msgspec.structs.replace(verdict, limits=limits))
    assert "<p>Repeat it: <code>kdv run --profile &#39;&lt;b&gt;&#39;</code> &lt;i&gt;29&lt;/i&gt; times.</p>" in text


@pytest.mark.slow
def test_a_violated_run_shows_its_cases_and_tells_the_story_of_one(tmp_path: Path) -> None:
    told = visible(page.render(*report_material.violated(tmp_path)))
    assert "Not as expected: acks_all" in told
    assert "Lost: record 4,000 of producer 0, partition 1, arm acks_all ✔ sent" in told  # and not (permitted)
    assert "+2.904 s The producer hears that broker 2, the leader, has it at offset 1,333" in told
    assert "+3.000 s Fault #1 kill broker 2 takes effect; it led this partition." in told
    assert "+4.200 s No broker leads partition 1 (epoch 0, in sync: 2)." in told
    assert "+6.100 s Broker 3 now leads partition 1 (epoch 1, in sync: 1, 3)." in told
    assert "The log of partition 1 ends at offset 13,740; broker 2 leads it (epoch 1)." in told
    assert "It stands nowhere in the log: absent." in told
    assert "At offset 1,333 now stands another record: number 4,077 of producer 0, session 0." in told
    assert "Lost LOST in acks_all: 23 in all, the first 20 shown" in told
    assert "DUPLICATED in acks_all: 61 in all, the first 20 shown" in told
    assert "planted on purpose" in told
    assert "broker 2 1, 2, 3 #1 kill broker 2" in told


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize("kind", Anomaly)
def test_a_case_of_any_kind_that_is_the_only_one_has_its_story(tmp_path: Path, kind: Anomaly) -> None:
    path, verdict = report_material.violated(tmp_path)
    (file,) = (path / "anomalies").iterdir()
    cases = pq.read_table(file)
    lost = cases.filter(pc.and_(pc.equal(cases["arm"], "acks_all"), pc.equal(cases["kind"], "LOST"))).slice(0, 1)
    renamed = lost.set_column(lost.column_names.index("kind"), "kind", pa.array([kind.value]))
    pq.write_table(renamed.cast(cases.schema), file)
    assert f"{KINDS[kind].name}: record 4,000 of producer 0, partition 1, arm acks_all" in visible(
        page.render(path, verdict)
    )


@pytest.mark.usefixtures("without_plots")
def test_a_lost_record_says_at_which_leader_epoch_it_was_cut_off(tmp_path: Path) -> None:
    run, verdict = report_material.violated(tmp_path)
    assert "cut off" not in visible(page.render(run, verdict)), "a run without the table is not said to miss it"
    epochs = {"epochs": [0, 1], "epoch_starts": [0, 1300], "digest": "d", "read_until": 13_740}
    rows = [{"arm": "acks_all", "partition": 1, "broker": broker} | epochs for broker in (1, 2, 3)]
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(REPLICAS)), run / REPLICAS.file)
    told = visible(page.render(run, verdict))
    assert (
        "no copy in the log leader epoch 1 begins at offset 1,300: what earlier leaders had from there on was cut off; "
        "still at its offset on no replica" in told
    )


def test_only_a_fault_done_to_the_leader_led_the_partition() -> None:
    """A fault of a follower or of the clients hits the partition, too. The story of a record must call only the
    leader's fault a fault of the leader."""
    seen = Observation(at_us=0, kind="partition", topic="t", partition=0, leader=2)
    for brokers, told in (([2], "; it led this partition"), ([3], ""), ([], "")):
        hit = Injection(
            id=1, cycle=0, action="pause", brokers=brokers, hit={"t": [0]}, requested_at_us=1, effect_at_us=2
        )
        ((_, text, _),) = story._fault_events(hit, seen)
        assert text.endswith(f" takes effect{told}.")


@pytest.mark.usefixtures("without_plots")
def test_a_duplicate_gets_a_story_of_its_own_with_where_its_copies_stand(tmp_path: Path) -> None:
    told = visible(page.render(*report_material.violated(tmp_path)))
    assert told.count("One record's story.") == 2
    story = told[told.index("Written more than once: record 7,000") :]
    assert "It stands twice: at offset 2,400, 2,470." in story
    assert (
        "The sending program handed it over once. Without enable.idempotence a broker cannot recognise a retry" in story
    )
    assert "the log that was read holds no record" in story  # nothing stands there in this made-up log


@pytest.mark.usefixtures("without_plots")
@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_loss_is_explained_only_where_the_settings_and_what_was_seen_explain_it(tmp_path: Path, acks: str) -> None:
    path, verdict = report_material.violated(tmp_path)
    scenario = json.loads((path / "scenario.json").read_bytes())
    for arm in scenario["arms"]:
        arm["profile"]["producer"]["acks"] = acks
    (path / "scenario.json").write_text(json.dumps(scenario))
    seal = json.loads((path / "plan.json").read_bytes())
    for file in seal["files"]:
        seal["files"][file] = hashlib.sha256((path / file).read_bytes()).hexdigest()
    (path / "plan.json").write_text(json.dumps(seal))
    told = visible(page.render(path, advised(path, verdict)))
    assert ("With acks=1 the leader alone vouches for a record: broker 2 did. Broker 3 then led" in told) == (
        acks == "1"
    )


@pytest.mark.usefixtures("without_plots")
def test_the_page_says_what_would_have_been_violated_and_what_was_asked(tmp_path: Path) -> None:
    held = visible(page.render(*report_material.held(tmp_path)))
    assert (
        "One single record would have led to VIOLATED: one that is damaged, in a partition or topic to which it was"
        in held
    )
    assert "because it may happen with these settings: a record that is in the log once more because" in held
    assert (
        "Asked: does safe keep what its settings promise under the fault below? What happened when SIGKILL the broker"
        in held
    )
    violated = visible(page.render(*report_material.violated(tmp_path)))
    missing = "23 acknowledged records are missing from the log and 61 records are in the log more than once"
    assert f"Violated because {missing}." in violated and "One single record" not in violated
    assert "the claim “every reported record exactly once” ( exactly_once )" in violated


@pytest.mark.slow
def test_headings_are_in_order_and_every_table_names_its_columns(tmp_path: Path) -> None:
    text = re.sub(r"<(script|style)\b.*?</\1>", "", page.render(*report_material.violated(tmp_path)), flags=re.S)
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", text)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(now <= before + 1 for before, now in pairwise(levels))
    assert not re.search(r"<th(?! scope=)[ >]", text)
    assert text.count("<table") == text.count('class="scroll"><table')  # none can push the page sideways


@pytest.mark.usefixtures("without_plots")
def test_a_line_that_nobody_sent_is_told_without_inventing_a_sender(tmp_path: Path) -> None:
    path, verdict = report_material.violated(tmp_path)
    unknown = ("producer", "session", "sequence", "attempt", "partition_sequence", "outcome", "acked_offset")
    line = case("acks_all", "CORRUPTED", 1, offsets=[77]) | dict.fromkeys((*unknown, "sent_at", "settled_at"))
    pq.write_table(pa.Table.from_pylist([line], ANOMALIES), path / "anomalies" / "part-0.parquet")
    told = visible(page.render(path, verdict))
    assert "Damaged: the line at offset 77, partition 1, arm acks_all" in told
    assert "hands it to the producer" not in told
    assert "None" not in told


@pytest.mark.usefixtures("without_plots")
def test_the_story_says_that_the_log_ends_before_the_acknowledged_offset(tmp_path: Path) -> None:
    path, verdict = report_material.violated(tmp_path)
    offsets = json.loads((path / "offsets.json").read_bytes())
    for one in offsets["partitions"]:
        one["end"] = 1000
    (path / "offsets.json").write_text(json.dumps(offsets))
    assert "At offset 1,333 there is nothing: the log ends before it." in visible(page.render(path, verdict))


@pytest.mark.usefixtures("without_plots")
def test_doubts_stand_on_top_each_with_what_to_do(tmp_path: Path) -> None:
    text = page.render(*report_material.inconclusive(tmp_path))
    told = visible(text)
    assert "counts unbalanced:reported sum (checker doubt, arms safe, control-acks_0)" in told
    assert text.index('id="verdict"') < text.index('id="doubts"') < text.index('id="change"')
    assert told.count("What to do:") == 2
    assert "1 of 4 invariants do not balance" in told
    assert "no proof that it took effect" in told


def test_a_run_that_failed_early_gets_a_page_without_a_result(tmp_path: Path) -> None:
    path, _ = report_material.failed_early(tmp_path)
    text = page.render(path, None)
    told = visible(text)
    assert badge(text) == "– NO VERDICT"
    assert "Finished: plan." in told
    assert "What was injected is not known" in told
    assert "Nothing was injected" not in told
    assert "There is no case of any anomaly" not in told
    assert "No invariant was evaluated" in told
    assert "HELD" not in told
    assert '<body class="no-verdict">' in text  # which takes the green from everything on it
    assert re.search(r"verdict.json the verdict, for machines missing", told)
    assert "tone-HELD" not in re.sub(r"<style>.*?</style>", "", text, flags=re.S)


def test_an_empty_folder_and_no_folder_get_a_page_too(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        assert badge(page.render(path, None)) == "– NO VERDICT"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["anomalies", "counts", "timeline", "log", "scenario.json", "observations.json"])
def test_a_part_that_is_missing_is_named(tmp_path: Path, name: str) -> None:
    path, verdict = report_material.violated(tmp_path)
    part = path / name
    shutil.rmtree(part) if part.is_dir() else part.unlink()
    told = visible(page.render(path, verdict))
    assert "Not everything this page should show is there" in told
    assert name in told
    assert "There is no case of any anomaly" not in told


@pytest.mark.slow
@pytest.mark.parametrize("name", ["anomalies/part-0.parquet", "counts/invariants.parquet", "injections.json"])
def test_a_part_that_is_damaged_is_named(tmp_path: Path, name: str) -> None:
    path, verdict = report_material.held(tmp_path)
    (path / name).write_bytes(b"{")
    told = visible(page.render(path, verdict))
    assert "cannot be read" in told
    assert "All 4 invariants balance" not in told or name != "counts/invariants.parquet"


@pytest.mark.slow
def test_lanes_of_a_topic_that_was_never_observed_are_said_to_be_missing(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    seen = (path / "observations.json").read_text()
    assert "No leadership was observed" not in visible(page.render(path, verdict))
    (path / "observations.json").write_text(seen.replace("kdv-", "other-"))
    assert "No leadership was observed: the lanes are missing" in visible(page.render(path, verdict))


@pytest.mark.slow
def test_a_column_that_is_missing_is_named(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    pq.write_table(pa.table({"arm": ["safe"]}), path / "counts" / "invariants.parquet")
    told = visible(page.render(path, verdict))
    assert "columns are missing: invariant" in told
    assert "No invariant was evaluated" in told


@pytest.mark.usefixtures("without_plots")
def test_no_case_is_said_only_when_the_tally_counted_none(tmp_path: Path) -> None:
    path, verdict = report_material.quiet(tmp_path)
    assert "There is no case of any anomaly" in visible(page.render(path, verdict))
    shutil.rmtree(path / "anomalies")
    assert "There is no case of any anomaly" in visible(page.render(path, verdict))
    counted = [{"arm": "safe", "kind": "LOST", "cases": 3, "written": 0, "cut": False}]
    pq.write_table(pa.Table.from_pylist(counted, CASES), path / "counts" / "cases.parquet")
    assert "There is no case of any anomaly" not in visible(page.render(path, verdict))


@pytest.mark.slow
def test_ten_thousand_cases_are_bounded_and_the_cut_is_said(tmp_path: Path) -> None:
    text = page.render(*report_material.large(tmp_path))
    told = visible(text)
    assert "31,337 in all, the first 20 shown" in told
    assert "cut at its bound" in told
    assert "record 0 of producer 0" in told  # the lowest sequence, though it was written last
    assert len(text.encode()) < LIMIT_BYTES


@pytest.mark.slow
def test_hours_of_load_on_a_thousand_partitions_stay_small_and_say_what_is_not_drawn(tmp_path: Path) -> None:
    text = page.render(*report_material.huge(tmp_path))
    told = visible(text)
    assert len(text.encode()) - len(page.bokeh_script().encode()) < 1_000_000
    assert "16 of 1,000 partitions, those the faults hit first. Of 12 arms 8 are drawn." in told
    assert "partitions without a leader, of all 1,000" in told
    assert "partitions 0, 3, 6, 9, 12 and 329 more" in told
    assert "all of it is in injections.json" in told
    assert "And 4 more, in injections.json" in told
    assert "LOST in acks_all: 10,000,000 in all, the first 20 shown" in told


def test_a_run_without_a_single_record_gets_a_page_without_plots(tmp_path: Path) -> None:
    path, verdict = report_material.quiet(tmp_path)
    for name in ("load", "latency"):
        file = path / "timeline" / f"{name}.parquet"
        pq.write_table(pq.read_table(file).slice(0, 0), file)
    told = visible(page.render(path, verdict))
    assert "There is no timeline to draw" in told
    assert "No record was reported, so there are no latencies." in told


@pytest.mark.slow
def test_latencies_are_distinguished_and_a_missing_table_is_no_empty_one(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    told = visible(page.render(path, verdict))
    assert re.search(r"safe otherwise [\d,]+ 2.24 ms 3.56 ms 3.56 ms 3.56 ms", told)
    assert re.search(r"safe during a fault [\d,]+ 2.52 ms 4.75 s 5.33 s 5.33 s", told)
    (path / "timeline" / "latency.parquet").unlink()
    told = visible(page.render(path, verdict))
    assert "The distribution of latencies could not be read." in told
    assert "timeline/latency" in told


@pytest.mark.slow
def test_hostile_text_stays_text_wherever_it_stands(tmp_path: Path) -> None:
    text = page.render(*report_material.hostile(tmp_path, POISON))
    assert "<img" not in text
    assert text.count("alert(2)</script>") == 0
    assert "{{7*7}}" in text and "49" not in re.findall(r">(\d+)<", text)
    assert "\x1b" not in text and "\u202e" not in text
    assert "$$" not in re.search(r'id="plot-data">(.*?)</script>', text, re.S).group(1)  # type: ignore[union-attr]
    assert visible(text).count("<img src=x onerror=alert(1)>") > 30
    assert "the verdict is of" in visible(text)  # not this directory's run


@pytest.mark.slow
def test_nothing_is_loaded_from_anywhere_and_nothing_else_may_run(tmp_path: Path) -> None:
    text = page.render(*report_material.violated(tmp_path))
    shell = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert not re.search(r"https?://|//[a-z]+\.", shell)
    assert not re.search(r"\b(src|srcset|action|formaction)=|@import|url\(", shell)
    links = re.findall(r'href="([^"#][^"]*)"', shell)
    assert links[0] == "data:,"
    assert all(link.startswith("./") or link in ("verdict.json", "report.html", DATA_DOCS) for link in links[1:])
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', shell)
    assert policy
    assert policy.group(1).startswith("default-src 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", text, flags=re.S)
    allowed = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert f"script-src 'sha256-{allowed[0]}' 'sha256-{allowed[1]}';" in policy.group(1)


@pytest.mark.slow
@pytest.mark.parametrize("make", [report_material.held, report_material.violated, report_material.inconclusive])
def test_the_page_is_one_file_of_bounded_size(tmp_path: Path, make: object) -> None:
    path, verdict = make(tmp_path)  # type: ignore[operator]
    page.write(path, verdict, tmp_path)
    page.write(path, verdict, tmp_path / "other.html")
    size = (tmp_path / "report.html").stat().st_size
    assert 1_000_000 < size < LIMIT_BYTES
    assert visible((tmp_path / "other.html").read_text()) == visible((tmp_path / "report.html").read_text())


@pytest.mark.usefixtures("without_plots")
def test_settings_that_differ_are_marked_and_the_run_can_be_repeated(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    text = page.render(path, verdict)
    assert re.search(r'<tr class="differs"><th scope="row"><code>acks</code>.*?<td>all</td><td>0</td>', text)
    assert '<tr><th scope="row"><code>retries</code></th>' in text
    assert "kdv run --profile safe --fault kill_leader --records 40000 --seed 7" in text
    assert f"kdv reconcile runs/{verdict.run_id}" in text


@pytest.mark.usefixtures("without_plots")
def test_an_invariant_whose_sides_are_both_unknown_does_not_balance(tmp_path: Path) -> None:
    path, verdict = report_material.held(tmp_path)
    invariants = pq.read_table(path / "counts" / "invariants.parquet").to_pylist()
    invariants[0] |= {"left": None, "right": None}
    pq.write_table(pa.Table.from_pylist(invariants), path / "counts" / "invariants.parquet")
    assert "1 of 4 invariants do not balance" in visible(page.render(path, verdict))


@pytest.mark.usefixtures("without_plots")
def test_the_page_repeats_the_verdict_and_decides_nothing(tmp_path: Path) -> None:
    path, verdict = report_material.violated(tmp_path)
    other = msgspec.structs.replace(verdict, verdict="INCONCLUSIVE", green=False)
    assert badge(page.render(path, other)) == "? INCONCLUSIVE"
