"""Each right of a client is asked for on a real cluster: with exactly this right the answer is yes, without it the
right is missing and named. Nothing is left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence

import pytest
from support.patience import PATIENCE_S
from support.secured_cluster import BROKERS, CLUSTER_ID, SecuredCluster

from delivery_verifier import catalogue
from delivery_verifier.cluster.check import cluster_check, rights
from delivery_verifier.cluster.check.cluster_check import Checked
from delivery_verifier.cluster.check.rights import RIGHTS, Right
from delivery_verifier.cluster.security import names
from delivery_verifier.cluster.security.reading import Access
from delivery_verifier.command_line import main as cli
from delivery_verifier.host.waiting import wait_until
from delivery_verifier.model.scenario import Load, Scenario
from delivery_verifier.planning import cluster_needs

Reading = Callable[[dict[str, str]], Access]


def scenario(profile: str = "safe", application: str | None = None, **load: int) -> Scenario:
    """A run without a fault."""
    return catalogue.scenario(
        "r",
        profile=catalogue.PROFILES[profile],
        fault=catalogue.FAULTS["none"],
        load=Load(**load),
        records=1000,
        application=None if application is None else catalogue.APPLICATIONS[application],
    )


PLAIN = scenario()


def bindings(wanted: Sequence[Right]) -> list[tuple[str, str, str, str]]:
    return [
        (right.kind, right.name or "kafka-cluster", "prefixed" if right.is_prefix else "literal", right.operation)
        for right in wanted
    ]


@pytest.fixture
def check(secured: SecuredCluster, access: Reading) -> Callable[..., Checked]:
    """Gives the client exactly the rights `granted`, and checks the cluster for `needed` once they count everywhere."""

    def granted_only(granted: Sequence[Right], needed: Sequence[Right] = RIGHTS, run: Scenario = PLAIN) -> Checked:
        secured.grant(bindings(granted))
        results = list[Checked]()

        def is_known() -> bool:
            wanted = lambda brokers: cluster_needs.sample_topics(run, brokers)  # noqa: E731
            results[:] = [cluster_check.check(access(secured.properties()), needed, wanted)]
            return missing(results[0]) == set(needed) - {*granted, *_implied(granted)}

        wait_until(is_known, "the rights to count", PATIENCE_S, 0.3, detail=lambda: str(results[0].rights))
        return results[0]

    return granted_only


def _implied(granted: Sequence[Right]) -> list[Right]:
    """Kafka's AlterConfigs implies DescribeConfigs (`AclAuthorizer`, "implied operations")."""
    return [rights.DESCRIBE_CONFIGS] if rights.ALTER_CONFIGS in granted else []


def missing(checked: Checked) -> set[Right]:
    assert all(answer.standing != "not known" for answer in checked.rights), checked.rights
    return {answer.right for answer in checked.rights if answer.standing == "missing"}


@pytest.mark.parametrize("right", RIGHTS, ids=str)
def test_with_one_right_alone_exactly_this_one_is_not_missing(check: Callable[..., Checked], right: Right) -> None:
    assert right not in missing(check([right]))


def test_with_all_rights_none_is_missing_and_without_any_all_are(check: Callable[..., Checked]) -> None:
    assert missing(check(RIGHTS)) == set()
    assert missing(check([])) == {*RIGHTS}


def test_a_check_leaves_no_trace(secured: SecuredCluster, check: Callable[..., Checked]) -> None:
    client = secured.operator

    def traces() -> tuple[object, ...]:
        topics = sorted(client.list_topics(timeout=PATIENCE_S).topics)
        groups = client.list_consumer_groups().result(PATIENCE_S)
        return topics, [group.group_id for group in groups.valid]

    before = traces()
    assert check(RIGHTS).took_s < cluster_check.WITHIN_S
    assert traces() == before
    logged = "".join((secured.folder / f"{broker}.log").read_text() for broker in BROKERS)
    assert "kdv-check" not in logged


def test_the_command_that_is_proposed_gives_the_right(secured: SecuredCluster, check: Callable[..., Checked]) -> None:
    """Kafka's own tool reads the words of the command."""
    checked = check([])
    right = rights.WRITE
    command = right.command(checked.servers, checked.principal).split()
    operator = secured.folder / "operator.properties"
    properties = secured.properties("operator")
    del properties["bootstrap.servers"]
    operator.write_text("".join(f"{name}={value}\n" for name, value in names.to_java(properties).items()))
    words = [str(operator) if word == "OPERATOR.properties" else word for word in command[1:]]
    tool = secured.tool("org.apache.kafka.tools.AclCommand", *words)
    ended = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert missing(check([right])) == {*RIGHTS} - {right}


def test_a_topic_that_the_cluster_would_refuse_is_said_in_its_own_words(check: Callable[..., Checked]) -> None:
    odd = scenario()
    arms = tuple(arm if arm.role != "subject" else _with_topic(arm, {"min.insync.replicas": -3}) for arm in odd.arms)
    checked = check([rights.CREATE], [rights.CREATE], _replaced(odd, arms=arms))
    (answer,) = checked.rights
    assert (answer.standing, answer.refused, answer.why) == ("granted", True, "settings")
    created = checked.created[odd.subjects[0].topic_name]
    assert created is not None and "min.insync.replicas" in created.why


def _with_topic(arm: object, settings: dict[str, object]) -> object:
    return _replaced(arm, profile=_replaced(arm.profile, topic={**arm.profile.topic, **settings}))  # type: ignore[attr-defined]


def _replaced(struct: object, **changes: object) -> object:
    import msgspec

    return msgspec.structs.replace(struct, **changes)


@pytest.mark.parametrize(
    ("words", "run"),
    [
        ([], scenario()),
        (["--profile", "transactional"], scenario("transactional")),
        (["--application", "commit_after"], scenario(application="commit_after")),
    ],
    ids=["plain", "transactions", "application"],
)
def test_the_plan_names_each_missing_right_with_its_command_and_exits_as_it_says(
    secured: SecuredCluster,
    check: Callable[..., Checked],
    config: Callable[[dict[str, str]], str],
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    run: Scenario,
) -> None:
    needed = cluster_needs.needs(run)
    command = ["plan", "--fault", "none", *words, "--command-config", config(secured.properties()), "--json"]
    check(needed.rights, (*needed.rights, *needed.wishes), run)
    assert cli.main(command) == 0
    fit = json.loads(capsys.readouterr().out)
    assert fit["fit"] and fit["cluster_id"] == CLUSTER_ID
    assert fit["assumed"]["eligible leader replicas"].startswith("kept")
    assert fit["assumed"]["transaction.state.log.min.isr"] == "1 (not known)"
    for right in needed.rights:
        others = [other for other in needed.rights if other != right]
        check(others, needed.rights, run)
        assert cli.main(command) == 69
        lines = json.loads(capsys.readouterr().out)["lines"]
        named = [line for line in lines if line["mark"] == "missing"]
        assert [line["text"] for line in named] == [str(right)]
        assert f"--operation {right.operation} " in named[0]["remedy"] and "User:verifier" in named[0]["remedy"]


def test_settings_of_brokers_are_known_with_the_right_and_otherwise_the_weaker_value_counts(
    check: Callable[..., Checked],
) -> None:
    assert check([], []).settings is None
    known = check([rights.SEE_SETTINGS], [rights.SEE_SETTINGS]).settings
    assert known is not None and known["transaction.state.log.min.isr"] == "2"
    assert known["auto.leader.rebalance.enable"] == "true"
