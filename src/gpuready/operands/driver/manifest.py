"""(policy, view) -> the driver's objects: one DaemonSet per pool, its account and its startup probe. Pure.

The container comes without the driver manager: nothing is evicted, so a changed driver is taken up when
its pod is deleted (OnDelete).
"""

from __future__ import annotations

import hashlib
import json

from gpuready import names
from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.daemonset import (
    BIDIRECTIONAL,
    DaemonSetShape,
    HostMount,
    daemonset,
    env_list,
    service_account,
    with_resources,
    with_user_env,
)
from gpuready.operands.driver.pools import Pool, name_of, pools_of

ACCOUNT = "nvidia-driver"
PROBE_CONFIG = "nvidia-driver-startup-probe"
PROBE_SCRIPT = "startup-probe.sh"
POOL_LABEL = "nvidia.com/node.os-version"
DIGEST_ENV = "DRIVER_CONFIG_DIGEST"


def is_enabled(policy: ClusterPolicy) -> bool:
    return policy.spec.driver.enabled and not policy.spec.driver.use_nvidia_driver_crd


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    """Account, probe script and one DaemonSet per operating system among the GPU nodes."""
    pools = pools_of(view)
    if not pools:
        return []
    daemonsets = [_daemonset(policy, view, pool, name_of(pool, pools, view)) for pool in pools]
    return [service_account(ACCOUNT, view), _probe_config(view), *daemonsets]


def _daemonset(policy: ClusterPolicy, view: ClusterView, pool: Pool, name: str) -> KubeObject:
    container = _container(policy, pool)
    digest = next(row["value"] for row in container["env"] if row["name"] == DIGEST_ENV)
    shape = DaemonSetShape(
        name=name,
        operand="driver",
        containers=[container],
        node_selector={names.DEPLOY_DRIVER: "true", **pool.selector},
        service_account=ACCOUNT,
        labels={
            "app.kubernetes.io/component": "nvidia-driver",
            "nvidia.com/precompiled": "false",
            POOL_LABEL: pool.os_tag,
            names.DRIVER_CONFIG_LABEL: digest,  # tells the controller which pods are of an earlier policy
        },
        volumes=[
            *(mount.volume() for mount in _MOUNTS),
            {
                "name": "driver-startup-probe-script",
                "configMap": {"name": PROBE_CONFIG, "defaultMode": 0o755},
            },
        ],
        affinity=_one_driver_per_node(),
        host_pid=True,
        on_delete=True,
    )
    return daemonset(shape, policy, view)


_MOUNTS = (
    # Bidirectional: the driver's root file system is mounted below /run/nvidia/driver for the host to see.
    HostMount("run-nvidia", "/run/nvidia", propagation=BIDIRECTIONAL),
    HostMount("run-nvidia-fabricmanager", "/run/nvidia-fabricmanager"),
    HostMount("run-nvidia-topologyd", "/run/nvidia-topologyd"),
    HostMount("var-log", "/var/log", type=""),
    HostMount("host-os-release", "/etc/os-release", "/host-etc/os-release", type="", read_only=True),
)


def _container(policy: ClusterPolicy, pool: Pool) -> KubeObject:
    driver = policy.spec.driver
    env = {"KERNEL_MODULE_TYPE": driver.kernel_module_type}
    if driver.kernel_module_type == "open":
        env["OPEN_KERNEL_MODULES_ENABLED"] = "true"
    fields = {"NODE_NAME": "spec.nodeName", "NODE_IP": "status.hostIP"}
    container: KubeObject = {
        "name": "nvidia-driver-ctr",
        "image": images.driver_image(policy, os_tag=pool.os_tag),
        "imagePullPolicy": driver.image_pull_policy or "IfNotPresent",
        "command": ["nvidia-driver"],
        "args": list(driver.args or ["init"]),
        "env": with_user_env(env_list(env, fields), driver.env),
        # Installing a kernel module takes all capabilities there are.
        "securityContext": {"privileged": True, "seLinuxOptions": {"level": "s0"}},
        "startupProbe": _startup_probe(policy),
        "lifecycle": {"preStop": {"exec": {"command": _forget_ready_file()}}},
        "volumeMounts": [
            *(mount.mount() for mount in _MOUNTS),
            {
                "name": "driver-startup-probe-script",
                "mountPath": f"/usr/local/bin/{PROBE_SCRIPT}",
                "subPath": PROBE_SCRIPT,
            },
        ],
    }
    container["env"] = [*container["env"], {"name": DIGEST_ENV, "value": config_digest(container)}]
    return with_resources(container, driver.resources)


def config_digest(container: KubeObject) -> str:
    """Differs where another driver, or the same in another way, would be installed, and nowhere else.

    A driver container that starts anew with the digest of the loaded driver keeps the modules: it could not
    unload them while a pod holds the GPU, and would fail for ever.

    Source: gpu-operator v26.3.3, internal/state/driver.go (DRIVER_CONFIG_DIGEST); node-chain.md §2.
    """
    asked = {key: container[key] for key in ("image", "command", "args")}
    literal = sorted((row["name"], row["value"]) for row in container["env"] if row.get("value"))
    text = json.dumps({**asked, "env": literal}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _startup_probe(policy: ClusterPolicy) -> KubeObject:
    """The original's probe; it waits 60 s before the first look, we look at once and every second.

    Nothing rests on it but the pod's own readiness: the driver link asks NVML.
    """
    probe: KubeObject = {
        "exec": {"command": ["sh", f"/usr/local/bin/{PROBE_SCRIPT}"]},
        "initialDelaySeconds": 1,
        "periodSeconds": 2,
        "timeoutSeconds": 60,
        "failureThreshold": 600,
    }
    asked = policy.spec.driver.startup_probe
    given = {
        "initialDelaySeconds": asked.initial_delay_seconds,
        "periodSeconds": asked.period_seconds,
        "timeoutSeconds": asked.timeout_seconds,
        "failureThreshold": asked.failure_threshold,
        "successThreshold": asked.success_threshold,
    }
    probe.update({name: value for name, value in given.items() if value})
    return probe


def _probe_config(view: ClusterView) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PROBE_CONFIG, "namespace": view.namespace},
        "data": {PROBE_SCRIPT: _PROBE_TEXT},
    }


# Source for the contract (files and contents): gpu-operator v26.3.3, assets/state-driver; the text is ours.
_PROBE_TEXT = """\
#!/bin/sh
# Ready means: the module is loaded and nvidia-smi can talk to it.
set -eu
ready=/run/nvidia/validations/.driver-ctr-ready
test -e /sys/module/nvidia/refcnt
nvidia-smi >/dev/null
mkdir -p "$(dirname "$ready")"
{
  echo "GDRCOPY_ENABLED: ${GDRCOPY_ENABLED:-false}"
  echo "GDS_ENABLED: ${GDS_ENABLED:-false}"
  echo "GPU_DIRECT_RDMA_ENABLED: ${GPU_DIRECT_RDMA_ENABLED:-false}"
} >"$ready.tmp"
mv "$ready.tmp" "$ready"
"""


def _forget_ready_file() -> list[str]:
    files = (names.DRIVER_CTR_READY, names.DRIVER_DAEMONS_STATUS)
    return ["/bin/sh", "-c", "rm -f " + " ".join(f"{names.GATES_DIR}/{file}" for file in files)]


def _one_driver_per_node() -> KubeObject:
    term = {
        "labelSelector": {
            "matchExpressions": [
                {"key": "app.kubernetes.io/component", "operator": "In", "values": ["nvidia-driver"]}
            ]
        },
        "topologyKey": "kubernetes.io/hostname",
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
