"""(policy, view) -> the exporter's objects: account, Service, ServiceMonitor, DaemonSet. Pure."""

from __future__ import annotations

import msgspec

from gpuready import names
from gpuready.api import images
from gpuready.api.blocks import ServiceMonitorRelabel
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.errors import PolicyError, UsageError
from gpuready.operands.contract import ClusterView, KubeObject, Refusal
from gpuready.operands.daemonset import (
    HOST_TO_CONTAINER,
    DaemonSetShape,
    HostMount,
    block_fields,
    daemonset,
    env_list,
    host_root,
    http_probe,
    kubelet_path,
    service_account,
    start_probe,
    with_resources,
    with_user_env,
)
from gpuready.operands.exporter import flags
from gpuready.operands.exporter.settings import AUTO, DCGM, DEFAULT_COUNTERS, SOURCE_VARIABLE, Settings
from gpuready.operands.original.access import READ, granted, rule
from gpuready.operands.original.containers import config_volume, mount, user_env
from gpuready.operands.original.monitoring import service, service_monitor

NAME = "nvidia-dcgm-exporter"
PORT_NAME = "gpu-metrics"
READ_PODS = "nvidia-dcgm-exporter-read-pods"
METRICS_FILE = "dcgm-metrics.csv"
METRICS_DIR = "/etc/gpuready/metrics"
JOBS_DIR = "/var/lib/dcgm-exporter/job-mapping"
ENGINE = "nvidia-dcgm:5555"  # the Service of spec.dcgm
_CONFIGMAP_DATA = "DCGM_EXPORTER_CONFIGMAP_DATA"

# Series name the pod that holds a GPU. Without this Prometheus lays the exporter's own pod over it, and moves
# the holder's name to `exported_pod`.
WITHOUT_OWN_POD = ServiceMonitorRelabel(action="labeldrop", regex="pod|namespace|container")


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    asked = policy.spec.dcgm_exporter.service_monitor
    monitor = msgspec.structs.replace(asked, relabelings=[WITHOUT_OWN_POD, *asked.relabelings])
    return [
        service_account(NAME, view),
        *_reads_pods(policy, view),
        _service(policy, view),
        *(service_monitor(NAME, PORT_NAME, view, job_label="app", asked=monitor) if asked.enabled else []),
        _daemonset(policy, view),
    ]


def check(policy: ClusterPolicy) -> Refusal | None:
    """The daemon would end at once with settings that make no sense: what runs must not be replaced by it."""
    return Refusal.of_env("spec.dcgmExporter.env or args", lambda: _settings_as_run(policy))


def settings_of(policy: ClusterPolicy, counters: str = "") -> Settings:
    """What the policy means for the daemon, before the policy's own `env` and `args` are laid over it.

    counters   the file with the counters, where a ConfigMap brings one
    """
    exporter = policy.spec.dcgm_exporter
    return Settings(
        collectors=counters or DEFAULT_COUNTERS,
        kubernetes=True,
        pod_labels=exporter.enable_pod_labels,
        pod_uid=exporter.enable_pod_uid,
        pod_label_allowlist=tuple(exporter.pod_label_allowlist_regex),
        hpc_job_dir=_jobs_directory(policy) if exporter.hpc_job_mapping.enabled else "",
        remote_engine=_engine(policy),
        source=policy.spec.gpuready.exporter.source,
        gates_dir=names.GATES_DIR,
        records_dir=names.RECORDS_DIR,
    )


def _engine(policy: ClusterPolicy) -> str:
    """The engine that the policy runs, where our exporter is told to ask DCGM; NVML is enough for it else."""
    by_env = user_env(policy.spec.dcgm_exporter.env).get(SOURCE_VARIABLE, "")
    wanted = by_env or policy.spec.gpuready.exporter.source
    is_run = policy.spec.dcgm.enabled and images.is_named(policy, "dcgm")
    return ENGINE if is_run and wanted in (AUTO, DCGM) else ""


def _settings_as_run(policy: ClusterPolicy) -> Settings:
    exporter = policy.spec.dcgm_exporter
    env = {**settings_of(policy).to_env(), **user_env(exporter.env)}
    return Settings.from_env(flags.env_of(exporter.args, env))


def _port(policy: ClusterPolicy) -> int:
    try:
        return _settings_as_run(policy).host_and_port[1]
    except UsageError:
        return names.EXPORTER_PORT  # `check` refuses such a policy


