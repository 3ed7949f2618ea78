"""`gpuready images`: every image that a cluster pulls for a policy. Pure.

Read off the objects that `gpuready render` prints, so the two cannot disagree: containers, init containers,
and the pods that a container makes from an image in its environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gpuready import names
from gpuready.tools.files import policy_in
from gpuready.tools.render import rendered
from gpuready.yaml_text import dump_yaml

OWN, NAMED = "gpuready", "named"
_RENDERED_OWN = f"{names.OWN_IMAGE}:{names.VERSION}"
Object = Mapping[str, Any]


@dataclass(frozen=True)
class Pulled:
    """One image.

    image    what a node pulls
    source   where a mirror gets it from; the same as `image` without a mirror
    flavour  "gpuready" for our own, "named" for one that the policy or the release names
    used_by  "driver: DaemonSet/nvidia-driver-daemonset nvidia-driver-ctr"
    """

    image: str
    source: str
    flavour: str
    used_by: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "used_by": list(self.used_by)}


def images_of(policy_text: str, nodes_text: str, own_image: str = "") -> tuple[list[Pulled], tuple[str, ...]]:
    """The images in order of their first use, and what a reader should know.

    nodes_text   a NodeList; drivers come one for each operating system among the nodes, also of nodes that
                 nobody has labelled yet
    own_image    the operator's image; "" = of this release, in the policy's registry
    raises       PolicyError and UsageError as `rendered`
    """
    with_mirror = rendered(policy_text, nodes_text, names.OPERATOR_NAMESPACE, suppose_gpus=True)
    registry = _registry_of(policy_text)
    own = own_image or (f"{registry.rstrip('/')}/{_RENDERED_OWN}" if registry else _RENDERED_OWN)
    found = [(_RENDERED_OWN, "operator: the operator itself"), *_uses(with_mirror.objects)]
    sources = [(_RENDERED_OWN, ""), *_uses(_without_mirror(policy_text, nodes_text))]
    uses: dict[tuple[str, str], list[str]] = {}
    for (image, use), (source, _) in zip(found, sources, strict=True):
        uses.setdefault((image, source), []).append(use)
    pulled = [
        Pulled(
            image=own if image == _RENDERED_OWN else image,
            source=source,
            flavour=OWN if image == _RENDERED_OWN else NAMED,
            used_by=tuple(dict.fromkeys(used_by)),
        )
        for (image, source), used_by in uses.items()
    ]
    return pulled, with_mirror.remarks


def _uses(objects: Iterable[Object]) -> Iterator[tuple[str, str]]:
    """(image, who uses it) in the order of the objects."""
    for obj in objects:
        pod = (obj.get("spec") or {}).get("template", {}).get("spec") or {}
        operand = obj["metadata"].get("labels", {}).get(names.OPERAND_LABEL, "")
        for container in (*pod.get("initContainers", ()), *pod.get("containers", ())):
            where = f"{operand}: {obj['kind']}/{obj['metadata']['name']} {container['name']}"
            yield container["image"], where
            for variable in container.get("env", ()):
                if variable["name"].endswith("_IMAGE") and variable.get("value"):
                    yield variable["value"], f"{where}, for pods that it makes"


def _registry_of(policy_text: str) -> str:
    return str(_site_of(policy_in(policy_text)).get("registry") or "")


def _without_mirror(policy_text: str, nodes_text: str) -> Iterable[Object]:
    """What is rendered in a world without mirrors."""
    raw = policy_in(policy_text)
    site = {key: value for key, value in _site_of(raw).items() if key != "registry"}
    spec = {**(raw.get("spec") or {}), "gpuready": site}
    bare = dump_yaml({**raw, "spec": spec})
    return rendered(bare, nodes_text, names.OPERATOR_NAMESPACE, suppose_gpus=True).objects


def _site_of(raw: Object) -> dict[str, Any]:
    return dict((raw.get("spec") or {}).get("gpuready") or {})
