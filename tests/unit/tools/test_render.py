"""`gpuready render`: what a policy leads to, and what its writer should know."""

from __future__ import annotations

import pytest

from gpuready.errors import GPUReadyError
from gpuready.tools.render import rendered
from gpuready.yaml_text import parse_yaml_documents

POLICY = """\
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: p}
spec: {driver: {version: 570.86.10}}
"""
NODES = """\
kind: NodeList
items:
- kind: Node
  metadata:
    name: g1
    labels:
      feature.node.kubernetes.io/pci-10de.present: "true"
      feature.node.kubernetes.io/system-os_release.ID: ubuntu
      feature.node.kubernetes.io/system-os_release.VERSION_ID: "22.04"
"""


def kinds(text: str) -> list[str]:
    return [f"{obj['kind']}/{obj['metadata']['name']}" for obj in parse_yaml_documents(text)]


def test_the_driver_follows_the_nodes_and_its_absence_is_said():
    assert "DaemonSet/nvidia-driver-daemonset" in kinds(rendered(POLICY, NODES, "gpu-operator").yaml)
    alone = rendered(POLICY, "", "gpu-operator")
    assert "DaemonSet/nvidia-driver-daemonset" not in kinds(alone.yaml)
    assert any("--nodes" in remark for remark in alone.remarks)


def test_nodes_without_a_gpu_label_are_told_apart_from_no_nodes():
    """Before the first install nobody has labelled any node, and --nodes was given all the same."""
    unlabelled = "items: [{kind: Node, metadata: {name: g1}}]"
    (remark,) = [each for each in rendered(POLICY, unlabelled, "gpu-operator").remarks if "driver" in each]
    assert "feature.node.kubernetes.io/pci-10de.present=true" in remark
    assert "--nodes" not in remark


def test_objects_carry_the_image_of_the_operator_that_runs():
    text = rendered(POLICY, NODES, "gpu-operator", "registry.example.com/team/gpuready:7").yaml
    assert "image: registry.example.com/team/gpuready:7" in text
    assert "image: gpuready:" not in text


def test_a_file_without_a_uid_gives_objects_without_an_owner():
    objects = parse_yaml_documents(rendered(POLICY, NODES, "gpu-operator").yaml)
    assert all("ownerReferences" not in obj["metadata"] for obj in objects)


def test_a_policy_from_a_cluster_keeps_its_ownership():
    live = POLICY.replace("{name: p}", "{name: p, uid: abc}")
    objects = parse_yaml_documents(rendered(live, NODES, "gpu-operator").yaml)
    assert {ref["uid"] for obj in objects for ref in obj["metadata"].get("ownerReferences", [])} == {"abc"}


def test_misspelt_fields_and_what_is_not_installed_are_named():
    remarks = rendered(POLICY.replace("version:", "verzion:"), NODES, "gpu-operator").remarks
    assert any("spec.driver.verzion" in remark for remark in remarks)
    assert any("mig-manager" in remark for remark in remarks)


NAMED = "{repository: example.org, image: i, version: v1}"


def test_the_toolkit_is_rendered_for_the_runtime_of_the_nodes_given():
    policy = POLICY.replace("spec: {", f"spec: {{toolkit: {NAMED}, ")
    crio = NODES + "  status: {nodeInfo: {containerRuntimeVersion: 'cri-o://1.31.0'}}\n"
    for nodes, path in ((NODES, "/etc/containerd"), (crio, "/etc/crio")):
        objects = parse_yaml_documents(rendered(policy, nodes, "gpu-operator").yaml)
        (toolkit,) = [o for o in objects if o["metadata"]["name"] == "nvidia-container-toolkit-daemonset"]
        volumes = toolkit["spec"]["template"]["spec"]["volumes"]
        assert path in [each.get("hostPath", {}).get("path") for each in volumes]


def test_a_service_monitor_is_rendered_where_the_policy_asks_for_it():
    asked = POLICY.replace("spec: {", f"spec: {{dcgmExporter: {NAMED}, ")
    with_monitor = asked.replace("version: v1}", "version: v1, serviceMonitor: {enabled: true}}")
    assert "ServiceMonitor/nvidia-dcgm-exporter" not in kinds(rendered(asked, NODES, "gpu-operator").yaml)
    assert "ServiceMonitor/nvidia-dcgm-exporter" in kinds(rendered(with_monitor, NODES, "gpu-operator").yaml)


@pytest.mark.parametrize(
    ("policy", "nodes", "mentions"),
    [
        pytest.param("apiVersion: v1\nkind: Pod\n", "", "v1 Pod", id="another kind"),
        pytest.param("[]", "", "list", id="no object"),
        pytest.param(
            POLICY, "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n", "Nodes", id="nodes of another kind"
        ),
        pytest.param("a: [", "", "YAML", id="not YAML"),
        pytest.param(POLICY.replace("570.86.10", "[1]"), "", "spec.driver.version", id="wrong type"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_words(policy, nodes, mentions):
    with pytest.raises(GPUReadyError) as refused:
        rendered(policy, nodes, "gpu-operator")
    assert mentions in str(refused.value)


def test_a_config_map_beside_the_policy_is_the_one_that_it_names():
    config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site-ca}\ndata: {site.crt: text}\n---\n"
    policy = POLICY.replace("{version: 570.86.10}", "{version: 570.86.10, certConfig: {name: site-ca}}")
    result = rendered(config + policy, NODES, "gpu-operator")
    assert "mountPath: /usr/local/share/ca-certificates/site.crt" in result.yaml
    assert not any("site-ca" in remark for remark in result.remarks)


def test_a_config_map_of_another_namespace_is_not_the_one_that_is_named():
    meta = "metadata: {name: site-ca, namespace: web}"
    config = f"apiVersion: v1\nkind: ConfigMap\n{meta}\ndata: {{site.crt: text}}\n---\n"
    policy = POLICY.replace("{version: 570.86.10}", "{version: 570.86.10, certConfig: {name: site-ca}}")
    result = rendered(config + policy, NODES, "gpu-operator")
    assert "site.crt" not in result.yaml


def test_a_config_map_that_is_not_seen_is_not_missing():
    policy = POLICY.replace("{version: 570.86.10}", "{version: 570.86.10, certConfig: {name: site-ca}}")
    result = rendered(policy, NODES, "gpu-operator")
    assert "DaemonSet/nvidia-driver-daemonset" in kinds(result.yaml)
    assert any("ConfigMap site-ca: its keys are not known here" in remark for remark in result.remarks)
