"""What single fields of a policy change in the originals' objects, beyond the recorded policies.

Source of each row: operator.md §5 (gpu-operator v26.3.3).
"""

from __future__ import annotations

from typing import Any

import pytest

from gpuready import names
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.operands.contract import ClusterView, NodeFacts

IMAGE = {"repository": "example.org/nvidia", "image": "an-image", "version": "v1"}
BLOCKS = ("driver", "toolkit", "devicePlugin", "dcgm", "dcgmExporter", "nodeStatusExporter", "gfd")
BLOCKS += ("migManager", "validator")
PLUGIN, TOOLKIT = "nvidia-device-plugin-daemonset", "nvidia-container-toolkit-daemonset"
DRIVER, VALIDATOR = "nvidia-driver-daemonset", "nvidia-operator-validator"
EXPORTER, MIG, GFD = "nvidia-dcgm-exporter", "nvidia-mig-manager", "gpu-feature-discovery"


def node(name: str = "g1", os: str = "ubuntu 22.04", **facts: str) -> NodeFacts:
    os_id, version = os.split()
    labels = {
        names.DEPLOY_DRIVER: "true",
        names.OS_ID_LABEL: os_id,
        names.OS_VERSION_LABEL: version,
        names.KERNEL_LABEL: facts.pop("kernel", "5.15.0-116-generic"),
    }
    return NodeFacts(name, labels, **{"runtime": "containerd://1.7.24", **facts})


def planned(
    *nodes: NodeFacts, configs: dict[str, dict[str, str]] | None = None, monitors: bool = False, **spec: Any
) -> Plan:
    named = {block: {**IMAGE, **spec.pop(block, {})} for block in BLOCKS}
    active = read({"metadata": {"name": "p", "uid": "u"}, "spec": {**named, **spec}})
    assert active.policy is not None, active.problems
    view = ClusterView(
        "gpu-operator", "own:1", nodes or (node(),), configs=configs or {}, service_monitors=monitors
    )
    return plan_of(active, active.policy, view)


def kinds(plan: Plan, kind: str) -> dict[str, Any]:
    return {obj["metadata"]["name"]: obj for obj in plan.objects if obj["kind"] == kind}


def template(plan: Plan, name: str) -> Any:
    return kinds(plan, "DaemonSet")[name]["spec"]["template"]


def container(plan: Plan, name: str, of: str) -> Any:
    pod = template(plan, name)["spec"]
    found = [each for each in [*pod.get("initContainers", []), *pod["containers"]] if each["name"] == of]
    return found[0]


def env(plan: Plan, name: str, of: str) -> dict[str, Any]:
    return {row["name"]: row.get("value") for row in container(plan, name, of).get("env", [])}


def host_paths(plan: Plan, name: str) -> dict[str, str]:
    volumes = template(plan, name)["spec"]["volumes"]
    return {each["name"]: each["hostPath"]["path"] for each in volumes if "hostPath" in each}


def mounts(plan: Plan, name: str, of: str) -> dict[str, str]:
    return {each["mountPath"]: each["name"] for each in container(plan, name, of)["volumeMounts"]}


# --- how pods come to GPUs ------------------------------------------------------------------------------


def test_with_the_nri_plugin_an_annotation_asks_for_gpus_and_no_runtime_class() -> None:
    plan = planned(cdi={"nriPluginEnabled": True})
    assert kinds(plan, "RuntimeClass") == {}
    asking = {PLUGIN: "nvidia-device-plugin", VALIDATOR: "toolkit-validation", MIG: MIG, GFD: GFD}
    for name, of in asking.items():
        pod = template(plan, name)
        assert "runtimeClassName" not in pod["spec"]
        assert pod["metadata"]["annotations"] == {
            f"nvidia.cdi.k8s.io/container.{of}": "management.nvidia.com/gpu=all"
        }
    toolkit = env(plan, TOOLKIT, "nvidia-container-toolkit-ctr")
    assert (toolkit["ENABLE_NRI_PLUGIN"], toolkit["NRI_SOCKET"]) == ("true", "/runtime/nri-sock-dir/nri.sock")
    assert host_paths(plan, TOOLKIT)["nri-socket"] == "/var/run/nri"


