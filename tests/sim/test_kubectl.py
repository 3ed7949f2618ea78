"""What people type: the real kubectl against the simulated API server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.kubernetes import clients

FOUND = [str(client.path) for client in clients.find("kubectl")]
KUBECTL = shutil.which("kubectl") or next(iter(FOUND), "")
pytestmark = pytest.mark.skipif(not KUBECTL, reason="kubectl is not here: install it, or run `make clients`")

START_S = 60.0

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: gpu-1
  labels: {kubernetes.io/hostname: gpu-1, tier: gpu}
status:
  capacity: {cpu: "8", memory: 16Gi, pods: "110", nvidia.com/gpu: "8"}
  addresses: [{type: InternalIP, address: 127.1.2.3}]
  conditions:
  - {type: Ready, status: "True", reason: KubeletReady, message: kubelet is posting ready status}
  nodeInfo:
    architecture: amd64
    bootID: b
    containerRuntimeVersion: sim://1
    kernelVersion: 5.15.0-1
    kubeProxyVersion: ""
    kubeletVersion: v1.36.1
    machineID: m
    operatingSystem: linux
    osImage: Ubuntu 22.04
    systemUUID: u
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: x}}
spec:
  containers:
  - name: main
    image: gpuready:1
    command: [sleep, infinity]
    resources: {limits: {nvidia.com/gpu: 1}}
"""
DAEMON_SET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers: [{name: main, image: "gpuready:1"}]
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.dev}
spec:
  group: example.dev
  scope: Cluster
  names: {kind: Widget, plural: widgets, singular: widget, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Name, type: string, jsonPath: .spec.name, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing with a size.
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 3, minimum: 1, description: How large it is.}
              name: {type: string}
          status: {type: object, properties: {phase: {type: string}}}
