"""Tests of the fault gateway: it does what its list allows, to containers with its labels, under a lease, and nothing
else. When the lease ends, it heals. The engine behind it is in memory."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from support.fake_engine import NETWORK, FakeEngine
from support.gateways import TOKEN, Gateway, GatewayProcess
from support.patience import PATIENCE_S

from delivery_verifier.cluster.docker import leases
from delivery_verifier.cluster.docker.engine import OPERATIONS
from delivery_verifier.cluster.docker.gateway_client import GatewayGone, GatewayRefused
from delivery_verifier.host.http_clients import client_of
from delivery_verifier.host.waiting import wait_until


@pytest.mark.parametrize("engine", ["1.12", "1.44"], indirect=True)
def test_every_operation_of_the_list_reaches_the_engine_as_the_gateway_words_it(
    engine: FakeEngine, gateway: Gateway
) -> None:
    client = gateway.client()
    lease = client.begin("run", 60)
    for operation, options in {
        "kill": {"signal": "SIGTERM"},
        "start": {},
        "pause": {},
        "unpause": {},
        "stop": {},
        "restart": {},
        "disconnect": {"network": NETWORK},
        "connect": {"network": NETWORK},
    }.items():
        client.carry_out(lease, "kafka-1", operation, **options)
    assert [name.split()[0] for name, _ in engine.changes] == [
        *("kill", "start", "pause", "unpause", "stop", "restart", "disconnect", "connect")
    ]
    assert {name.split()[0] for name, _ in engine.changes} == set(OPERATIONS)
    assert [body for name, body in engine.changes if name.split()[0] in ("kill", "disconnect", "connect")] == [
        {"signal": "SIGTERM"},
        {"Container": "id-kafka-1", "Force": False},
        {
            "Container": "id-kafka-1",
            "EndpointConfig": {"Aliases": ["kafka-1.replication"], "IPAMConfig": {"IPv4Address": "10.213.87.11"}},
        },
    ]


REFUSED_PATHS = [
    ("POST", "/containers/create", {}),
    *(("POST", f"/containers/kafka-1/{operation}", {}) for operation in ("exec", "attach", "rename", "update", "wait")),
    ("POST", "/containers/kafka-1/exec", {"Cmd": ["sh"]}),
    ("POST", "/containers/kafka-1/update", {"Memory": 1}),
    ("POST", "/containers/kafka-1/kill", {"signal": "SIGHUP"}),
    ("POST", "/containers/kafka-1/kill", {"signal": ["SIGKILL"]}),
    ("POST", "/containers/kafka-1/start", {"HostConfig": {"Binds": ["/:/host"]}}),
    ("POST", "/containers/kafka-1/connect", {"network": "tested_kafka"}),
    ("POST", "/containers/kafka-1/disconnect", {"network": "tested_kafka"}),
    ("POST", "/containers/kafka-1/disconnect", {"network": "other_replication"}),
    ("POST", "/containers/kafka-1/disconnect", {"network": "net-1"}),
    ("POST", "/containers/kafka-1/disconnect", {}),
    ("POST", "/containers/controller/disconnect", {"network": NETWORK}),
    ("POST", "/containers/unlabelled/kill", {}),
    ("POST", "/containers/elsewhere/kill", {}),
    ("POST", "/containers/id-kafka-1/kill", {}),
    ("POST", "/containers/..%2Fkafka-1/kill", {}),
    ("POST", "/containers/kafka-1/kill", {"lease": "Schl\u00fcssel"}),
    ("PUT", "/leases/Schl%C3%BCssel", {}),
    ("DELETE", "/leases/Schl%C3%BCssel", {}),
    ("POST", "/containers/kafka-1/kill/", {}),
    ("DELETE", "/containers/kafka-1", {}),
    ("DELETE", "/containers/kafka-1/kill", {}),
    ("PUT", "/containers/kafka-1/archive", {}),
    ("GET", "/containers/json", {}),
    ("GET", "/containers/kafka-1/logs", {}),
    ("GET", "/v1.41/containers/json", {}),
    ("POST", "/v1.41/containers/create", {"Image": "x", "HostConfig": {"Binds": ["/:/host"]}}),
    ("POST", "/volumes/create", {}),
    ("POST", "/networks/create", {}),
    ("POST", "/images/create", {}),
    ("POST", "/exec/id/start", {}),
    ("PATCH", "/nodes", {}),
    ("OPTIONS", "/nodes", {}),
    ("GET", "/", {}),
]


def test_anything_else_is_refused_with_403_and_changes_nothing(engine: FakeEngine, gateway: Gateway) -> None:
    engine.add("unlabelled", 4, **{"kafka-delivery-verifier.fault": ""})
    engine.add("elsewhere", 5, **{"com.docker.compose.project": "other"})
    lease = gateway.client().begin("run", 60)
    answers = {}
    with client_of(gateway.url, headers={"Authorization": f"Bearer {TOKEN}"}) as http:
        for method, path, body in REFUSED_PATHS:
            answer = http.request(method, path, json={"lease": lease, **body})
            answers[method, path, str(body)] = answer.status_code
        big = http.post("/leases", content=b"{" + b" " * 5000 + b"}")
        list_body = http.post("/leases", json=[])
    assert set(answers.values()) == {403}, answers
    assert (big.status_code, list_body.status_code) == (403, 403)
    assert engine.changes == [] and {node.node for node in gateway.client().nodes()} == {1, 2, 3, 100}


@pytest.mark.parametrize("header", ["", "Bearer ", f"Bearer {TOKEN} ", "Bearer another token for tests", TOKEN])
def test_nothing_is_done_without_the_token(header: str, engine: FakeEngine, gateway: Gateway) -> None:
    lease = gateway.client().begin("run", 60)
    with client_of(gateway.url, headers={"Authorization": header.strip()} if header.strip() else {}) as http:
        expected = 200 if header.strip() == f"Bearer {TOKEN}" else 401
        assert http.get("/nodes").status_code == expected
        if expected == 401:
            assert http.post("/containers/kafka-1/kill", json={"lease": lease}).status_code == 401
            assert http.post("/heal").status_code == http.delete(f"/leases/{lease}").status_code == 401
        assert http.get("/health").status_code == 200
    assert engine.changes == []


def test_nothing_is_damaged_without_a_lease_and_only_one_runs(engine: FakeEngine, gateway: Gateway) -> None:
    client = gateway.client()
    for lease in ("", "0123456789abcdef"):
        with pytest.raises(GatewayRefused, match="this lease does not run"):
            client.carry_out(lease, "kafka-1", "kill")
        with pytest.raises(GatewayRefused, match="this lease does not run"):
            client.renew(lease or "none")
    lease = client.begin("first", 60)
    with pytest.raises(GatewayRefused, match="first holds the lease"):
        client.begin("second", 60)
    with pytest.raises(GatewayRefused, match="first holds the lease"):
        client.heal()
    client.end(lease)
    with pytest.raises(GatewayRefused, match="this lease does not run"):
        client.carry_out(lease, "kafka-1", "kill")
    for seconds in (0, -1, 301):
        with pytest.raises(GatewayRefused, match="a lease lasts up to 300 s"):
            client.begin("second", seconds)
    assert engine.changes == []


def damage(gateway: Gateway, lease: str) -> None:
    client = gateway.client()
    client.carry_out(lease, "kafka-1", "pause")
    client.carry_out(lease, "kafka-2", "kill")
    client.carry_out(lease, "kafka-3", "disconnect", network=NETWORK)
    client.carry_out(lease, "controller", "stop")


def whole(engine: FakeEngine) -> bool:
    return all(engine.state(name) == "running" for name in engine.containers)


def test_what_is_paused_exited_or_cut_off_is_healed_when_the_lease_runs_out(
    engine: FakeEngine, gateway: Gateway, pass_time: Callable[[float], None]
) -> None:
    lease = gateway.client().begin("killed", 300)
    damage(gateway, lease)
    assert [engine.state(name) for name in engine.containers] == ["exited", "paused", "exited", "running, cut off"]
    pass_time(300)
    wait_until(lambda: whole(engine), "the containers to be healed", PATIENCE_S)
    with pytest.raises(GatewayRefused, match="this lease does not run"):
        gateway.client().carry_out(lease, "kafka-1", "pause")


def test_a_lease_that_is_renewed_lets_the_damage_stay(
    engine: FakeEngine, gateway: Gateway, pass_time: Callable[[float], None]
) -> None:
    client = gateway.client()
    lease = client.begin("run", 300)
    damage(gateway, lease)
    for _ in range(3):
        pass_time(150)
        client.renew(lease)
    assert [engine.state(name) for name in engine.containers] == ["exited", "paused", "exited", "running, cut off"]
    assert sorted(client.end(lease)) == [
        "controller exited",
        "kafka-1 frozen",
        "kafka-2 exited",
        f"kafka-3 cut off from {NETWORK}",
    ]
    assert whole(engine)


def test_a_container_that_exits_only_after_the_end_of_the_lease_is_healed_too(
    engine: FakeEngine, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LOOK_EVERY_S", 0.1)
    assert gateway.client().end(gateway.client().begin("run", 60)) == []
    engine.containers["kafka-2"]["State"]["Status"] = "exited"  # it was still shutting down when the lease ended
    wait_until(lambda: whole(engine), "the container to be healed", PATIENCE_S)
    assert [name for name, _ in engine.changes] == ["start kafka-2"]


@pytest.mark.slow
def test_a_gateway_that_was_killed_heals_at_its_next_start_and_knows_no_lease(
    engine: FakeEngine, own_gateway: GatewayProcess
) -> None:
    lease = own_gateway.client().begin("run", 60)
    damage(own_gateway, lease)
    own_gateway.send(signal.SIGKILL)
    with pytest.raises(GatewayGone, match="does not answer"):
        own_gateway.client().renew(lease)
    own_gateway.start()
    wait_until(lambda: whole(engine), "the containers to be healed", PATIENCE_S)
    with pytest.raises(GatewayRefused, match="the gateway was started anew"):
        own_gateway.client().renew(lease)


def test_a_gateway_that_cannot_heal_goes_on_trying_and_gives_no_lease(engine: FakeEngine, gateway: Gateway) -> None:
    lease = gateway.client().begin("run", 60)
    damage(gateway, lease)
    engine.broken = {"unpause"}
    with pytest.raises(GatewayRefused, match="kafka-1 frozen: the engine refused POST unpause"):
        gateway.client().end(lease)
    assert [engine.state(name) for name in engine.containers] == ["running", "paused", "running", "running"]
    with pytest.raises(GatewayRefused, match="the engine refused"):
        gateway.client().begin("next", 60)
    engine.broken = set()
    wait_until(lambda: whole(engine), "the containers to be healed", PATIENCE_S)


def test_a_container_that_was_never_started_is_not_started_by_healing(engine: FakeEngine, gateway: Gateway) -> None:
    engine.containers["kafka-3"]["State"]["Status"] = "created"
    gateway.client().end(gateway.client().begin("run", 60))
    assert engine.changes == [] and engine.state("kafka-3") == "created"


def test_a_labelled_container_that_is_no_node_is_an_error_and_not_left_out(
    engine: FakeEngine, gateway: Gateway
) -> None:
    engine.containers["kafka-3"]["Config"]["Env"] = None
    with pytest.raises(GatewayRefused, match="kafka-3 has the label"):
        gateway.client().nodes()


def test_what_answers_in_the_place_of_the_gateway_is_no_gateway(
    engine: FakeEngine, own_gateway: GatewayProcess
) -> None:
    with pytest.raises(GatewayRefused, match="the token of KDV_GATEWAY_TOKEN is missing or wrong"):
        own_gateway.client("another token of someone").nodes()
    own_gateway.send(signal.SIGSTOP)
    with pytest.raises(GatewayGone, match="ReadTimeout"):
        own_gateway.client(answer_s=0.5).nodes()
    own_gateway.send(signal.SIGCONT)
    assert len(own_gateway.client().nodes()) == 4
