"""What policy and operating system put into the driver's containers: files, and where they go. Pure.

Repositories, CA certificates, kernel module parameters, vGPU licence and topology, subscriptions.

Source: gpu-operator v26.3.3, object_controls.go transformDriverContainer and the path tables above it;
operator.md §5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.api.validation import OBJECT_NAME, is_object_name, shown
from gpuready.errors import PolicyError
from gpuready.operands.contract import ClusterView, KubeObject
from gpuready.operands.driver.pools import Pool
from gpuready.operands.original.containers import DIRECTORY, config_volume, host_path, mount, volume_name
from gpuready.operands.original.gpu_access import CRIO, runtime_among

_RED_HAT, _DEBIAN, _SUSE = (
    ("centos", "rhcos", "rhel", "rocky", "ol"),
    ("debian", "ubuntu"),
    ("sles", "sl-micro"),
)
_REPOSITORIES = {
    **dict.fromkeys(_RED_HAT, "/etc/yum.repos.d"),
    **dict.fromkeys(_DEBIAN, "/etc/apt/sources.list.d"),
    **dict.fromkeys(_SUSE, "/etc/zypp/repos.d"),
}
_CERTIFICATES = {
    **dict.fromkeys(_RED_HAT, "/etc/pki/ca-trust/extracted/pem"),
    **dict.fromkeys(_DEBIAN, "/usr/local/share/ca-certificates"),
    **dict.fromkeys(_SUSE, "/etc/pki/trust/anchors"),
}
# Subscriptions: path in the container -> path and kind on the host.
_ENTITLEMENTS = {
    "/run/secrets/etc-pki-entitlement": ("/etc/pki/entitlement", DIRECTORY),
    "/run/secrets/redhat.repo": ("/etc/yum.repos.d/redhat.repo", "File"),
    "/run/secrets/rhsm": ("/etc/rhsm", DIRECTORY),
}
_REGISTRATIONS = {
    "/etc/SUSEConnect": ("/etc/SUSEConnect", "FileOrCreate"),
    "/etc/zypp/credentials.d": ("/etc/zypp/credentials.d", DIRECTORY),
}


@dataclass(frozen=True)
class Files:
    volumes: tuple[KubeObject, ...] = ()
    mounts: tuple[KubeObject, ...] = ()

    def __add__(self, other: Files) -> Files:
        """One ConfigMap may serve as several things: it is one volume."""
        volumes = {volume["name"]: volume for volume in (*self.volumes, *other.volumes)}
        return Files(tuple(volumes.values()), self.mounts + other.mounts)


def of_the_driver(policy: ClusterPolicy, view: ClusterView, pool: Pool) -> Files:
    """Everything for the driver container itself."""
    files = _licence(policy) + _topology(policy) + kernel_modules(policy, view)
    if policy.spec.driver.use_precompiled:
        return files + _modules_of_suse(pool)
    return files + packages(policy, view, pool) + _subscriptions(view, pool)


def packages(policy: ClusterPolicy, view: ClusterView, pool: Pool) -> Files:
    """Repositories and certificates: for every container that installs packages. None when precompiled."""
    driver = policy.spec.driver
    if driver.use_precompiled:
        return Files()
    repositories = _each_key(
        view, driver.repo_config.config_map_name, "driver.repoConfig.configMapName", _REPOSITORIES, pool
    )
    return repositories + _each_key(
        view, driver.cert_config.name, "driver.certConfig.name", _CERTIFICATES, pool
    )


def secret_env(policy: ClusterPolicy) -> dict[str, list[KubeObject]]:
    """Environment from a Secret, as a field of the container; a precompiled driver takes none."""
    secret = policy.spec.driver.secret_env
    if not secret or policy.spec.driver.use_precompiled:
        return {}
    return {"envFrom": [{"secretRef": {"name": secret}}]}


def kernel_modules(policy: ClusterPolicy, view: ClusterView) -> Files:
    config = policy.spec.driver.kernel_module_config.name
    return _mounted(view, config, "driver.kernelModuleConfig.name", "/drivers") if config else Files()


def _each_key(
    view: ClusterView, config: str, field: str, directories: Mapping[str, str], pool: Pool
) -> Files:
    if not config:
        return Files()
    directory = directories.get(pool.os_id)
    if directory is None:
        raise PolicyError(
            f"spec.{field} cannot be used on nodes with {pool.os_id}",
            why=f"its directory is known for {', '.join(directories)} only",
            next_step=f"leave spec.{field} empty, or use a precompiled driver there",
        )
    return _mounted(view, config, field, directory)


def _mounted(view: ClusterView, config: str, field: str, directory: str) -> Files:
    """Each key of a ConfigMap as a file of its own: the directory holds others that must stay visible."""
    data = view.configs.get(config)
    if not is_object_name(config):
        raise PolicyError(
            f"spec.{field}: {shown(config)} is not {OBJECT_NAME}",
            next_step="correct this field of the policy",
        )
    if data is None:
        raise PolicyError(
            f"there is no ConfigMap {view.namespace}/{config}, which spec.{field} names",
            why="its keys become files of the driver container",
            next_step=f"kubectl create configmap -n {view.namespace} {config} --from-file=FILE",
        )
    name, keys = volume_name(config), sorted(data)
    return Files(
        (config_volume(name, config, keys={key: key for key in keys}),),
        tuple(mount(name, f"{directory}/{key}", read_only=True, key=key) for key in keys),
    )


def _licence(policy: ClusterPolicy) -> Files:
    """A vGPU guest's licence: gridd.conf, and the token of the licence server."""
    asked = policy.spec.driver.licensing_config
    if not asked.secret_name and not asked.config_map_name:
        return Files()
    items = {"gridd.conf": "gridd.conf"}
    mounts = [mount("licensing-config", "/drivers/gridd.conf", read_only=True, key="gridd.conf")]
    if asked.nls_enabled:
        token = "client_configuration_token.tok"
        items[token] = token
        path = f"/drivers/ClientConfigToken/{token}"
        mounts.append(mount("licensing-config", path, read_only=True, key=token))
    rows = [{"key": key, "path": path} for key, path in items.items()]
    if asked.secret_name:
        source: KubeObject = {"secret": {"secretName": asked.secret_name, "items": rows}}
    else:
        source = {"configMap": {"name": asked.config_map_name, "items": rows}}
    return Files(({"name": "licensing-config", **source},), tuple(mounts))


