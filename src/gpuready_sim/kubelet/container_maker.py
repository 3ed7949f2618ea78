"""From a pod's container and the devices it holds to what the runtime is asked to create."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuready_sim.client import ApiStatus, Unreachable
from gpuready_sim.kubelet import log_directories
from gpuready_sim.kubelet.device_manager import RunOptions
from gpuready_sim.kubelet.plugin_client import PluginError
from gpuready_sim.kubelet.services import NodeServices
from gpuready_sim.runtime.container import Container, ContainerConfig, DeviceNode
from gpuready_sim.runtime.environment import compose, expand, references
from gpuready_sim.runtime.errors import ConfigError
from gpuready_sim.runtime.volumes import PodVolumes, data_of

Object = Mapping[str, Any]


class ContainerMaker:
    """Makes one container of a pod, once per start."""

    def __init__(
        self, node: NodeServices, volumes: PodVolumes, pod: Callable[[], Object], spec: Object
    ) -> None:
        self._node = node
        self._volumes = volumes
        self._pod = pod
        self._spec = spec

    async def make(self, restart: int) -> Container:
        """Create it; raises ContainerFailure."""
        pod, spec = self._pod(), self._spec
        uid, name = pod["metadata"]["uid"], spec["name"]
        try:
            await self._node.devices().pre_start(uid, name)
        except PluginError as exc:
            raise ConfigError(str(exc)) from exc
        env = await self._environment(pod)
        options = self._node.devices().run_options(uid, name)
        log_directories.make(self._node.runtime.node_root, pod, name)
        return await self._node.runtime.create(self._config(pod, env, options, restart))

    def _config(self, pod: Object, env: dict[str, str], options: RunOptions, restart: int) -> ContainerConfig:
        spec = self._spec
        env = {**options.envs, **env}
        log_name = f"{pod['metadata']['name']}_{spec['name']}_{restart}.log"
        return ContainerConfig(
            name=pod["metadata"]["name"],
            image=spec["image"],
            command=[expand(word, env) for word in spec.get("command") or []],
            args=[expand(word, env) for word in spec.get("args") or []],
            env=env,
            log_path=self._node.runtime.node_dir / "logs" / log_name,
            mounts=self._volumes.mounts_of(spec),
            host_mounts={mount.container_path: mount.host_path for mount in options.mounts},
            devices=[DeviceNode(d.container_path, d.host_path) for d in options.devices],
            cdi_devices=options.cdi_devices,
            annotations=options.annotations,
            privileged=bool((spec.get("securityContext") or {}).get("privileged")),
            cgroup_parent=cgroup_of(pod),
        )

    async def _environment(self, pod: Object) -> dict[str, str]:
        namespace = pod["metadata"]["namespace"]
        found: dict[tuple[str, str], Mapping[str, str] | None] = {}
        try:
            for kind, name in references([self._spec]):
                obj = await self._node.objects.find(kind, namespace, name)
                found[kind, name] = None if obj is None else _texts_of(obj)
        except (ApiStatus, Unreachable, TimeoutError) as exc:
            raise ConfigError(f"failed to sync cache: {exc}") from exc
        return compose(self._spec, pod, self._node.service_env, lambda kind, name: found.get((kind, name)))


def cgroup_of(pod: Object) -> str:
    """A pod's cgroup by the kubelet's systemd driver; containers are below it.

    Source: kubernetes pkg/kubelet/cm/cgroup_manager_linux.go (ToSystemd) and pod_container_manager_linux.go.
    """
    uid = pod["metadata"]["uid"].replace("-", "_")
    quality = str((pod.get("status") or {}).get("qosClass") or "BestEffort").lower()
    if quality == "guaranteed":
        return f"/kubepods.slice/kubepods-pod{uid}.slice"
    return f"/kubepods.slice/kubepods-{quality}.slice/kubepods-{quality}-pod{uid}.slice"


def _texts_of(obj: Object) -> dict[str, str]:
    return {key: value.decode(errors="replace") for key, value in data_of(obj).items()}
