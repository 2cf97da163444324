"""Turns the fields of an audit's form into a request."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from delivery_verifier.audit.fields import CHOICES, FLAGS, TEXTS
from delivery_verifier.audit.request import AuditRequest, format_of
from delivery_verifier.cluster.external.cluster import read
from delivery_verifier.cluster.security import airflow_connections
from delivery_verifier.model.external_cluster import ClusterAccess
from delivery_verifier.model.inputs import BadInput, bad_input, choice
from delivery_verifier.model.scenario import Claim, Profile
from delivery_verifier.planning.build import scenario_from_params


def request_of(fields: Mapping[str, Any], run_id: str) -> AuditRequest:
    """Returns the request that the fields describe. Raises BadInput if one is missing or not allowed."""
    for name in ("ledger", "topic", "cluster"):
        if not str(fields[name]).strip():
            raise BadInput(f"{name} is empty; allowed: {TEXTS[name][1]}")
    if fields["identity"] and fields["identity_sql"]:
        raise BadInput("identity and identity_sql say the same in two ways; give one of them")
    for name, allowed in CHOICES.items():
        choice(name, fields[name], allowed)
    files = _files(str(fields["ledger"]))
    access = access_of(str(fields["cluster"]).strip())
    profile, claim = _settings(str(fields["producer_config"]), fields["claim"])
    return AuditRequest(
        run_id=run_id,
        files=files,
        format=fields["format"] or format_of(files[0]),
        topic=str(fields["topic"]).strip(),
        access=access,
        identity=fields["identity"] or None,
        identity_sql=fields["identity_sql"] or None,
        complete=bool(fields["complete"]),
        others_write=bool(fields["others_write"]),
        profile=profile,
        claim=claim,
        command=_command(fields, files, access),
    )


def _files(text: str) -> tuple[Path, ...]:
    files: list[Path] = []
    for pattern in text.split():
        if not Path(pattern).is_absolute():
            raise bad_input("ledger", pattern, "an absolute path", "the task does not run in your folder")
        named = [Path(name) for name in sorted(glob.glob(pattern))]  # noqa: PTH207 (the pattern is absolute)
        files += (file for file in named if file.is_file() and file not in files)
        if not any(file.is_file() for file in named):
            raise bad_input("ledger", pattern, "files that the worker can read", "there is no such file")
    return tuple(files)


def access_of(cluster: str) -> ClusterAccess:
    """Returns how to reach `cluster`: the addresses of brokers, or the name of a cluster, of which nothing but the name
    travels. Raises BadInput and UnsupportedSecurity if it cannot be used."""
    is_address = ":" in cluster and not airflow_connections.is_named(cluster)
    access = ClusterAccess(bootstrap_server=cluster) if is_address else ClusterAccess(cluster=cluster)
    read(access)
    return access


def _settings(producer_config: str, claim: str) -> tuple[Profile | None, Claim]:
    if not producer_config.strip():
        if claim == "contract":
            raise bad_input("claim", claim, "another claim, or a contract that can be read", "give producer_config")
        return None, claim or "at_least_once"  # type: ignore[return-value]
    params = {"profile": "own", "producer_config": producer_config, "claim": claim or "contract", "fault": "none"}
    subject = scenario_from_params(params, "audited").subjects[0]
    return subject.profile, subject.claim


def _command(fields: Mapping[str, Any], files: tuple[Path, ...], access: ClusterAccess) -> str:
    """Returns the command that repeats the audit; empty if the settings were entered as a text."""
    if str(fields["producer_config"]).strip():
        return ""
    words = ["kdv", "audit", "--ledger", *map(str, files), "--topic", str(fields["topic"]).strip()]
    words += [word for option in access.options() for word in option]
    for name in ("identity", "identity_sql", "format", "claim"):
        words += [f"--{name.replace('_', '-')}", str(fields[name])] if fields[name] else []
    return shlex.join([*words, *(f"--{name.replace('_', '-')}" for name in FLAGS if fields[name])])
