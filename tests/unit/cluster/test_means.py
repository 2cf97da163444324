"""Tests of means: one module per backend and means, found by its name. A new one needs no new operation of an agent."""

from __future__ import annotations

import inspect
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.fake_cluster import FakeCluster

from delivery_verifier.cluster import means
from delivery_verifier.cluster.backend import Breakable
from delivery_verifier.cluster.backends import BACKENDS
from delivery_verifier.cluster.docker import backend as docker
from delivery_verifier.cluster.docker.keeper import PACKAGE as DOCKER
from delivery_verifier.cluster.embedded import equipment
from delivery_verifier.cluster.embedded.equipment import PACKAGE as EMBEDDED
from delivery_verifier.cluster.handle import Cluster
from delivery_verifier.cluster.keeper import Keeper, KeeperSpec
from delivery_verifier.cluster.observer import Observer
from delivery_verifier.faults.actions import heal
from delivery_verifier.model.act import CAPABILITIES
from delivery_verifier.model.fault_actions import ACTS

OF_BACKENDS = [(package, name) for package in (EMBEDDED, DOCKER) for name in means.names(package)]


@pytest.mark.parametrize(("package", "name"), OF_BACKENDS)
def test_a_means_takes_what_every_means_takes(package: str, name: str) -> None:
    module = means.module(package, name)
    for method in ("apply", "undo", "is_in_force"):
        asked, taken = (inspect.signature(getattr(owner, method)) for owner in (means.Means, module.BrokerMeans))
        assert taken == asked
    assert [*inspect.signature(module.BrokerMeans).parameters] == ["agent"]
    if package == EMBEDDED and name in CAPABILITIES:
        assert not inspect.signature(module.lack).parameters


def test_every_means_of_an_action_is_one_of_a_backend_and_all_but_signals_are_capabilities() -> None:
    named = {act.means for act in ACTS.values() if act.means}
    assert named - {"process"} == set(CAPABILITIES) <= set(means.names(EMBEDDED))
    breakable = {name for name, backend in BACKENDS.items() if isinstance(backend, Breakable)}
    assert breakable == BACKENDS.keys() - {"external"}
    for backend in BACKENDS.values():
        assert not isinstance(backend, Breakable) or "process" in backend.means()


def test_what_a_backend_has_no_module_of_is_lacking_with_what_it_has() -> None:
    new: Any = "fire"
    equipment.tried.cache_clear()
    for lack in (equipment.tried(new), docker.DockerBackend().lack(new)):
        assert lack is not None and "this backend has no means fire; it has: network, p" in lack.why


NEW = """
from delivery_verifier.cluster.means import Means


class BrokerMeans(Means):
    def __init__(self, agent):
        self.of, self.on = agent.workspace.name, {}

    def apply(self, nodes, options):
        self.on |= {node: dict(options) for node in nodes}
        return 7

    def undo(self, nodes):
        self.on = {node: facts for node, facts in self.on.items() if node not in nodes}

    def is_in_force(self, nodes, options):
        return {node: facts | {"in": self.of} for node, facts in self.on.items() if node in nodes}

    def end(self):
        self.on = {0: {"ended": True}}
"""


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    """An agent of a backend whose only means is one that nobody knows."""
    (folder := tmp_path / "newest" / "means").mkdir(parents=True)
    (folder / "__init__.py").touch()
    (folder / "fire.py").write_text(NEW)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(Keeper, "package", "newest")
    fake: Any = FakeCluster()
    return Keeper(KeeperSpec(run_id="r", workspace=str(tmp_path / "ws"), deadline_s=9), Observer(fake, [1], tmp_path))


def test_a_new_means_is_a_new_module_and_nothing_else(agent: Keeper) -> None:
    assert agent._carry_out("apply", {"means": "fire", "nodes": [1, 2], "options": {"hot": 5}}) == 7
    assert agent.is_in_force("fire", [1, 3]) == {1: {"hot": 5, "in": "ws"}}
    agent.undo("fire", [1])
    assert agent.is_in_force("fire", [1, 2]) == {2: {"hot": 5, "in": "ws"}}
    with pytest.raises(ValueError, match="this backend has no means process; it has: fire"):
        agent.apply("process", [1])
    assert "newest.means.fire" in sys.modules


@pytest.mark.parametrize("error", [None, OSError("no")])
def test_what_a_means_left_on_the_host_goes_with_the_cluster_even_if_its_end_fails(
    agent: Keeper, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    def end_cluster() -> None:
        assert agent.is_in_force("fire", [1]) == {1: {"in": "ws"}}, "the means end after the brokers"
        if error:
            raise error

    agent.workspace.mkdir()
    monkeypatch.setattr(agent, "end_cluster", end_cluster)
    monkeypatch.setattr(agent.observer, "stop", lambda: None)  # it was not started
    agent.apply("fire", [1])
    with pytest.raises(OSError, match="no") if error else nullcontext():
        agent.clean_up()
    assert agent.is_in_force("fire", [0]) == {0: {"ended": True, "in": "ws"}}


@pytest.mark.parametrize("name", ["../fire", "newest", "__init__", "", "os.path"])
def test_only_a_module_in_the_folder_is_a_means(agent: Keeper, name: str) -> None:
    with pytest.raises(ValueError, match="has no means"):
        agent.apply(name, [1])


def test_healing_undoes_every_means_that_the_cluster_was_started_with() -> None:
    new: Any = ("fire",)
    fake = FakeCluster(capabilities=(*CAPABILITIES, *new))
    fake.apply("fire", [1], {"hot": 5})
    fake.apply("network", [2], {"links": ["client"]})
    fake.apply("power", [3])
    heal(Cluster(fake))
    assert (fake.broken, fake.isolated, fake.without_power) == ({"fire": {}}, {}, set())
    assert set(fake.process_states.values()) == {"running"}
