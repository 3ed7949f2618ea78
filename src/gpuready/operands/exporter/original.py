"""(policy, view) -> the objects of NVIDIA's DCGM exporter. Pure.

Source: gpu-operator v26.3.3, assets/state-dcgm-exporter; object_controls.go TransformDCGMExporter.
"""

from __future__ import annotations

from gpuready.api import images
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.kube.compare import digest
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.daemonset import kubelet_path
from gpuready.operands.original.access import READ, USE_PRIVILEGED, account, granted, rule
from gpuready.operands.original.containers import (
    MADE_DIRECTORY,
    NODE_NAME,
    PRIVILEGED,
    Env,
    Image,
    config_volume,
    container,
    host_path,
    mount,
    user_env,
)
from gpuready.operands.original.monitoring import service, service_monitor
from gpuready.operands.original.plugin_config import DIGEST_ANNOTATION
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.validation import RUN_NVIDIA, wait_for_toolkit

NAME = "nvidia-dcgm-exporter"
READ_PODS = "nvidia-dcgm-exporter-read-pods"
PORT = 9400
METRICS_FILE = "dcgm-metrics.csv"
READ_PODS_RULE = rule("", ["pods"], READ)
ACCESS = Access(in_namespace=(USE_PRIVILEGED, rule("", ["configmaps", "pods"], ["get", "list"])))


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    asked = policy.spec.dcgm_exporter.service_monitor
    return [
        *account(NAME, ACCESS, view, {"app": NAME}),
        *_reads_pods(policy, view),
        _service(policy, view),
        *(service_monitor(NAME, "gpu-metrics", view, job_label="app", asked=asked) if asked.enabled else []),
        _daemonset(policy, view),
    ]


def _asks_for_pods(policy: ClusterPolicy) -> bool:
    """Labels and uids of pods are not known to the kubelet's socket: the exporter asks the API server."""
    exporter = policy.spec.dcgm_exporter
    return exporter.enable_pod_labels or exporter.enable_pod_uid


