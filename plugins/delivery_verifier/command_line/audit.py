"""The commands `kdv audit` and `kdv schema`.

`kdv audit` judges an application's own ledger against its topic. `kdv schema` prints the form of such a ledger.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from delivery_verifier.command_line import options, outputs, own_cluster
from delivery_verifier.command_line.parsers import Add
from delivery_verifier.command_line.stored import read_verdict, show
from delivery_verifier.host import folders
from delivery_verifier.model.audit import LedgerFormat
from delivery_verifier.model.inputs import BadInput, bad_input
from delivery_verifier.model.scenario import Claim, Profile
from delivery_verifier.run_directory.run_directory import RunDirectory

if TYPE_CHECKING:
    from delivery_verifier.audit.request import AuditRequest

_EXAMPLES = """examples:
  kdv audit --ledger acks.jsonl --topic orders --bootstrap-server broker:9092 --identity header:order-id
                             is every record that the application was told of in the topic?
  kdv audit --ledger out.txt --format verifiable-producer --topic t --bootstrap-server broker:9092
  kdv audit --ledger acks.csv --topic orders --cluster production --identity key --claim at_least_once
                             of the cluster in connections/production.properties, with TLS or SASL
  kdv schema ledger          the columns of a ledger, as JSON Schema
"""


def register(add: Add) -> None:
    """Adds `kdv audit` and `kdv schema` to the command line by calls of `add` (see `parsers.Add`)."""
    sub = add("audit", audit, "Judge an application's own ledger against its topic.", epilog=_EXAMPLES)
    group = sub.add_argument_group("ledger and topic")
    group.add_argument("--ledger", metavar="FILE", nargs="+", required=True, help="files of the ledger")
    group.add_argument("--format", choices=get_args(LedgerFormat), help="format of the files (default: by their names)")
    group.add_argument("--topic", required=True, help="the topic that the application wrote to")
    group.add_argument(
        "--identity",
        metavar="WHERE",
        help="where a record names its claim: header:NAME, key, value, value:json:$.PATH, value:regex:EXPRESSION",
    )
    group.add_argument(
        "--identity-sql", metavar="SQL", help="the same as a Spark SQL expression over key, value, headers"
    )
    group.add_argument("--complete", action="store_true", help="every attempt is in the ledger, also open ones")
    group.add_argument("--others-write", action="store_true", help="others write to the topic, too")
    group.add_argument("--run-id", metavar="NAME", help="name of the run (default: the time)")
    own_cluster.add(sub)
    options.add(sub, only=("claim", "client"))
    output = sub.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print verdict.json and nothing else")
    outputs.add_junit(output)
    schema_parser = add("schema", schema, "Print the form of a file that kdv reads, as JSON Schema.")
    text = "ledger: one line of a ledger for `kdv audit`; commands: the file of `--commands`, in TOML"
    schema_parser.add_argument("what", choices=("ledger", "commands"), help=text)


def schema(arguments: argparse.Namespace) -> int:
    """Carries out `kdv schema`: prints the JSON Schema of a line of a ledger, or of the operator's commands. Returns
    0."""
    from delivery_verifier.model import ledger_line, operator_commands
    from delivery_verifier.model.data import dumps

    form = operator_commands.schema() if arguments.what == "commands" else ledger_line.schema()
    sys.stdout.write(dumps(form).decode())
    return 0


def audit(arguments: argparse.Namespace) -> int:
    """Carries out `kdv audit`. Returns the exit code of the verdict."""
    from delivery_verifier.audit.perform import perform
    from delivery_verifier.pipeline.direct import judge
    from delivery_verifier.pipeline.local_spark import foreign_session

    run_id = folders.new_run_id() if arguments.run_id is None else arguments.run_id
    with outputs.junit(arguments.junit, run_id) as record:
        request = _request(arguments, folders.check_run_id(run_id))
        folders.require_writable()
        run_dir = folders.runs_dir() / folders.run_directory_name(run_id)
        if (run_dir / "scenario.json").exists():
            raise bad_input("--run-id", run_id, "one that no run has yet", f"{run_dir} holds a run already")
        with foreign_session() as spark:
            perform(request, run_dir, spark, _quiet if arguments.json else _say)
            judge(run_dir, lambda _progress: None, spark)
        folders.point_latest_at(run_dir)
        verdict = read_verdict(RunDirectory(run_dir).path)
        record(verdict)
    show(verdict, run_dir, None, as_json=arguments.json)
    return verdict.exit_code


def _request(arguments: argparse.Namespace, run_id: str) -> AuditRequest:
    """Returns the request that the command line describes. Raises BadInput if an option is not allowed."""
    from delivery_verifier.audit.request import AuditRequest, format_of

    files = tuple(Path(name) for name in arguments.ledger)
    for file in files:
        if not file.is_file():
            raise bad_input("--ledger", str(file), "a file", "there is no such file")
    if arguments.identity and arguments.identity_sql:
        raise BadInput("--identity and --identity-sql say the same in two ways; give one of them")
    access = own_cluster.access_of(arguments)
    if access is None:
        raise BadInput("no cluster is named; allowed: --bootstrap-server, --command-config, or --cluster")
    profile, claim = _settings(arguments)
    return AuditRequest(
        run_id=run_id,
        files=files,
        format=arguments.format or format_of(files[0]),
        topic=arguments.topic,
        access=access,
        identity=arguments.identity,
        identity_sql=arguments.identity_sql,
        complete=arguments.complete,
        others_write=arguments.others_write,
        profile=profile,
        claim=claim,
        command=_command(),
    )


def _settings(arguments: argparse.Namespace) -> tuple[Profile | None, Claim]:
    """Returns the settings of the producer, and the claim. Without settings, the claim is at_least_once by default."""
    from delivery_verifier.planning.build import scenario_from_params

    params = options.params_of(arguments)
    if params.keys() <= {"claim", "client"}:
        claim = params.get("claim", "at_least_once")
        if claim == "contract":
            raise bad_input("--claim", claim, "another claim, or a contract that can be read", "give --producer-config")
        return None, claim
    subject = scenario_from_params({**params, "fault": "none"}, "audited").subjects[0]
    return subject.profile, params.get("claim", "contract")


def _command() -> str:
    """Returns the command as it was typed, without the name of the run."""
    words = [word for word in sys.argv[1:] if word and not word.startswith("--run-id=")]
    if "--run-id" in words:
        position = words.index("--run-id")
        words = [*words[:position], *words[position + 2 :]]
    return shlex.join(["kdv", *words])


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _quiet(_text: str) -> None:
    """Says nothing."""
