"""The command line, the original's and five flags of ours: another way to set a variable of `settings.py`.

A flag wins over its variable.

No click here: what takes no other arguments starts faster and smaller without it.

Source: dcgm-exporter 4.5.3-4.8.2, pkg/cmd/app.go:139-372 (urfave/cli, over Go's flag package).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuready.errors import UsageError


def env_of(arguments: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The environment with the flags over it: `--name=value`, `--name value`, `-f value`, `--switch`.

    raises  UsageError naming the flag and the nearest ones there are
    """
    found = dict(env)
    words = list(arguments)
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        flag = _BY_NAME.get(name) if word.startswith("-") else None
        if flag is None:
            raise _unknown(word, name)
        if not equals and flag.is_switch:
            value = "true"
        elif not equals:
            if not words:
                raise UsageError(
                    f"{word} needs a value", why="nothing follows it", next_step=f"write {word}=VALUE"
                )
            value = words.pop(0)
        found[flag.variable] = value
    return found


def without_effect(env: Mapping[str, str]) -> dict[str, str]:
    """variable -> why it does nothing here, for each that is set."""
    return {flag.variable: flag.no_effect for flag in FLAGS if flag.no_effect and env.get(flag.variable)}


@dataclass(frozen=True)
class Flag:
    """One flag of the command line. no_effect: why it does nothing here."""

    name: str
    short: str
    variable: str
    help: str
    is_switch: bool = False
    no_effect: str = ""


_DCGM_ALONE = "an engine in this process logs nothing; one elsewhere has settings of its own"
_NO_DUMP = "nothing is dumped: /metrics and gpuready_exporter_* say the same"