def test_a_slash_at_the_end_of_a_directory_makes_no_other_path() -> None:
    plan = planned(toolkit={"installDir": "/opt/nvidia/"}, hostPaths={"kubeletRootDir": "/data/kubelet/"})
    told = env(plan, PLUGIN, "nvidia-device-plugin")
    assert told["NVIDIA_CDI_HOOK_PATH"] == "/opt/nvidia/toolkit/nvidia-cdi-hook"
    assert host_paths(plan, PLUGIN)["device-plugin"] == "/data/kubelet/device-plugins"
    assert host_paths(plan, EXPORTER)["pod-gpu-resources"] == "/data/kubelet/pod-resources"


def test_without_cdi_devices_are_told_by_variable_and_one_runtime_class_is_left() -> None:
    plan = planned(cdi={"enabled": False})
    assert set(kinds(plan, "RuntimeClass")) == {"nvidia"}
    assert env(plan, PLUGIN, "nvidia-device-plugin")["DEVICE_LIST_STRATEGY"] == "envvar"
    assert "CDI_ENABLED" not in env(plan, MIG, MIG)
    assert template(plan, PLUGIN)["spec"]["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize(
    ("runtime", "expected", "paths"),
    [
        pytest.param(
            "containerd://2.1.4",
            {
                "RUNTIME": "containerd",
                "CONTAINERD_CONFIG": "/runtime/config-dir/config.toml",
                "RUNTIME_DROP_IN_CONFIG_HOST_PATH": "/etc/containerd/conf.d/99-nvidia.toml",
                "CONTAINERD_SOCKET": "/runtime/sock-dir/containerd.sock",
            },
            {"containerd-config": "/etc/containerd", "crio-hooks": "/run/containers/oci/hooks.d"},
            id="containerd",
        ),
        pytest.param(
            "cri-o://1.31",
            {
                "RUNTIME": "crio",
                "CRIO_CONFIG": "/runtime/config-dir/config.toml",
                "RUNTIME_DROP_IN_CONFIG_HOST_PATH": "/etc/crio/crio.conf.d/99-nvidia.conf",
            },
            {"crio-config": "/etc/crio", "crio-hooks": "/usr/share/containers/oci/hooks.d"},
            id="CRI-O has no socket to tell",
        ),
        pytest.param(
            "docker://27.0",
            {
                "RUNTIME": "docker",
                "DOCKER_CONFIG": "/runtime/config-dir/daemon.json",
                "DOCKER_SOCKET": "/runtime/sock-dir/docker.sock",
            },
            {"docker-config": "/etc/docker", "docker-socket": "/var/run"},
            id="docker has no drop-in file",
        ),
    ],
)
def test_the_toolkit_sees_the_files_of_the_runtime_that_the_nodes_have(
    runtime: str, expected: dict[str, str], paths: dict[str, str]
) -> None:
    plan = planned(node(runtime=runtime))
    told = env(plan, TOOLKIT, "nvidia-container-toolkit-ctr")
    assert {name: told.get(name) for name in expected} == expected
    assert ("RUNTIME_SOCKET" in told) == (runtime != "cri-o://1.31")
    assert ("RUNTIME_DROP_IN_CONFIG" in told) == (not runtime.startswith("docker"))
    assert paths.items() <= host_paths(plan, TOOLKIT).items()


def test_where_any_node_has_containerd_it_is_served() -> None:
    plan = planned(node(runtime="cri-o://1.31"), node("g2"))
    assert env(plan, TOOLKIT, "nvidia-container-toolkit-ctr")["RUNTIME"] == "containerd"


def test_cri_o_without_cdi_gets_a_hook_and_pods_no_runtime_class() -> None:
    plan = planned(node(runtime="cri-o://1.31"), cdi={"enabled": False})
    assert env(plan, TOOLKIT, "nvidia-container-toolkit-ctr")["CRIO_CONFIG_MODE"] == "hook"
    assert "runtimeClassName" not in template(plan, PLUGIN)["spec"]


# --- the policy's env -----------------------------------------------------------------------------------


def test_the_policys_env_wins_over_ours_in_the_device_plugin_and_loses_to_mig_in_feature_discovery() -> None:
    mine = [{"name": "MIG_STRATEGY", "value": "mixed"}]
    plan = planned(mig={"strategy": "single"}, devicePlugin={"env": mine}, gfd={"env": mine})
    assert env(plan, PLUGIN, "nvidia-device-plugin")["MIG_STRATEGY"] == "mixed"
    assert env(plan, GFD, GFD)["MIG_STRATEGY"] == "single"


