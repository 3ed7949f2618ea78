"""Images by names that no image can have: their pods would stay in InvalidImageName. Pure.

Like references, they are looked for in the finished objects: whatever made the name, policy, environment,
release table or mirror, it is the whole that the kubelet reads.

Source: distribution/reference v0.6, reference.go and regexp.go (the grammar and its limits).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuready.operands.contract import IMAGE_INVALID, Refusal

Object = Mapping[str, Any]
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PATH})(?::{_TAG})?(?:@{_DIGEST})?", re.ASCII)
_LONGEST_NAME = 255
_SOMEWHERE = "it in the policy, or in the operator's environment"
# An image that a container hands on to the pods that it makes.
_HANDED_ON = "_IMAGE"


def find_unusable_image(objects: Iterable[Object], spec: Object) -> Refusal | None:
    """Why a container of these objects could not even be pulled. spec: of the policy, to name its fields."""
    for obj in objects:
        for image in _images_of(obj):
            if why := why_unusable(image):
                fields = ", ".join(_fields_in(image, spec, "spec"))
                where = f" ({fields})" if fields else ""
                message = f"there can be no image {image}{where}: {why}. What runs is left as it is"
                return Refusal(IMAGE_INVALID, message, f"correct {fields or _SOMEWHERE}")
    return None


def why_unusable(image: str) -> str:
    """ "" for a reference that a registry may know."""
    match = _REFERENCE.fullmatch(image)
    if match:
        too_long = len(match["path"]) + len(match["host"] or "") > _LONGEST_NAME
        return f"its name has more than {_LONGEST_NAME} letters" if too_long else ""
    bare = image.partition("@")[0]
    path = bare.partition("/")[2] or bare
    if re.search(r"[A-Z]", path.rpartition(":")[0] or path):
        return "names of images have no capital letters"
    return "it is not [HOST[:PORT]/]PATH[:TAG][@DIGEST]"


def _images_of(obj: Object) -> Iterator[str]:
    pod = obj.get("spec", {}).get("template", {}).get("spec") or {}
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        yield container["image"]
        for variable in container.get("env") or ():
            if variable["name"].endswith(_HANDED_ON) and variable.get("value"):
                yield variable["value"]


def _fields_in(image: str, value: Any, path: str) -> Iterator[str]:
    """Fields of the policy whose text is a part of this name and could be so of no image."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _fields_in(image, inner, f"{path}.{key}")
    elif isinstance(value, str) and value and value in image:
        probe = _AS_PART_OF_A_NAME.get(path.rpartition(".")[2])
        if probe and why_unusable(probe.format(value)):
            yield path


_AS_PART_OF_A_NAME = {
    "registry": "{}/path",
    "repository": "{}/path",
    "image": "example.com/{}",
    "version": "path:{}",
}