def _reads_pods(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    """The kubelet's socket tells no labels of pods; only who wants them gets an account that may ask."""
    if not policy.spec.dcgm_exporter.enable_pod_labels:
        return []
    subject = {"kind": "ServiceAccount", "name": NAME, "namespace": view.namespace}
    return granted("ClusterRole", {"name": READ_PODS}, [rule("", ["pods"], READ)], subject)


def _service(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    asked = policy.spec.dcgm_exporter.service
    spec = {"type": asked.type, "internalTrafficPolicy": asked.internal_traffic_policy}
    made = service(NAME, PORT_NAME, names.EXPORTER_PORT, view, spec=spec)
    made["spec"]["ports"][0]["targetPort"] = _port(policy)
    return made


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    exporter = policy.spec.dcgm_exporter
    volumes = [mounted.volume() for mounted in _mounts(policy)]
    if config := _config(policy, view):
        volumes.append(config_volume("metrics-config", config))
    shape = DaemonSetShape(
        name=NAME,
        operand="dcgm-exporter",
        containers=[_container(policy, view)],
        node_selector={names.DEPLOY_EXPORTER: "true"},
        service_account=NAME,
        volumes=volumes,
        grace_period_s=10,
        mounts_token=exporter.enable_pod_labels,
        # NVML names processes as they are called where it is asked, and only those that are seen from there.
        host_pid=True,
        pod_annotations=exporter.annotations,
        spec=block_fields(exporter, host_network=exporter.host_network),
    )
    return daemonset(shape, policy, view)


def _mounts(policy: ClusterPolicy) -> list[HostMount]:
    sockets = kubelet_path(policy, "pod-resources")
    mounts = [
        HostMount("pod-gpu-resources", sockets, "/var/lib/kubelet/pod-resources", read_only=True),
        # The driver's library, and from /proc and /var/log/pods which process is which pod's.
        host_root(policy),
        HostMount("run-nvidia", "/run/nvidia", propagation=HOST_TO_CONTAINER),
        HostMount("run-gpuready", "/run/gpuready"),
    ]
    if policy.spec.dcgm_exporter.hpc_job_mapping.enabled:
        mounts.append(HostMount("hpc-job-mapping", _jobs_directory(policy), read_only=True))
    return mounts


def _container(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    exporter = policy.spec.dcgm_exporter
    mounts = [mounted.mount() for mounted in _mounts(policy)]
    if _config(policy, view):
        mounts.append(mount("metrics-config", METRICS_DIR, read_only=True))
    container: KubeObject = {
        "name": NAME,
        "image": view.own_image,
        "imagePullPolicy": exporter.image_pull_policy or "IfNotPresent",
        "command": ["gpuready", "exporter"],
        **({"args": list(exporter.args)} if exporter.args else {}),
        "env": _env(policy, view),
        "ports": [{"name": "metrics", "containerPort": _port(policy)}],
        # NVML opens the device nodes of every GPU, which only a privileged container sees.
        "securityContext": {"privileged": True},
        "startupProbe": start_probe("/healthz", names.EXPORTER_HEALTH_PORT),
        "readinessProbe": http_probe("/readyz", names.EXPORTER_HEALTH_PORT, period_s=2),
        "livenessProbe": http_probe("/healthz", names.EXPORTER_HEALTH_PORT, period_s=15),
        "volumeMounts": mounts,
    }
    return with_resources(container, exporter.resources)


def _env(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    config = _config(policy, view)
    counters = f"{METRICS_DIR}/{_key_of(config, policy, view)}" if config else ""
    fields = {"NODE_NAME": "spec.nodeName", "POD_IPS": "status.podIPs"}
    written = env_list(settings_of(policy, counters).to_env(), fields)
    return with_user_env(written, policy.spec.dcgm_exporter.env)


def _jobs_directory(policy: ClusterPolicy) -> str:
    return policy.spec.dcgm_exporter.hpc_job_mapping.directory or JOBS_DIR


# --- a list of counters of one's own ----------------------------------------------------------------------


def _config(policy: ClusterPolicy, view: ClusterView) -> str:
    """The ConfigMap with the counters, "" for the built-in list.

    The original's DCGM_EXPORTER_CONFIGMAP_DATA makes the daemon ask the API server; here it is mounted.
    """
    exporter = policy.spec.dcgm_exporter
    if exporter.config.name:
        return exporter.config.name
    namespace, _, name = user_env(exporter.env).get(_CONFIGMAP_DATA, "").partition(":")
    return name if namespace == view.namespace else ""


def _key_of(config: str, policy: ClusterPolicy, view: ClusterView) -> str:
    """raises  PolicyError where it is not clear which of several keys is meant"""
    wanted = METRICS_FILE if policy.spec.dcgm_exporter.config.name else "metrics"
    keys = sorted(view.configs.get(config, {}))
    if wanted in keys or not keys:
        return wanted
    if len(keys) == 1:
        return keys[0]
    raise PolicyError(
        f"the ConfigMap {view.namespace}/{config} has no key {wanted}",
        why=f"its keys are {', '.join(keys)}",
        next_step=f"rename the key with the counters to {wanted}, or leave only that one",
    )