"""
WIDGET = """
apiVersion: example.dev/v1
kind: Widget
metadata: {name: w1}
spec: {name: one}
"""


@dataclass
class Kubectl:
    """Runs kubectl and gives back what it printed."""

    directory: Path
    kubeconfig: Path

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl says on stderr when it fails, as it must."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [KUBECTL, *arguments],
            input=stdin,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def environment(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.directory), "KUBECONFIG": str(self.kubeconfig)}


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """A server of its own for this file, with one node, one definition and one pod."""
    directory = tmp_path_factory.mktemp("kubectl")
    client = Kubectl(directory, directory / "kubeconfig")
    server = subprocess.Popen(
        [
            sys.executable,
            *("-m", "gpuready_sim.apiserver"),
            *("--data", str(directory / "data")),
            *("--kubeconfig", str(client.kubeconfig)),
        ]
    )
    try:
        _wait_until_ready(client)
        client("apply", "-f", "-", stdin="\n---\n".join((NODE, POD, DEFINITION)))
        client("wait", "--for=condition=Established", "crd/widgets.example.dev", "--timeout=5s")
        client("apply", "-f", "-", stdin=WIDGET)
        yield client
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(5)


def _wait_until_ready(client: Kubectl) -> None:
    deadline = time.monotonic() + START_S
    while client.run("get", "--raw", "/readyz").stdout != "ok":
        assert time.monotonic() < deadline, "the API server does not answer"


def test_version_and_resources_are_shown(kubectl: Kubectl) -> None:
    assert "Server Version: v1.36." in kubectl("version")
    resources = kubectl("api-resources")
    assert "widgets" in resources
    assert "clusterrolebindings" in resources
    assert "apps/v1" in kubectl("api-versions")


def test_get_shows_tables_lists_and_columns(kubectl: Kubectl) -> None:
    assert kubectl("get", "nodes").splitlines()[0].split() == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert "Ubuntu 22.04" in kubectl("get", "nodes", "-o", "wide")
    assert kubectl("get", "wd").splitlines()[1].split()[:2] == ["w1", "3"]
    assert "one" in kubectl("get", "widgets", "-o", "wide")
    assert kubectl("get", "pods", "-l", "app in (x),!y", "-o", "name") == "pod/p1\n"
    assert kubectl("get", "no", "-o", "custom-columns=N:.metadata.name", "--no-headers") == "gpu-1\n"
    assert "kind: Widget" in kubectl("get", "wd", "w1", "-o", "yaml")
    assert "pod/p1" in kubectl("get", "all")
    assert kubectl("get", "pods", "-A", "--field-selector", "metadata.name=p1", "-o", "name") == "pod/p1\n"
    assert 'nodes "gone" not found' in kubectl.refused("get", "node", "gone")
    assert "field label not supported: foo" in kubectl.refused("get", "nodes", "--field-selector=foo=bar")


def test_describe_finds_pods_and_events(kubectl: Kubectl) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "gpu-1.1"},
        "involvedObject": {"kind": "Node", "name": "gpu-1", "uid": "gpu-1"},
        "reason": "GPUBroken",
        "message": "XID 79 on GPU 3",
        "type": "Warning",
        "source": {"component": "gpuready"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))

    node = kubectl("describe", "node", "gpu-1")
    assert "XID 79 on GPU 3" in node
    assert "nvidia.com/gpu" in node
    assert "Image:" in kubectl("describe", "pod", "p1")
    assert "Size:" in kubectl("describe", "widget", "w1")
    assert "GPUBroken" in kubectl("get", "events")


def test_explain_reads_the_published_schemas(kubectl: Kubectl) -> None:
    assert "How large it is." in kubectl("explain", "widgets.spec")
    assert "nodeSelector" in kubectl("explain", "daemonset.spec.template.spec")


def test_create_makes_objects_from_flags(kubectl: Kubectl) -> None:
    made = [
        kubectl("create", "namespace", "team"),
        kubectl("create", "configmap", "settings", "--from-literal=a=b"),
        kubectl("create", "secret", "generic", "key", "--from-literal=a=b"),
        kubectl("create", "serviceaccount", "robot"),
        kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2", "--port=80"),
        kubectl("create", "clusterrole", "reader", "--verb=get", "--resource=pods"),
        kubectl("create", "clusterrolebinding", "reading", "--clusterrole=reader", "--user=me"),
    ]
    assert all(text.strip().endswith("created") for text in made)
    assert kubectl.json("get", "configmap", "settings")["data"] == {"a": "b"}
    assert kubectl.json("get", "deployment", "web")["spec"]["replicas"] == 2
    assert kubectl("create", "token", "robot").count(".") == 2
    assert "already exists" in kubectl.refused("create", "namespace", "team")


def test_misspelt_fields_are_refused_before_they_are_stored(kubectl: Kubectl) -> None:
    misspelt = WIDGET.replace("w1", "w2").replace("name: one", "nmae: one")

    assert 'unknown field "spec.nmae"' in kubectl.refused("create", "-f", "-", stdin=misspelt)
    warned = kubectl.run("create", "--validate=warn", "-f", "-", stdin=misspelt)
    assert 'Warning: unknown field "spec.nmae"' in warned.stderr
    assert kubectl("delete", "widget", "w2").strip() == 'widget.example.dev "w2" deleted'


@pytest.mark.parametrize("manifest", [DAEMON_SET, WIDGET], ids=["built-in", "custom"])
def test_apply_changes_only_what_differs(kubectl: Kubectl, manifest: str) -> None:
    manifest = manifest.replace("agent", "applied").replace("w1", "applied")
    assert "created" in kubectl("apply", "-f", "-", stdin=manifest)
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=manifest)
    changed = manifest.replace("gpuready:1", "gpuready:2").replace("name: one", "name: two")
    assert "configured" in kubectl("apply", "-f", "-", stdin=changed)
    assert "serverside-applied" in kubectl(
        "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=changed
    )
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert "conflict with" in kubectl.refused(*other, stdin=manifest)
    assert kubectl.run("diff", "-f", "-", stdin=changed).returncode == 0
    assert kubectl.run("diff", "-f", "-", stdin=manifest).returncode == 1
    assert "deleted" in kubectl("delete", "-f", "-", stdin=manifest)


def test_every_kind_of_patch(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DAEMON_SET)
    containers = (
        '{"spec":{"template":{"spec":{"containers":[{"name":"main","env":[{"name":"A","value":"B"}]}]}}}}'
    )
    kubectl("patch", "ds", "agent", "-p", containers)
    kubectl("patch", "ds", "agent", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    kubectl("patch", "ds", "agent", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/a"}]')
    kubectl("patch", "wd", "w1", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Ready"}}')

    agent = kubectl.json("get", "ds", "agent")
    container = agent["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "gpuready:1"
    assert container["env"] == [{"name": "A", "value": "B"}]
    assert "a" not in agent["metadata"].get("labels", {})
    assert kubectl.json("get", "wd", "w1")["status"] == {"phase": "Ready"}
    assert "spec.size" in kubectl.refused("patch", "wd", "w1", "--type=merge", "-p", '{"spec":{"size":0}}')


def test_labels_annotations_taints_and_cordons(kubectl: Kubectl) -> None:
    kubectl("label", "node", "gpu-1", "a=b")
    assert "--overwrite is false" in kubectl.refused("label", "node", "gpu-1", "a=c")
    kubectl("label", "node", "gpu-1", "a=c", "--overwrite")
    kubectl("annotate", "node", "gpu-1", "why=test")
    kubectl("taint", "node", "gpu-1", "gpu=true:NoSchedule")
    kubectl("cordon", "gpu-1")

    node = kubectl.json("get", "node", "gpu-1")
    assert node["metadata"]["labels"]["a"] == "c"
    assert node["metadata"]["annotations"]["why"] == "test"
    assert {"key": "gpu", "value": "true", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert "SchedulingDisabled" in kubectl("get", "nodes")

    kubectl("label", "node", "gpu-1", "a-")
    kubectl("taint", "node", "gpu-1", "gpu-")
    kubectl("uncordon", "gpu-1")
    assert "a" not in kubectl.json("get", "node", "gpu-1")["metadata"]["labels"]
    bad = '{"metadata":{"labels":{"a":"b!c"}}}'
    assert 'metadata.labels: Invalid value: "b!c"' in kubectl.refused("patch", "node", "gpu-1", "-p", bad)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["attach", "streamless"], id="attach"),
        pytest.param(["port-forward", "streamless", "8080:80"], id="port-forward"),
    ],
)
def test_what_is_not_simulated_says_so_and_names_the_other_way(kubectl: Kubectl, command: list[str]) -> None:
    kubectl("apply", "-f", "-", stdin=POD.replace("p1", "streamless"))
    running = {"phase": "Running", "containerStatuses": []}
    patch = ["patch", "pod", "streamless", "--subresource=status", "--type=merge"]
    kubectl(*patch, "-p", json.dumps({"status": running}))

    said = kubectl.refused(*command)
    kubectl("delete", "pod", "streamless", "--grace-period=0", "--force")

    assert "attach and port-forward into pods are not simulated" in said
    assert "kubectl exec POD -- COMMAND" in said


def test_the_products_definitions_are_applied_without_a_warning(kubectl: Kubectl) -> None:
    crds = [sys.executable, "-m", "gpuready.cli", "crds"]
    definitions = subprocess.run(crds, capture_output=True, text=True, check=True).stdout
    apply = ["apply", "--server-side", "-f", "-"]

    kubectl(*apply, "--field-manager=somebody", stdin=definitions)
    again = kubectl.run(*apply, stdin=definitions)

    assert again.stdout.count("serverside-applied") == 2
    assert "Warning" not in again.stderr


def test_wait_and_watch_see_what_happens(kubectl: Kubectl) -> None:
    watching = subprocess.Popen(
        [KUBECTL, "get", "widgets", "-w", "--no-headers"],
        env=kubectl.environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    assert watching.stdout.readline().split()[0] == "w1"

    kubectl("create", "-f", "-", stdin=WIDGET.replace("w1", "w3"))
    assert watching.stdout.readline().split()[:2] == ["w3", "3"]
    kubectl("patch", "wd", "w3", "--type=merge", "-p", '{"spec":{"size":5}}')
    assert watching.stdout.readline().split()[:2] == ["w3", "5"]
    kubectl("wait", "wd/w3", "--for=jsonpath={.spec.size}=5", "--timeout=5s")
    kubectl("delete", "wd", "w3")
    kubectl("wait", "wd/w3", "--for=delete", "--timeout=5s")
    watching.terminate()
    watching.wait(5)
    watching.stdout.close()


def test_delete_waits_for_what_has_to_go_first(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "gone")
    kubectl("create", "configmap", "settings", "-n", "gone")
    kubectl("delete", "namespace", "gone", "--timeout=5s")
    assert "NotFound" in kubectl.refused("get", "namespace", "gone")

    kubectl("delete", "pod", "p1", "--timeout=5s")
    assert kubectl("get", "pods", "-o", "name") == ""
    assert "deleted" in kubectl("delete", "crd", "widgets.example.dev", "--timeout=5s")
    assert "could not find the requested resource" in kubectl.refused("get", "widgets")