def _reads_pods(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    if not _asks_for_pods(policy):
        return []
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": view.namespace}
    metadata: KubeObject = {"name": READ_PODS, "labels": {"app": NAME}}
    return granted("ClusterRole", metadata, [READ_PODS_RULE], subject)


def _service(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    asked = policy.spec.dcgm_exporter.service
    spec = {"type": asked.type, "internalTrafficPolicy": asked.internal_traffic_policy}
    made = service(NAME, "gpu-metrics", PORT, view, spec=spec)
    made["spec"]["ports"][0]["targetPort"] = _port(policy)
    return made


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    exporter = policy.spec.dcgm_exporter
    pod = Pod(
        name=NAME,
        operand="dcgm-exporter",
        account=NAME,
        scc=NAME,
        node_selector={"nvidia.com/gpu.deploy.dcgm-exporter": "true"},
        gpus_for=NAME,
        host_network=exporter.host_network,
        images=[policy.spec.validator, exporter],
        annotations={**exporter.annotations, **_metrics_digest(policy, view)},
        init_containers=[wait_for_toolkit(policy, view, RUN_NVIDIA)],
        containers=[_exporter(policy, view)],
        volumes=[
            host_path("pod-gpu-resources", kubelet_path(policy, "pod-resources")),
            host_path("run-nvidia", "/run/nvidia"),
            *_job_volumes(policy),
            *_metrics_volumes(policy),
        ],
        spec={
            "automountServiceAccountToken": _asks_for_pods(policy),
            **({"hostPID": True} if exporter.host_pid else {}),
        },
    )
    return daemonset(pod, policy, view)


def _exporter(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    exporter = policy.spec.dcgm_exporter
    probe: KubeObject = {"httpGet": {"path": "/health", "port": _port(policy)}, "initialDelaySeconds": 45}
    return container(
        NAME,
        Image.of(policy, view, "dcgmExporter"),
        args=exporter.args,
        env={**_env(policy), **user_env(exporter.env)},
        resources=exporter.resources,
        ports=[{"name": "metrics", "containerPort": _port(policy)}],
        livenessProbe={**probe, "periodSeconds": 5},
        readinessProbe=probe,
        securityContext=PRIVILEGED,
        mounts=[
            mount("pod-gpu-resources", "/var/lib/kubelet/pod-resources", read_only=True),
            *_job_mounts(policy),
            *_metrics_mounts(policy),
        ],
    )


def _port(policy: ClusterPolicy) -> int:
    """Where it listens; the original looks at 9400 whatever the env says, so such a pod is never ready."""
    listen = user_env(policy.spec.dcgm_exporter.env).get("DCGM_EXPORTER_LISTEN", "")
    port = listen.rpartition(":")[2]
    return int(port) if port.isascii() and port.isdigit() and 0 < int(port) < 65536 else PORT


def _env(policy: ClusterPolicy) -> Env:
    exporter = policy.spec.dcgm_exporter
    env: dict[str, str | KubeObject] = {
        "DCGM_EXPORTER_LISTEN": f":{PORT}",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_COLLECTORS": "/etc/dcgm-exporter/dcp-metrics-included.csv",
        "NODE_NAME": NODE_NAME,
    }
    if policy.spec.dcgm.enabled and images.is_named(policy, "dcgm"):
        env["DCGM_REMOTE_HOSTENGINE_INFO"] = "nvidia-dcgm:5555"
    if exporter.hpc_job_mapping.enabled:
        env["DCGM_HPC_JOB_MAPPING_DIR"] = _job_directory(policy)
    if exporter.enable_pod_labels:
        env["DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"] = "true"
    if exporter.enable_pod_uid:
        env["DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID"] = "true"
    if allowed := exporter.pod_label_allowlist_regex:
        env["DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"] = ",".join(allowed)
    if exporter.config.name:
        env["DCGM_EXPORTER_COLLECTORS"] = f"/etc/dcgm-exporter/{METRICS_FILE}"
    return env


# --- metrics by HPC job ---------------------------------------------------------------------------------


def _job_directory(policy: ClusterPolicy) -> str:
    return policy.spec.dcgm_exporter.hpc_job_mapping.directory or "/var/lib/dcgm-exporter/job-mapping"


def _job_volumes(policy: ClusterPolicy) -> list[KubeObject]:
    if not policy.spec.dcgm_exporter.hpc_job_mapping.enabled:
        return []
    return [host_path("hpc-job-mapping", _job_directory(policy), MADE_DIRECTORY)]


def _job_mounts(policy: ClusterPolicy) -> list[KubeObject]:
    if not policy.spec.dcgm_exporter.hpc_job_mapping.enabled:
        return []
    return [mount("hpc-job-mapping", _job_directory(policy), read_only=True)]


# --- a list of metrics of one's own ---------------------------------------------------------------------


def _metrics_volumes(policy: ClusterPolicy) -> list[KubeObject]:
    config = policy.spec.dcgm_exporter.config.name
    return [config_volume("metrics-config", config, keys={METRICS_FILE: METRICS_FILE})] if config else []


def _metrics_mounts(policy: ClusterPolicy) -> list[KubeObject]:
    if not policy.spec.dcgm_exporter.config.name:
        return []
    return [mount("metrics-config", f"/etc/dcgm-exporter/{METRICS_FILE}", read_only=True, key=METRICS_FILE)]


def _metrics_digest(policy: ClusterPolicy, view: ClusterView) -> dict[str, str]:
    """A file mounted by subPath never changes in a running pod: another list renews the pods."""
    data = view.configs.get(policy.spec.dcgm_exporter.config.name)
    return {DIGEST_ANNOTATION: digest({METRICS_FILE: data.get(METRICS_FILE, "")})} if data else {}