def test_a_variable_from_the_node_is_replaced_and_not_doubled() -> None:
    """The original keeps valueFrom beside the value: the API server refuses it, and what comes after."""
    mine = [{"name": "NODE_NAME", "value": "x"}, {"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    plan = planned(driver={"env": mine})
    rows = container(plan, DRIVER, "nvidia-driver-ctr")["env"]
    assert [row for row in rows if row["name"] == "NODE_NAME"] == [{"name": "NODE_NAME", "value": "x"}]
    assert [row for row in rows if row["name"] == "A"] == [{"name": "A", "value": "2"}]
    assert len({row["name"] for row in rows}) == len(rows)


def test_without_a_device_plugin_there_is_none_to_validate() -> None:
    plan = planned(devicePlugin={"enabled": False})
    names_ = [each["name"] for each in template(plan, VALIDATOR)["spec"]["initContainers"]]
    assert names_ == ["driver-validation", "toolkit-validation", "cuda-validation"]
    assert "nvidia-device-plugin-mps-control-daemon" not in kinds(plan, "DaemonSet")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        pytest.param("", {"NVIDIA_MIG_MONITOR_DEVICES": "all"}, id="not said"),
        pytest.param("none", {"MIG_STRATEGY": "none"}, id="none"),
        pytest.param("mixed", {"MIG_STRATEGY": "mixed", "NVIDIA_MIG_MONITOR_DEVICES": "all"}, id="mixed"),
    ],
)
def test_the_mig_strategy_is_told_and_all_mig_devices_are_watched(
    strategy: str, expected: dict[str, str]
) -> None:
    plan = planned(**({"mig": {"strategy": strategy}} if strategy else {}))
    told = env(plan, PLUGIN, "nvidia-device-plugin")
    assert {name: told[name] for name in told if "MIG" in name} == expected


# --- the driver -----------------------------------------------------------------------------------------


def test_a_precompiled_driver_comes_in_one_daemonset_for_each_kernel() -> None:
    plan = planned(
        node("g1", kernel="5.15.0-116-generic"),
        node("g2", "rhel 9.4", kernel="5.14.0-427.el9.x86_64"),
        driver={"usePrecompiled": True},
    )
    found = {
        name: obj["spec"]["template"]["spec"]["containers"][0]["image"]
        for name, obj in kinds(plan, "DaemonSet").items()
        if name.startswith(DRIVER)
    }
    assert found == {
        f"{DRIVER}-5.15.0-116-generic-ubuntu22.04": (
            "example.org/nvidia/an-image:v1-5.15.0-116-generic-ubuntu22.04"
        ),
        f"{DRIVER}-5.14.0-427.el9-rhel9.4": "example.org/nvidia/an-image:v1-5.14.0-427.el9.x86_64-rhel9.4",
    }
    one = kinds(plan, "DaemonSet")[f"{DRIVER}-5.14.0-427.el9-rhel9.4"]
    assert one["metadata"]["labels"]["nvidia.com/precompiled"] == "true"
    for daemonset in (one, kinds(plan, "DaemonSet")[f"{DRIVER}-5.15.0-116-generic-ubuntu22.04"]):
        # A selector never changes: another one could not be applied over the original's objects.
        assert daemonset["spec"]["selector"]["matchLabels"] == {"app": DRIVER}
        assert daemonset["spec"]["template"]["metadata"]["labels"]["app"] == DRIVER
    selector = one["spec"]["template"]["spec"]["nodeSelector"]
    assert selector[names.KERNEL_LABEL] == "5.14.0-427.el9.x86_64"


@pytest.mark.parametrize(
    ("os", "repositories", "certificates"),
    [
        ("ubuntu 22.04", "/etc/apt/sources.list.d", "/usr/local/share/ca-certificates"),
        ("debian 12", "/etc/apt/sources.list.d", "/usr/local/share/ca-certificates"),
        ("rhel 9.4", "/etc/yum.repos.d", "/etc/pki/ca-trust/extracted/pem"),
        ("rocky 9.4", "/etc/yum.repos.d", "/etc/pki/ca-trust/extracted/pem"),
        ("sles 15.6", "/etc/zypp/repos.d", "/etc/pki/trust/anchors"),
    ],
)
def test_repositories_and_certificates_go_where_the_distribution_looks(
    os: str, repositories: str, certificates: str
) -> None:
    configs = {"repos": {"one.list": "x", "two.list": "y"}, "my.cas": {"ca.crt": "z"}}
    driver = {"repoConfig": {"configMapName": "repos"}, "certConfig": {"name": "my.cas"}}
    plan = planned(node(os=os), configs=configs, driver=driver, gdrcopy={**IMAGE, "enabled": True})
    for of in ("nvidia-driver-ctr", "nvidia-gdrcopy-ctr"):
        expected = {
            f"{repositories}/one.list": "repos",
            f"{repositories}/two.list": "repos",
            f"{certificates}/ca.crt": "my-cas-d9f739",  # a volume's name has no dots
        }
        assert expected.items() <= mounts(plan, DRIVER, of).items()


