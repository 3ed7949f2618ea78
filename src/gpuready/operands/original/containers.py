"""Containers, environment, mounts and volumes, written as they read in YAML. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gpuready.api import images
from gpuready.api.blocks import EnvVar, ResourceRequirements
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.kube.compare import digest
from gpuready.operands.contract import ClusterView, KubeObject

Env = Mapping[str, str | KubeObject]  # a text, or what stands under valueFrom

PRIVILEGED: KubeObject = {"privileged": True}
AS_ROOT: KubeObject = {"privileged": True, "runAsUser": 0}
SELINUX_S0: KubeObject = {"seLinuxOptions": {"level": "s0"}}
DIRECTORY, MADE_DIRECTORY = "Directory", "DirectoryOrCreate"
ROOT_ONLY, EXECUTABLE = 0o700, 0o755  # modes of files from a ConfigMap


def field(path: str) -> KubeObject:
    return {"fieldRef": {"fieldPath": path}}


NODE_NAME, POD_NAME, NAMESPACE = field("spec.nodeName"), field("metadata.name"), field("metadata.namespace")


@dataclass(frozen=True)
class Image:
    reference: str
    pull_policy: str

    @classmethod
    def of(cls, policy: ClusterPolicy, view: ClusterView, component: str) -> Image:
        """The image of a block under spec ("driver.manager"); missing parts come from the release."""
        asked = images.block_of(policy, component).image_pull_policy
        return cls(images.external_image(policy, component, view.images), pull_policy(asked))


def pull_policy(asked: str) -> str:
    """Source: clusterpolicy_types.go ImagePullPolicy: anything unknown means IfNotPresent."""
    return asked if asked in ("Always", "Never") else "IfNotPresent"


def container(
    name: str,
    image: Image,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    env: Env | None = None,
    mounts: Sequence[KubeObject] = (),
    resources: ResourceRequirements | None = None,
    **others: Any,
) -> KubeObject:
    """One container; empty parts are left out. `others` are further fields under their API names."""
    fields: KubeObject = {
        "command": list(command),
        "args": list(args),
        "env": env_list(env or {}),
        "resources": msgspec.to_builtins(resources) if resources else {},
        "volumeMounts": list(mounts),
        **others,
    }
    base: KubeObject = {"name": name, "image": image.reference, "imagePullPolicy": image.pull_policy}
    return {**base, **{key: value for key, value in fields.items() if value}}


def env_list(env: Env) -> list[KubeObject]:
    return [_env_row(name, value) for name, value in env.items()]


def _env_row(name: str, value: str | KubeObject) -> KubeObject:
    """The API server stores an empty value as none at all."""
    if not isinstance(value, str):
        return {"name": name, "valueFrom": value}
    return {"name": name, "value": value} if value else {"name": name}


def user_env(rows: Iterable[EnvVar]) -> dict[str, str]:
    """The policy's env; laid over another, an existing name keeps its place and loses its valueFrom.

    The original keeps valueFrom beside the value, which the API server refuses.
    """
    return {row.name: row.value for row in rows}


def mount(
    name: str, path: str, *, propagation: str = "", read_only: bool = False, key: str = ""
) -> KubeObject:
    """key: mount this one file of the volume."""
    row: KubeObject = {"name": name, "mountPath": path}
    if propagation:
        row["mountPropagation"] = propagation
    if read_only:
        row["readOnly"] = True
    if key:
        row["subPath"] = key
    return row


def host_path(name: str, path: str, kind: str = "") -> KubeObject:
    """kind: Directory (must be there), DirectoryOrCreate, "" = whatever is there."""
    return {"name": name, "hostPath": {"path": path, "type": kind} if kind else {"path": path}}


def host_root(policy: ClusterPolicy) -> KubeObject:
    return host_path("host-root", policy.spec.host_paths.root_fs or "/")


def host_dev_char(policy: ClusterPolicy) -> KubeObject:
    return host_path("host-dev-char", f"{policy.spec.host_paths.root_fs.rstrip('/')}/dev/char")


def driver_install_dir(policy: ClusterPolicy, kind: str = MADE_DIRECTORY) -> KubeObject:
    return host_path("driver-install-dir", install_dir_of(policy), kind)


def install_dir_of(policy: ClusterPolicy) -> str:
    return policy.spec.host_paths.driver_install_dir or "/run/nvidia/driver"


def config_volume(
    name: str, config: str, *, mode: int = 0, keys: Mapping[str, str] | None = None
) -> KubeObject:
    """A ConfigMap as files. keys: only these, key -> file name."""
    source: KubeObject = {"name": config}
    if mode:
        source["defaultMode"] = mode
    if keys:
        source["items"] = [{"key": key, "path": path} for key, path in keys.items()]
    return {"name": name, "configMap": source}


def volume_name(config: str) -> str:
    """A volume named after its ConfigMap, as in the original.

    Not where its pod has a volume of that name already, or where a volume cannot have it (dots, length): then
    the name says which ConfigMap it was, since "a.b" and "a-b" are two.
    """
    bare = re.sub(r"[^a-z0-9-]", "-", config)[:_LONGEST].strip("-")
    if bare == config and config not in _TAKEN:
        return config
    return f"{bare[: _LONGEST - _MARK - 1].rstrip('-')}-{digest({'': config})[:_MARK]}"


_LONGEST, _MARK = 63, 6
# Of pods that mount a ConfigMap under its own name: the driver's, and those with a plugin's configuration.
_TAKEN = frozenset(
    (
        *(
            "cdi-root",
            "config",
            "dev-log",
            "device-plugin",
            "driver-install-dir",
            "driver-startup-probe-script",
        ),
        *("firmware-search-path", "gpuready-ca", "host-os-release", "host-root", "host-sys", "lib-modules"),
        *("licensing-config", "mlnx-ofed-usr-src", "mps-root", "mps-shm", "nv-firmware"),
        *("nvidia-device-plugin-entrypoint", "output-dir", "run-mellanox-drivers", "run-nvidia"),
        *("run-nvidia-fabricmanager", "run-nvidia-topologyd", "run-nvidia-validations"),
        *("subscription-config-0", "subscription-config-1", "subscription-config-2"),
        *("sysfs-memory-online", "topology-config", "var-log"),
    )
)


def config_map(
    name: str, data: Mapping[str, str], view: ClusterView, labels: Mapping[str, str] | None = None
) -> KubeObject:
    metadata: KubeObject = {"name": name, "namespace": view.namespace}
    if labels:
        metadata["labels"] = dict(labels)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
