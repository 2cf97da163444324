"""Made-up runs whose validation and verdict are sealed, as the steps `validate` and `conclude` seal them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from delivery_verifier.judgement.evaluation import LAWS, Evaluated, Validation
from delivery_verifier.model.data import dumps
from delivery_verifier.model.steps import REQUIRES
from delivery_verifier.model.verdict import RunVerdict
from delivery_verifier.store.manifests import Manifest, sealed
from delivery_verifier.store.run_directory import RunDirectory
from support import report_material


def evaluated(about: str, success: bool = True, exception: str = "") -> Evaluated:
    """Returns a made-up result of Great Expectations for the law `about`."""
    return Evaluated(
        suite="evidence",
        arm="",
        about=about,
        expectation="expect",
        tolerance=0,
        expected_rows=3,
        element_count=3,
        missing_count=0,
        unexpected_count=0 if success else 1,
        success=success,
        exception=exception,
        count=int(not success),
        url="",
    )


def judged(
    runs: Path,
    run_id: str = "judged",
    make: Callable[..., tuple[Path, RunVerdict]] = report_material.held,
    broken: str = "",
) -> tuple[RunDirectory, RunVerdict]:
    """Makes a run that `make` makes, with sealed validation and verdict. If `broken` is not empty, the law of this name
    does not hold."""
    path, verdict = make(runs, run_id)
    verdict = msgspec.structs.replace(verdict, laws=report_material.checked_laws(broken))
    run = RunDirectory(path)
    with run.writing("validate") as output:
        laws = [evaluated(law, success=law != broken) for law in LAWS]
        output.write_json("validation.json", Validation(run_id=run_id, great_expectations_version="1", evaluated=laws))
    with run.writing("conclude") as output:
        output.write_json("verdict.json", verdict)
        (output.staging / "report.html").write_text("<title>report</title>")
    return run, verdict


def relink(run: RunDirectory) -> None:
    """Makes every manifest name the manifests that are there now, and seals it again.

    A liar who computes every checksum anew does the same. What notices this liar must be something else than a
    checksum.
    """
    for step in (step for step in REQUIRES if (run.path / f"{step}.json").is_file()):
        text = msgspec.json.decode((run.path / f"{step}.json").read_bytes())
        links = {"required": run.rested_on(step), "run_id": run.run_id()}
        (run.path / f"{step}.json").write_bytes(dumps(sealed(msgspec.convert(text | links, Manifest))))
