"""Validation: Great Expectations evaluates the suites over the counts, and writes Data Docs of every run.

The suites are JSON files in this package (see `expectations.suites`). The other packages reach Great Expectations only
through this module. This module imports Great Expectations only inside functions, because the import takes seconds.
Great Expectations itself imports `expectations.data_docs`.

This module decides nothing. Great Expectations fails open: for example, an empty table passes. So `verdict` believes
a result only if the expectation was planned, and if the evaluation covered the planned number of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from filelock import FileLock

from delivery_verifier.host.optional import optional
from delivery_verifier.model.anomalies import Anomaly
from delivery_verifier.run_directory import data_docs
from delivery_verifier.run_directory.manifests import NOT_WRITTEN
from delivery_verifier.run_directory.run_directory import RunDirectory
from delivery_verifier.run_directory.tally import with_totals
from delivery_verifier.verdict.evaluation import (
    INVARIANTS,
    Evaluated,
    ExpectedEvaluation,
    Suite,
    Validation,
    evidence_table,
    expected_evidence,
    expected_guarantees,
)
from delivery_verifier.verdict.evidence import Evidence
from delivery_verifier.verdict.unexplained import UNEXPLAINED, with_unexplained

SITE = "data_docs"
"""The folder of Data Docs, beside the run directories. Its hidden folder `.results` keeps the results of all runs."""
SITE_LOCK_S = 300.0
"""How long a validation waits, in seconds, while another validation writes the site."""
SITE_S = SITE_LOCK_S + 300.0
"""How long the writing of Data Docs may take in all, in seconds."""


def validate(run_dir: Path) -> None:
    """Evaluates both suites over the counts of the run in `run_dir`. Writes validation.json and the run's Data Docs.

    The verdict rests on validation.json. It does not rest on Data Docs: if they cannot be written, a warning and a note
    in the manifest say why. Raises IncompleteRun if the step reconcile did not finish.
    """
    run = RunDirectory(run_dir)
    run.read_scenario().fail_if_asked("validate")
    evidence = Evidence.load(run.path)
    with run.writing("validate") as output:
        validation = evaluate(evidence, run.path.parent, output.notes)
        output.write_json("validation.json", validation)
        output.counts["evaluated"] = len(validation.evaluated)
        output.counts["failed"] = sum(not item.success for item in validation.evaluated)


def evaluate(evidence: Evidence, runs: Path, notes: dict[str, str]) -> Validation:
    """Evaluates every planned expectation, and writes Data Docs to `runs`/data_docs. Returns the results.

    `runs`: the folder of all run directories. If Data Docs cannot be written, adds the reason to `notes`, and the
    results have no address of a page."""
    planned = [*expected_guarantees(evidence), *expected_evidence(evidence)]
    left_out = {*Anomaly, *INVARIANTS, *UNEXPLAINED.values()} - {plan.about for plan in planned}
    session = _Session(evidence.scenario.run_id, left_out)
    for arm in evidence.loaded:
        rows = with_totals(evidence.tally.rows("producers", arm=arm.name), arm.late_convicts)
        plans = [plan for plan in planned if (plan.suite, plan.arm) == ("guarantee", arm.name)]
        session.run("guarantee", arm.name, with_unexplained(rows, arm), plans)
    plans = [plan for plan in planned if plan.suite == "evidence"]
    session.run("evidence", "", evidence_table(evidence), plans)
    if missing := optional("Data Docs", lambda: session.write_site(runs), SITE_S):
        notes[f"{NOT_WRITTEN}{SITE}"] = missing
    evaluated = session.results(with_pages=not missing)
    return Validation(run_id=evidence.scenario.run_id, great_expectations_version=session.version, evaluated=evaluated)


class _Session:
    """A session with Great Expectations for one run. The suites of the session come from the committed JSON files. The
    session evaluates in memory. Only `write_site` writes files."""

    def __init__(self, run_id: str, left_out: set[str]) -> None:
        from expectations import vocabulary  # silences the log, and registers the names in suites
        from expectations.configuration import in_memory

        gx = vocabulary.great_expectations

        self._gx, self.version = gx, str(gx.__version__)
        self._run_name = data_docs.name_of(run_id)
        self._context = gx.get_context(mode="ephemeral", project_config=in_memory())
        self._source = self._context.data_sources.add_pandas("tally")
        self._suites: dict[Suite, Any] = {}
        self._outcomes: list[tuple[Suite, str, list[ExpectedEvaluation], Any]] = []
        self._pages: list[str] = []
        self._left_out = left_out

    def run(self, suite: Suite, arm: str, table: pa.Table, plans: list[ExpectedEvaluation]) -> None:
        """Evaluates one suite over one table."""
        name = f"{suite}-{arm or suite}"
        batch = self._source.add_dataframe_asset(arm or suite).add_batch_definition_whole_dataframe("all")
        definition = self._gx.ValidationDefinition(name=name, data=batch, suite=self._suite(suite))
        # Without a time, Great Expectations would read the time off the run's name. In `20260101T000000-2764`, it would
        # take `-2764` for a time zone 27 hours from Greenwich. The index of Data Docs is sorted by this time.
        run = self._gx.RunIdentifier(run_name=self._run_name, run_time=datetime.now(UTC))
        outcome = self._context.validation_definitions.add(definition).run(
            batch_parameters={"dataframe": table.to_pandas()},
            expectation_parameters=_tolerances(plans),
            result_format="SUMMARY",
            run_id=run,
        )
        self._outcomes.append((suite, arm, plans, outcome))

    def write_site(self, runs: Path) -> None:
        """Stores the results below `runs`/data_docs. Writes one page of Data Docs for each suite and for each call of
        `run`, and then the index page once.

        Raises filelock.Timeout if another validation locks the site for longer than SITE_LOCK_S.
        """
        from expectations.configuration import of_site
        from expectations.library import ExpectationSuiteIdentifier, ValidationResultIdentifier

        (runs / SITE).mkdir(parents=True, exist_ok=True)
        with FileLock(runs / data_docs.LOCK, timeout=SITE_LOCK_S):
            context = self._gx.get_context(mode="ephemeral", project_config=of_site(runs / SITE, SITE))
            suites = {suite: ExpectationSuiteIdentifier(name=suite) for suite in self._suites}
            for suite in self._suites:
                context.suites.add(self._read_suite(suite))
            pages: list[Any] = []
            for suite, _, _, outcome in self._outcomes:
                pages.append(ValidationResultIdentifier(suites[suite], outcome.meta["run_id"], outcome.batch_id))
                context.validation_results_store.store_validation_results(outcome, pages[-1], suites[suite])
            context.build_data_docs(site_names=[SITE], resource_identifiers=[*pages, *suites.values()])
            for page in pages:
                (site,) = context.get_docs_sites_urls(resource_identifier=page)
                self._pages.append(str(site["site_url"]).removeprefix("file://").removeprefix(f"{runs}/"))

    def results(self, with_pages: bool) -> list[Evaluated]:
        """Returns all results, including results that no item of `plans` asked for, because the judgement must see
        them. `with_pages`: whether the results have the addresses of their pages in Data Docs, relative to the folder
        of all runs."""
        pages = self._pages if with_pages else [""] * len(self._outcomes)
        return [
            _evaluated(suite, arm, {plan.about: plan for plan in plans}, item.to_json_dict(), url)
            for url, (suite, arm, plans, outcome) in zip(pages, self._outcomes, strict=True)
            for item in outcome.results
        ]

    def _suite(self, name: Suite) -> Any:
        if name not in self._suites:
            self._suites[name] = self._context.suites.add(self._read_suite(name))
        return self._suites[name]

    def _read_suite(self, name: Suite) -> Any:
        """Returns the suite `name` from its committed JSON file, without expectations that this run does not plan, such
        as those on effects if no arm has an application."""
        from expectations.suites import load

        suite = load(name)
        suite.expectations = [
            item for item in suite.expectations if (item.meta or {}).get("about") not in self._left_out
        ]
        return suite


def _tolerances(plans: Iterable[ExpectedEvaluation]) -> dict[str, int | None]:
    """Maps the name of each tolerance parameter of a suite to a tolerance: the planned tolerance of the parameter's
    anomaly."""
    from expectations.suites import tolerance_parameter

    return {tolerance_parameter(plan.about): plan.tolerance for plan in plans if plan.about in Anomaly.__members__}


def _evaluated(
    suite: Suite, arm: str, plans: Mapping[str, ExpectedEvaluation], item: Mapping[str, Any], url: str
) -> Evaluated:
    """Converts `item`, one result of Great Expectations. `plans` maps an anomaly or invariant to its planned
    evaluation."""
    config, result = item["expectation_config"], item["result"]
    about = str(config["meta"].get("about", ""))
    plan = plans.get(about)
    return Evaluated(
        suite=suite,
        arm=arm,
        about=about,
        expectation=config["type"],
        tolerance=_evaluated_tolerance(suite, config),
        expected_rows=plan.rows if plan else 0,
        element_count=result.get("element_count"),
        missing_count=result.get("missing_count"),
        unexpected_count=result.get("unexpected_count"),
        success=bool(item["success"]),
        exception=_exception(item.get("exception_info") or {}),
        count=plan.count if plan else 0,
        url=url,
    )


def _evaluated_tolerance(suite: Suite, config: Mapping[str, Any]) -> int | None:
    """Returns the tolerance with which Great Expectations really evaluated an expectation. It may differ from the
    planned tolerance.

    The tolerance is the greatest number of cases that is permitted. None permits any number. For an invariant, the
    tolerance is always 0."""
    limit = config["kwargs"].get("max_value") if suite == "guarantee" else 0
    return None if limit is None else int(limit)


def _exception(info: Mapping[str, Any]) -> str:
    """Returns the messages of all exceptions that the evaluation raised; an empty text if it raised none.

    `info` is one dictionary about the whole evaluation, or maps each metric to such a dictionary.
    """
    entries = [info] if "raised_exception" in info else [entry for entry in info.values() if isinstance(entry, Mapping)]
    raised = [entry for entry in entries if entry.get("raised_exception")]
    messages = [str(entry.get("exception_message") or "unnamed exception") for entry in raised]
    return "; ".join(dict.fromkeys(messages))
