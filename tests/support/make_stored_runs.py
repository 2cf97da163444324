"""Makes the stored runs in tests/data/runs anew. Run this whenever the format of the run directory changes, because the
program refuses runs of another format. Needs what a direct run needs (Java, Kafka's jars), and about five minutes.

    PYTHONPATH=plugins:tests:. python -m support.make_stored_runs

If only verdict.json has changed, `--judge` judges the stored runs again, in seconds and without Kafka.

The stored runs are real runs with few records. Their report and the path of their workspace are taken out, and their
manifests are sealed anew.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from delivery_verifier.model.steps import MANIFESTS
from delivery_verifier.pipeline.steps.conclude import judge_and_report
from delivery_verifier.run_directory.format import FORMAT, schema_digest
from delivery_verifier.run_directory.run_directory import RunDirectory
from support.stored_data import HELD, RUNS, VIOLATED, relink

OPTIONS = {
    HELD: ["--profile", "transactional", "--fault", "kill_leader"],
    VIOLATED: ["--profile", "acks_1", "--fault", "pause_leader", "--claim", "at_least_once"],
}
"""Maps each stored run to its options of `kdv run`."""
EXIT_CODES = {HELD: 0, VIOLATED: 1}


def make(name: str, home: Path) -> None:
    """Makes the run `name` below the folder `home`, and stores it. Raises RuntimeError if it does not end as it must:
    repeat it then."""
    folders = {"KDV_HOME": home, "KDV_RUNS": home / "runs", "KDV_WORKSPACES": home / "w", "KDV_LOCK": home / "lock"}
    command = [sys.executable, "-m", "delivery_verifier", "run", "--direct", "--run-id", name, "--records", "1000"]
    environment = os.environ | {variable: str(path) for variable, path in folders.items()}
    code = subprocess.run([*command, *OPTIONS[name]], env=environment, check=False).returncode
    if code != EXIT_CODES[name]:
        raise RuntimeError(f"the run {name} ended with exit code {code}, must be {EXIT_CODES[name]}")
    store(RunDirectory(home / "runs" / name))


def store(made: RunDirectory) -> None:
    """Replaces the stored run of the same name by `made`."""
    shutil.rmtree(RUNS / made.path.name, ignore_errors=True)
    run = RunDirectory(shutil.copytree(made.path, RUNS / made.path.name))
    (run.path / "report.html").unlink()
    for step, field, key in (("conclude", "files", "report.html"), ("start_cluster", "notes", "workspace")):
        manifest = json.loads((run.path / f"{step}.json").read_bytes())
        manifest[field].pop(key, None)
        (run.path / f"{step}.json").write_text(json.dumps(manifest))
    relink(run)


def judge(name: str, home: Path) -> None:
    """Judges the stored run `name` again, in the folder `home`, and stores it. All its manifests name the
    present format, because no evidence has changed."""
    run = RunDirectory(shutil.copytree(RUNS / name, home / name))
    for step in MANIFESTS:
        if (file := run.path / f"{step}.json").is_file():
            named = {"format": FORMAT, "schema": schema_digest()}
            file.write_text(json.dumps(json.loads(file.read_bytes()) | named))
    relink(run)
    judge_and_report(run.path)
    store(run)


if __name__ == "__main__":
    action = judge if "--judge" in sys.argv[1:] else make
    with tempfile.TemporaryDirectory() as temporary:
        for chosen in OPTIONS:
            action(chosen, Path(temporary))