@pytest.mark.parametrize(
    "names_",
    [
        pytest.param(("files", "files", "files"), id="one ConfigMap as several things"),
        pytest.param(("run-nvidia", "licensing-config", "host-root"), id="names of volumes that are there"),
        pytest.param(("a.b", "a-b", "a.b-c"), id="two that differ in a dot"),
        pytest.param((62 * "a" + ".b", 62 * "a" + ".c", "x"), id="two that differ at their end"),
    ],
)
def test_each_configmap_is_a_volume_of_its_own_whatever_its_name(names_: tuple[str, ...]) -> None:
    configs = {name: {f"{number}.conf": "x"} for number, name in enumerate(names_)}
    driver = {
        "repoConfig": {"configMapName": names_[0]},
        "certConfig": {"name": names_[1]},
        "kernelModuleConfig": {"name": names_[2]},
        "licensingConfig": {"secretName": "licence"},
    }
    for images in ("asNamed", "own"):
        plan = planned(configs=configs, driver=driver, gpuready={"images": images})
        volumes = template(plan, DRIVER)["spec"]["volumes"]
        assert len({each["name"] for each in volumes}) == len(volumes)
        shown = {each["configMap"]["name"] for each in volumes if "configMap" in each}
        assert {*names_} <= shown


def test_a_plugins_configuration_may_be_called_config() -> None:
    """So is the directory into which the chosen one is put."""
    plan = planned(configs={"config": {"any": "x"}}, devicePlugin={"config": {"name": "config"}})
    for name in (PLUGIN, GFD, "nvidia-device-plugin-mps-control-daemon"):
        volumes = {each["name"]: each for each in template(plan, name)["spec"]["volumes"]}
        of = "config-manager-init"
        assert volumes[mounts(plan, name, of)["/config"]].keys() == {"name", "emptyDir"}
        assert volumes[mounts(plan, name, of)["/available-configs"]]["configMap"]["name"] == "config"


def test_a_distribution_without_a_known_directory_refuses_the_driver_alone() -> None:
    driver = {"repoConfig": {"configMapName": "repos"}}
    plan = planned(node(os="arch 1"), configs={"repos": {"a": "b"}}, driver=driver)
    (refused,) = [each for each in plan.operands if each.refusal]
    assert (refused.operand.name, refused.refusal and refused.refusal.reason) == ("driver", "NotPossible")
    assert PLUGIN in kinds(plan, "DaemonSet")


@pytest.mark.parametrize(
    ("os", "runtime", "expected"),
    [
        pytest.param(
            "rhel 9.4",
            "containerd://1.7",
            {
                "/run/secrets/etc-pki-entitlement": "/etc/pki/entitlement",
                "/run/secrets/redhat.repo": "/etc/yum.repos.d/redhat.repo",
                "/run/secrets/rhsm": "/etc/rhsm",
            },
            id="rhel",
        ),
        pytest.param("rhel 9.4", "cri-o://1.31", {}, id="CRI-O gives them to every container"),
        pytest.param(
            "sles 15.6",
            "containerd://1.7",
            {"/etc/SUSEConnect": "/etc/SUSEConnect", "/etc/zypp/credentials.d": "/etc/zypp/credentials.d"},
            id="sles",
        ),
        pytest.param("ubuntu 22.04", "containerd://1.7", {}, id="ubuntu needs none"),
    ],
)
def test_the_machines_subscription_is_shown_to_the_driver(
    os: str, runtime: str, expected: dict[str, str]
) -> None:
    plan = planned(node(os=os, runtime=runtime))
    where = host_paths(plan, DRIVER)
    shown = mounts(plan, DRIVER, "nvidia-driver-ctr")
    found = {path: where[name] for path, name in shown.items() if name.startswith("subscription-config")}
    assert found == expected