FLAGS = (
    Flag("collectors", "f", "DCGM_EXPORTER_COLLECTORS", "The counters, a CSV file or a directory with one."),
    Flag("address", "a", "DCGM_EXPORTER_LISTEN", "Where to listen, :9400."),
    Flag("collect-interval", "c", "DCGM_EXPORTER_INTERVAL", "Milliseconds between two collections, 30000."),
    Flag("kubernetes", "k", "DCGM_EXPORTER_KUBERNETES", "Ask the kubelet which pods hold GPUs.", True),
    Flag(
        "kubernetes-enable-pod-labels",
        "",
        "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS",
        "Labels of pods, too.",
        True,
    ),
    Flag(
        "kubernetes-enable-pod-uid",
        "",
        "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID",
        "Uids of pods, too.",
        True,
    ),
    Flag(
        "kubernetes-pod-label-allowlist-regex",
        "",
        "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX",
        "Only labels whose key matches one of these patterns.",
    ),
    Flag(
        "kubernetes-gpu-id-type",
        "",
        "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE",
        "Ignored: ids of both kinds, uid and device-name, are known by their looks.",
    ),
    Flag(
        "kubernetes-virtual-gpus",
        "",
        "KUBERNETES_VIRTUAL_GPUS",
        "A copy of each series for every pod that shares the GPU.",
        True,
    ),
    Flag("kubernetes-enable-dra", "", "KUBERNETES_ENABLE_DRA", "Devices of ResourceClaims, too: true.", True),
    Flag(
        "pod-resources-kubelet-socket",
        "",
        "DCGM_POD_RESOURCES_KUBELET_SOCKET",
        "The kubelet's pod-resources socket.",
    ),
    Flag(
        "nvidia-resource-names",
        "",
        "NVIDIA_RESOURCE_NAMES",
        "Further resource names; needed only for ids that name no GPU by themselves.",
    ),
    Flag("hpc-job-mapping-dir", "", "DCGM_HPC_JOB_MAPPING_DIR", "Directory with a file of job ids by GPU."),
    Flag(
        "use-old-namespace",
        "o",
        "DCGM_EXPORTER_USE_OLD_NAMESPACE",
        "The label names uuid, pod_name, pod_namespace and container_name.",
        True,
    ),
    Flag(
        "configmap-data",
        "m",
        "DCGM_EXPORTER_CONFIGMAP_DATA",
        "NAMESPACE:NAME of a ConfigMap with the counters.",
        no_effect="this program holds no token: name the ConfigMap in spec.dcgmExporter.config, or mount it",
    ),
    Flag(
        "remote-hostengine-info",
        "r",
        "DCGM_REMOTE_HOSTENGINE_INFO",
        "DCGM's host engine, HOST:PORT or unix:///PATH: values are its own where it has them.",
    ),
    Flag("devices", "d", "DCGM_EXPORTER_DEVICES_STR", "GPUs and instances: f, g[:LIST] or i[:LIST]."),
    Flag(
        "switch-devices",
        "s",
        "DCGM_EXPORTER_OTHER_DEVICES_STR",
        "NVSwitches.",
        no_effect="GPUs alone are shown, not NVSwitches",
    ),
    Flag(
        "cpu-devices",
        "p",
        "DCGM_EXPORTER_CPU_DEVICES_STR",
        "CPUs.",
        no_effect="GPUs alone are shown, not CPUs",
    ),
    Flag("no-hostname", "n", "DCGM_EXPORTER_NO_HOSTNAME", "No label with the node's name.", True),
    Flag(
        "fake-gpus",
        "",
        "DCGM_EXPORTER_USE_FAKE_GPUS",
        "GPUs that DCGM injects.",
        True,
        no_effect="only DCGM injects GPUs",
    ),
    Flag("web-config-file", "", "DCGM_EXPORTER_WEB_CONFIG_FILE", "TLS and passwords, as for all exporters."),
    Flag(
        "web-systemd-socket", "", "DCGM_EXPORTER_SYSTEMD_SOCKET", "Listen on systemd's sockets instead.", True
    ),
    Flag(
        "xid-count-window-size",
        "x",
        "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE",
        "Milliseconds that DCGM_EXP_XID_ERRORS_COUNT looks back.",
    ),
    Flag(
        "clock-events-count-window-size",
        "",
        "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE",
        "Milliseconds that DCGM_EXP_CLOCK_EVENTS_COUNT looks back.",
    ),
    Flag(
        "replace-blanks-in-model-name",
        "rbmn",
        "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME",
        "Blanks in modelName become dashes.",
        True,
    ),
    Flag("debug", "", "DCGM_EXPORTER_DEBUG", "Log more.", True),
    Flag("log-format", "", "DCGM_EXPORTER_LOG_FORMAT", "text or json."),
    Flag(
        "enable-dcgm-log",
        "",
        "DCGM_EXPORTER_ENABLE_DCGM_LOG",
        "DCGM's own log.",
        True,
        no_effect=_DCGM_ALONE,
    ),
    Flag("dcgm-log-level", "", "DCGM_EXPORTER_DCGM_LOG_LEVEL", "Of DCGM's own log.", no_effect=_DCGM_ALONE),
    Flag("dump-enabled", "", "DCGM_EXPORTER_DUMP_ENABLED", "Debug dumps.", True, no_effect=_NO_DUMP),
    Flag("dump-directory", "", "DCGM_EXPORTER_DUMP_DIRECTORY", "Debug dumps.", no_effect=_NO_DUMP),
    Flag("dump-retention", "", "DCGM_EXPORTER_DUMP_RETENTION", "Debug dumps.", no_effect=_NO_DUMP),
    Flag("dump-compression", "", "DCGM_EXPORTER_DUMP_COMPRESSION", "Debug dumps.", True, no_effect=_NO_DUMP),
    Flag(
        "disable-startup-validate",
        "",
        "DISABLE_STARTUP_VALIDATE",
        "Start although something is missing.",
        True,
        no_effect="nothing that is missing ends this program: it waits and says for what",
    ),
    Flag(
        "enable-gpu-bind-unbind-watch",
        "",
        "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH",
        "Follow GPUs that come and go.",
        True,
        no_effect="GPUs that come and go are always followed",
    ),
    Flag(
        "gpu-bind-unbind-poll-interval",
        "",
        "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL",
        "How often to look for GPUs that come and go.",
        no_effect="GPUs that come and go are followed at each collection",
    ),
    Flag(
        "enable-pprof",
        "",
        "DCGM_EXPORTER_ENABLE_PPROF",
        "Go's profiles.",
        True,
        no_effect="/debug/pprof shows a Go program",
    ),
    # --- ours
    Flag("strict", "", "GPUREADY_EXPORTER_STRICT", "Take the counters whole, or not at all.", True),
    Flag("source", "", "GPUREADY_EXPORTER_SOURCE", "nvml, dcgm or auto: DCGM, and NVML in its place."),
    Flag(
        "pod-view",
        "",
        "GPUREADY_EXPORTER_POD_VIEW",
        "Which pods a device's own series name: none, exclusive, first or virtual-gpus.",
    ),
    Flag(
        "hostname-label", "", "GPUREADY_EXPORTER_HOSTNAME_LABEL", "The label with the node's name, Hostname."
    ),
    Flag(
        "mig-repeat-gpu-fields",
        "",
        "GPUREADY_EXPORTER_MIG_REPEAT_GPU_FIELDS",
        "Values of a whole GPU once for each of its instances.",
        True,
    ),
)

_BY_NAME = {name: flag for flag in FLAGS for name in (flag.name, flag.short) if name}


def _unknown(word: str, name: str) -> UsageError:
    from difflib import get_close_matches

    near = [f"--{each}" for each in get_close_matches(name, _BY_NAME, 2)]
    step = f"did you mean {' or '.join(near)}?" if near else "gpuready exporter run --help lists the flags"
    why = "its flags are those of dcgm-exporter 4.5" if word.startswith("-") else "it takes flags only"
    return UsageError(f"{word} is no flag of the exporter", why=why, next_step=step)
