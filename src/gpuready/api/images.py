"""Which image an operand runs: the one that the policy names, or the release's; pure.

An image is named when `repository` or `image` is set. `version` alone names none: it means ours, save for the
driver and other images that only exist outside, whose missing parts come from the release table.

Source: gpu-operator v26.3.3, api/nvidia/v1/clusterpolicy_types.go imagePath(), object_controls.go:3374,
state_manager.go:641; the table is that release's chart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from gpuready.api.blocks import ImageRef
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.errors import PolicyError

NGC = "nvcr.io"


@dataclass(frozen=True)
class Release:
    repository: str
    image: str
    version: str
    fallback_env: str = ""  # operator's environment variable with a whole reference


_CLOUD_NATIVE = f"{NGC}/nvidia/cloud-native"
_DRIVER_MANAGER = Release(_CLOUD_NATIVE, "k8s-driver-manager", "v0.11.0", "DRIVER_MANAGER_IMAGE")

RELEASES: dict[str, Release] = {
    "driver": Release(f"{NGC}/nvidia", "driver", "580.126.20", "DRIVER_IMAGE"),
    "driver.manager": _DRIVER_MANAGER,
    "toolkit": Release(f"{NGC}/nvidia/k8s", "container-toolkit", "v1.19.1", "CONTAINER_TOOLKIT_IMAGE"),
    "devicePlugin": Release(f"{NGC}/nvidia", "k8s-device-plugin", "v0.19.3", "DEVICE_PLUGIN_IMAGE"),
    "gfd": Release(f"{NGC}/nvidia", "k8s-device-plugin", "v0.19.3", "GFD_IMAGE"),
    "dcgm": Release(_CLOUD_NATIVE, "dcgm", "4.5.2-1-ubuntu22.04", "DCGM_IMAGE"),
    "dcgmExporter": Release(
        f"{NGC}/nvidia/k8s", "dcgm-exporter", "4.5.3-4.8.2-distroless", "DCGM_EXPORTER_IMAGE"
    ),
    "migManager": Release(_CLOUD_NATIVE, "k8s-mig-manager", "v0.14.2", "MIG_MANAGER_IMAGE"),
    "validator": Release(f"{NGC}/nvidia", "gpu-operator", "v26.3.3", "VALIDATOR_IMAGE"),
    "nodeStatusExporter": Release(f"{NGC}/nvidia", "gpu-operator", "v26.3.3", "VALIDATOR_IMAGE"),
    "gds": Release(_CLOUD_NATIVE, "nvidia-fs", "2.27.3", "GDS_IMAGE"),
    "gdrcopy": Release(_CLOUD_NATIVE, "gdrdrv", "v2.5.2", "GDRCOPY_IMAGE"),
    "vgpuManager": Release("", "vgpu-manager", "", "VGPU_MANAGER_IMAGE"),
    "vgpuManager.driverManager": _DRIVER_MANAGER,
    "vgpuDeviceManager": Release(_CLOUD_NATIVE, "vgpu-device-manager", "v0.4.2", "VGPU_DEVICE_MANAGER_IMAGE"),
    "sandboxDevicePlugin": Release(
        f"{NGC}/nvidia", "kubevirt-gpu-device-plugin", "v1.5.0", "SANDBOX_DEVICE_PLUGIN_IMAGE"
    ),
    "kataSandboxDevicePlugin": Release(
        _CLOUD_NATIVE, "nvidia-sandbox-device-plugin", "v0.0.3", "KATA_SANDBOX_DEVICE_PLUGIN_IMAGE"
    ),
    "vfioManager": Release(_CLOUD_NATIVE, "k8s-driver-manager", "v0.11.0", "VFIO_MANAGER_IMAGE"),
    "vfioManager.driverManager": _DRIVER_MANAGER,
    "ccManager": Release(_CLOUD_NATIVE, "k8s-cc-manager", "v0.4.0", "CC_MANAGER_IMAGE"),
    "kataManager": Release("", "", "", "KATA_MANAGER_IMAGE"),
}


def is_named(policy: ClusterPolicy, component: str) -> bool:
    """Does the policy say whose image a component is?

    component  its path under spec: "devicePlugin", "driver.manager"
    """
    asked = block_of(policy, component)
    return bool(asked.repository or asked.image)


def named_image(policy: ClusterPolicy, component: str) -> str | None:
    """The reference that the policy names for a component; None when it names none, so ours runs."""
    if not is_named(policy, component):
        return None
    return _reference(block_of(policy, component), RELEASES[component])


def external_image(policy: ClusterPolicy, component: str, env: Mapping[str, str] | None = None) -> str:
    """The reference of an image that only exists outside; missing parts come from the release.

    env     the operator's environment: DRIVER_IMAGE and the like stand in for a policy that says nothing
    raises  PolicyError when neither says which
    """
    asked, release = block_of(policy, component), RELEASES[component]
    given = (env or {}).get(release.fallback_env, "")
    if given and not (asked.repository or asked.image or asked.version):
        return given
    reference = _reference(asked, release)
    if not reference:
        raise PolicyError(
            f"no image is known for {component}",
            why="neither the policy nor the release names one",
            next_step=f"set spec.{component}.repository, .image and .version",
        )
    return reference


def driver_image(
    policy: ClusterPolicy, *, os_tag: str, kernel: str = "", env: Mapping[str, str] | None = None
) -> str:
    """The driver's image for one pool of nodes.

    os_tag  "ubuntu22.04", appended to the tag unless the image is given by digest or has it already
    kernel  full kernel version, for precompiled drivers
    """
    return with_os_tag(external_image(policy, "driver", env), os_tag, kernel=kernel)


def with_os_tag(reference: str, os_tag: str, *, kernel: str = "") -> str:
    if "sha256:" in reference or reference.endswith(f"-{os_tag}"):
        return reference
    return "-".join(part for part in (reference, kernel, os_tag) if part)


def os_tag_of(os_id: str, version_id: str) -> str:
    """The tag's suffix for an operating system: "ubuntu22.04", "rhel9.4", "rhel10", "rocky9"."""
    major = version_id.partition(".")[0]
    short = os_id == "rocky" or (os_id == "rhel" and major.isdigit() and int(major) >= 10)
    return os_id + (major if short else version_id)


def block_of(policy: ClusterPolicy, component: str) -> ImageRef:
    block: object = policy.spec
    for name in component.split("."):
        block = getattr(block, re.sub(r"([A-Z])", r"_\1", name).lower())
    if not isinstance(block, ImageRef):
        raise KeyError(component)
    return block


def _reference(asked: ImageRef, release: Release) -> str:
    """`repository/image:version`, with what is missing taken from the release.

    An image that stands alone, by another name than the release's, is the whole reference as in the original.
    """
    image = asked.image or release.image
    alone = not asked.repository and not asked.version and image != release.image
    if alone or (not asked.repository and _is_whole(image)):
        return image
    repository = asked.repository or ("" if "/" in image else release.repository)
    version = asked.version or release.version
    if not image or not version:
        return ""
    name = f"{repository.rstrip('/')}/{image}" if repository else image
    return f"{name}@{version}" if version.startswith("sha256:") else f"{name}:{version}"


def _is_whole(image: str) -> bool:
    """A reference that already carries its tag or digest."""
    return "@" in image or ":" in image.rpartition("/")[2]