def test_the_runtime_of_other_nodes_decides_nothing_about_a_subscription() -> None:
    """The original asks one runtime of the whole cluster."""
    plan = planned(node("g1", "rhel 9.4", runtime="cri-o://1.31"), node("g2"))
    shown = mounts(plan, DRIVER, "nvidia-driver-ctr")
    assert not any(name.startswith("subscription-config") for name in shown.values())


def test_a_guests_licence_is_mounted_with_the_token_of_its_server() -> None:
    licence = {"secretName": "licence", "nlsEnabled": True}
    plan = planned(driver={"licensingConfig": licence, "virtualTopology": {"config": "topology"}})
    shown = mounts(plan, DRIVER, "nvidia-driver-ctr")
    assert shown["/drivers/gridd.conf"] == "licensing-config"
    assert shown["/drivers/ClientConfigToken/client_configuration_token.tok"] == "licensing-config"
    assert shown["/etc/nvidia/nvidia-topologyd.conf"] == "topology-config"
    volumes = {each["name"]: each for each in template(plan, DRIVER)["spec"]["volumes"]}
    assert volumes["licensing-config"]["secret"]["secretName"] == "licence"


def test_pull_secrets_are_listed_as_the_original_lists_them() -> None:
    driver = {"imagePullSecrets": ["of-driver", "both"], "manager": {"imagePullSecrets": ["both", "manager"]}}
    plan = planned(driver=driver, gds={**IMAGE, "enabled": True, "imagePullSecrets": ["of-gds"]})
    secrets = [each["name"] for each in template(plan, DRIVER)["spec"]["imagePullSecrets"]]
    assert secrets == ["both", "manager", "of-driver", "of-gds"]


def test_kernel_module_parameters_reach_peer_memory_too() -> None:
    driver = {"kernelModuleConfig": {"name": "parameters"}, "rdma": {"enabled": True}}
    plan = planned(configs={"parameters": {"nvidia.conf": "x"}}, driver=driver)
    for of in ("nvidia-driver-ctr", "nvidia-peermem-ctr"):
        assert mounts(plan, DRIVER, of)["/drivers/nvidia.conf"] == "parameters"


# --- metrics --------------------------------------------------------------------------------------------


def test_service_monitors_come_with_the_kind_and_the_exporters_when_it_is_asked_for() -> None:
    asked = {"serviceMonitor": {"enabled": True, "interval": "30s", "scrapeTimeout": "10s"}}
    assert kinds(planned(dcgmExporter=asked), "ServiceMonitor") == {}, "the API server does not know them"
    some = kinds(planned(monitors=True, nodeStatusExporter={"enabled": True}), "ServiceMonitor")
    assert set(some) == {"gpu-operator", "nvidia-node-status-exporter"}
    endpoint = kinds(planned(monitors=True, dcgmExporter=asked), "ServiceMonitor")[EXPORTER]["spec"][
        "endpoints"
    ]
    assert endpoint == [
        {"port": "gpu-metrics", "path": "/metrics", "interval": "30s", "scrapeTimeout": "10s"}
    ]


def test_a_changed_list_of_metrics_renews_the_exporters_pods() -> None:
    """The file is mounted by subPath, and such a file never changes in a running pod."""

    def annotations(text: str) -> Any:
        configs = {"metrics": {"dcgm-metrics.csv": text}}
        plan = planned(configs=configs, dcgmExporter={"config": {"name": "metrics"}})
        return template(plan, EXPORTER)["metadata"]["annotations"]

    assert annotations("A") != annotations("B")
    assert annotations("A") == annotations("A")


def test_a_changed_plugin_configuration_renews_the_pods_that_would_not_look_again() -> None:
    def annotations(text: str, name: str) -> Any:
        configs = {"sharing": {"any": text}}
        plan = planned(configs=configs, devicePlugin={"config": {"name": "sharing"}})
        return template(plan, name)["metadata"]["annotations"]

    for name in (PLUGIN, GFD, "nvidia-device-plugin-mps-control-daemon"):
        assert annotations("A", name) != annotations("B", name)


def test_the_drivers_pods_are_never_renewed_for_a_configmaps_content() -> None:
    def pod(text: str) -> Any:
        driver = {"repoConfig": {"configMapName": "repos"}}
        return template(planned(configs={"repos": {"a.list": text}}, driver=driver), DRIVER)

    assert pod("A") == pod("B")