def _topology(policy: ClusterPolicy) -> Files:
    config, file = policy.spec.driver.virtual_topology.config, "nvidia-topologyd.conf"
    if not config:
        return Files()
    return Files(
        (config_volume("topology-config", config, keys={file: file}),),
        (mount("topology-config", f"/etc/nvidia/{file}", read_only=True, key=file),),
    )


def _subscriptions(view: ClusterView, pool: Pool) -> Files:
    """The machine's right to its distribution's packages; CRI-O gives it to every container by itself."""
    nodes = (node for node in view.gpu_nodes if node.name in pool.node_names)
    if pool.os_id == "rhel" and runtime_among(nodes) != CRIO:
        paths = _ENTITLEMENTS
    elif pool.os_id in _SUSE:
        paths = _REGISTRATIONS
    else:
        return Files()
    rows = [(f"subscription-config-{n}", *row) for n, row in enumerate(paths.items())]
    return Files(
        tuple(host_path(name, path, kind) for name, _, (path, kind) in rows),
        tuple(mount(name, inside, read_only=True) for name, inside, _ in rows),
    )


def _modules_of_suse(pool: Pool) -> Files:
    """Its precompiled images look at the host's modules."""
    if pool.os_id not in _SUSE:
        return Files()
    return Files(
        (host_path("lib-modules", "/lib/modules", DIRECTORY),),
        (mount("lib-modules", "/run/host/lib/modules", read_only=True),),
    )
