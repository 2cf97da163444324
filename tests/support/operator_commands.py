"""An operator with commands of his own, for a cluster that the verifier has not started: a script that stands in for
kubectl, kills and starts brokers by their pids, and can be told to misbehave."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from delivery_verifier.host import folders
from delivery_verifier.host.processes import identify
from delivery_verifier.host.waiting import wait_until
from support.patience import PATIENCE_S
from support.secured_cluster import SecuredCluster

NAME = "standin"
_SCRIPT = """#!/usr/bin/env python3
# Stands in for kubectl: {script} ACTION BROKER
import json, os, signal, subprocess, sys, time
folder = {folder!r}
action, broker = sys.argv[1], int(sys.argv[2])
how = json.load(open(folder + "/how.json"))
if action in how.get("hits_another", ()):
    broker = next(other for other in {brokers} if other != broker)
def pid(of):
    return int(open(folder + "/" + str(of) + ".pid").read())
def lives(of):
    try:
        return open("/proc/" + str(pid(of)) + "/stat").read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
with open(folder + "/orders", "a") as orders:
    orders.write(action + " " + str(broker) + " " + " ".join(sorted(os.environ)) + "\\n")
print(action, "of broker", broker, how.get("say", ""), flush=True)
if action in how.get("hangs", ()):
    time.sleep(600)
if action in how.get("fails", ()):
    sys.exit(3)
if action in how.get("does_nothing", ()):
    sys.exit(0)
if action == "start" and lives(broker):
    print("it runs")
elif action == "start":
    with open(folder + "/" + str(broker) + ".log", "ab") as log:
        command = json.load(open(folder + "/" + str(broker) + ".command"))
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    open(folder + "/" + str(broker) + ".pid", "w").write(str(started.pid))
else:
    numbers = {{"kill": signal.SIGKILL, "stop": signal.SIGTERM, "pause": signal.SIGSTOP, "resume": signal.SIGCONT}}
    os.kill(pid(broker), numbers[action])
"""


class Operator:
    """The operator of `cluster`. `folder` has the pids of its brokers, and the script."""

    def __init__(self, cluster: SecuredCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        folder.mkdir(exist_ok=True)
        for broker in cluster.brokers:
            (folder / f"{broker}.command").write_text(json.dumps(cluster.command(broker)))
            (folder / f"{broker}.pid").write_text(str(cluster.processes[broker].pid))
        self.script = folder / "kubectl"
        self.script.write_text(_SCRIPT.format(script=self.script, folder=str(folder), brokers=list(cluster.brokers)))
        self.script.chmod(0o700)
        self.behaves()

    def behaves(self, **how: object) -> None:
        """Lets the script do what it is asked, or misbehave: `hangs`, `fails`, `does_nothing` and
        `hits_another` have actions, and `say` is printed."""
        (self.folder / "how.json").write_text(json.dumps(how))

    def commands(self, name: str = NAME, *, actions: tuple[str, ...] = ("kill", "start"), **more: float) -> str:
        """Writes the TOML file with a command for each of `actions`. Returns its name."""
        file = folders.commands_dir() / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        settings = {"effect_s": PATIENCE_S, "whole_s": PATIENCE_S, "deadline_s": PATIENCE_S, **more}
        deadline_s = settings.pop("deadline_s")
        lines = [f"{field} = {json.dumps(value)}" for field, value in settings.items()]
        for action in actions:
            command = json.dumps([str(self.script), action, "{broker}"])
            lines += [f"[actions.{action}]", f"command = {command}", f"deadline_s = {deadline_s}"]
        file.write_text("\n".join(lines))
        file.chmod(0o600)
        return name

    def orders(self) -> list[str]:
        """The commands that were run: action, broker, and the names of the variables that they got."""
        file = self.folder / "orders"
        return file.read_text().splitlines() if file.exists() else []

    def start_all(self) -> None:
        """Starts every broker that does not run."""
        for broker in self.cluster.brokers:
            if not self.runs(broker):
                subprocess.run([str(self.script), "start", str(broker)], check=True, capture_output=True)

    def runs(self, broker: int) -> bool:
        """Whether the broker's process runs."""
        process = identify(self._pid(broker))
        return process is not None and process.alive

    def end(self) -> None:
        """Kills every broker that the script has started."""
        for broker in self.cluster.brokers:
            if (process := identify(self._pid(broker))) is not None:
                process.send(signal.SIGKILL)
                wait_until(lambda ended=process: not ended.alive, f"broker {broker} to end", PATIENCE_S)  # type: ignore[misc]

    def _pid(self, broker: int) -> int:
        return int((self.folder / f"{broker}.pid").read_text())
