"""The volumes of one pod: made before its containers, refreshed while it lives, gone with it."""

from __future__ import annotations

import asyncio
import base64
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from gpuready_sim.runtime.environment import field_of
from gpuready_sim.runtime.errors import ConfigError, CreateError
from gpuready_sim.runtime.projection import File, project
from gpuready_sim.runtime.roots import Mount

Object = Mapping[str, Any]
DEFAULT_MODE = 0o644
TOKEN_SECONDS = 3607


class MountFailure(Exception):
    """A volume cannot be set up now; the text is the kubelet's, the kubelet tries again."""


class ObjectSource(Protocol):
    """Where ConfigMaps, Secrets and tokens come from."""

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """None when there is no such object."""

    async def request_token(self, pod: Object, audience: str | None, seconds: int) -> str:
        """A token bound to the pod."""


class PodVolumes:
    """Volumes below `directory`, for a pod of the node at `node_root`; its parent is the pod's own too."""

    def __init__(self, directory: Path, node_root: Path, objects: ObjectSource) -> None:
        self._directory = directory
        self._node_root = node_root
        self._objects = objects
        self._sources: dict[str, Path] = {}
        self._private: set[str] = set()
        self._tokens: dict[tuple[str, str | None], tuple[str, float]] = {}

    async def set_up(self, pod: Object) -> None:
        """Make or refresh every volume; raises MountFailure naming the first that fails."""
        for volume in pod["spec"].get("volumes") or []:
            try:
                await self._set_up_one(volume, pod)
            except (OSError, ConfigError) as exc:
                raise MountFailure(f'MountVolume.SetUp failed for volume "{volume["name"]}" : {exc}') from exc
            except MountFailure as exc:
                raise MountFailure(
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : {exc}'
                ) from None

    def mounts_of(self, container: Object) -> list[Mount]:
        """What the container's volumeMounts mean; raises CreateError for a subPath that is not there."""
        mounts: list[Mount] = []
        for wanted in container.get("volumeMounts") or []:
            name = wanted["name"]
            source = self._sources[name]
            sub_path = wanted.get("subPath", "")
            if sub_path:
                source = self._sub_path(name, source, sub_path)
            mounts.append(Mount(wanted["mountPath"], source, private=name in self._private))
        return mounts

    def next_refresh_s(self) -> float | None:
        """Seconds until a token should be renewed; None when there is none."""
        if not self._tokens:
            return None
        return max(0.0, min(at for _, at in self._tokens.values()) - time.monotonic())

    async def tear_down(self) -> None:
        await asyncio.to_thread(shutil.rmtree, self._directory.parent, True)

    def _sub_path(self, name: str, source: Path, sub_path: str) -> Path:
        path = source / sub_path
        if not path.resolve().is_relative_to(source.resolve()):
            raise CreateError(f'subPath "{sub_path}" leaves volume "{name}"')
        if not path.exists():
            if name not in self._private and not source.is_relative_to(self._node_root):
                raise CreateError(f'failed to prepare subPath for volumeMount "{name}" of container')
            path.mkdir(parents=True)
        return path.resolve()

    async def _set_up_one(self, volume: Object, pod: Object) -> None:
        name = volume["name"]
        if "hostPath" in volume:
            self._sources[name] = self._host_path(volume["hostPath"])
            return
        path = self._directory / name
        if "emptyDir" in volume:
            path.mkdir(parents=True, exist_ok=True)
            self._private.add(name)
        else:
            await asyncio.to_thread(project, path, await self._files_of(volume, pod))
        self._sources[name] = path

    def _host_path(self, source: Object) -> Path:
        """The node's path, checked and made as its type says."""
        path = self._node_root / os.path.normpath(f"/{source['path']}").lstrip("/")
        kind = source.get("type") or ""
        if kind == "DirectoryOrCreate":
            path.mkdir(parents=True, exist_ok=True)
        elif kind == "FileOrCreate":
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        elif kind == "" and not path.exists():
            path.mkdir(parents=True)  # the runtime makes a directory of what is not there
        checks = {
            "Directory": Path.is_dir,
            "DirectoryOrCreate": Path.is_dir,
            "File": Path.is_file,
            "FileOrCreate": Path.is_file,
            "Socket": Path.is_socket,
        }
        words = {"DirectoryOrCreate": "Directory", "FileOrCreate": "File"}
        if kind in checks and not checks[kind](path):
            what = words.get(kind, kind).lower()
            raise MountFailure(f"hostPath type check failed: {source['path']} is not a {what}")
        if kind in ("CharDevice", "BlockDevice") and not path.exists():
            raise MountFailure(f"hostPath type check failed: {source['path']} is not a device")
        return path

    async def _files_of(self, volume: Object, pod: Object) -> dict[str, File]:
        if "configMap" in volume:
            return await self._from_object("ConfigMap", volume["configMap"], "name", pod)
        if "secret" in volume:
            return await self._from_object("Secret", volume["secret"], "secretName", pod)
        if "downwardAPI" in volume:
            source = volume["downwardAPI"]
            return _downward_files(source.get("items"), source.get("defaultMode"), pod)
        if "projected" in volume:
            return await self._projected(volume, pod)
        kinds = sorted(set(volume) - {"name"})
        raise MountFailure(f"the simulator has no volumes of kind {', '.join(kinds)}")

    async def _projected(self, volume: Object, pod: Object) -> dict[str, File]:
        mode = volume["projected"].get("defaultMode")
        files: dict[str, File] = {}
        for source in volume["projected"].get("sources") or []:
            if "configMap" in source:
                files |= await self._from_object("ConfigMap", source["configMap"], "name", pod, mode)
            elif "secret" in source:
                files |= await self._from_object("Secret", source["secret"], "name", pod, mode)
            elif "downwardAPI" in source:
                files |= _downward_files(source["downwardAPI"].get("items"), mode, pod)
            elif "serviceAccountToken" in source:
                wanted = source["serviceAccountToken"]
                token = await self._token(volume["name"], wanted, pod)
                files[wanted["path"]] = File(token.encode(), mode or DEFAULT_MODE)
        return files

    async def _from_object(
        self, kind: str, source: Object, name_field: str, pod: Object, mode: int | None = None
    ) -> dict[str, File]:
        name, namespace = source[name_field], pod["metadata"]["namespace"]
        found = await self._objects.find(kind, namespace, name)
        if found is None:
            if source.get("optional"):
                return {}
            raise MountFailure(f'{kind.lower()} "{name}" not found')
        default = source.get("defaultMode") or mode or DEFAULT_MODE
        data = data_of(found)
        if not source.get("items"):
            return {key: File(value, default) for key, value in data.items()}
        files: dict[str, File] = {}
        for item in source["items"]:
            if item["key"] in data:
                files[item["path"]] = File(data[item["key"]], item.get("mode") or default)
            elif not source.get("optional"):
                raise MountFailure(f"references non-existent {kind.lower()} key: {item['key']}")
        return files

    async def _token(self, volume: str, wanted: Object, pod: Object) -> str:
        audience, seconds = wanted.get("audience"), wanted.get("expirationSeconds") or TOKEN_SECONDS
        token, renew_at = self._tokens.get((volume, audience), ("", 0.0))
        if time.monotonic() < renew_at:
            return token
        token = await self._objects.request_token(pod, audience, seconds)
        self._tokens[(volume, audience)] = (token, time.monotonic() + 0.8 * seconds)
        return token


def data_of(obj: Object) -> dict[str, bytes]:
    """Keys and contents of a ConfigMap or Secret."""
    if obj.get("kind") == "Secret":
        return {key: base64.b64decode(value) for key, value in (obj.get("data") or {}).items()}
    texts = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    binary = {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}
    return texts | binary


def _downward_files(items: Any, mode: int | None, pod: Object) -> dict[str, File]:
    files: dict[str, File] = {}
    for item in items or []:
        path = item["fieldRef"]["fieldPath"]
        if path in ("metadata.labels", "metadata.annotations"):
            values = pod["metadata"].get(path.removeprefix("metadata.")) or {}
            text = "\n".join(f'{key}="{value}"' for key, value in sorted(values.items()))
        else:
            text = field_of(pod, path)
        files[item["path"]] = File(text.encode(), item.get("mode") or mode or DEFAULT_MODE)
    return files
