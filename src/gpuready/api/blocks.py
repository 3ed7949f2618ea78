"""Parts that several sections of a ClusterPolicy share: images, containers, probes, tolerations.

Source: gpu-operator v26.3.3, api/nvidia/v1/clusterpolicy_types.go.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from gpuready.api.doc import block, doc

# Unanchored in the original too: it accepts every text with one such character.
IMAGE_PATTERN = r"[a-zA-Z0-9\-]+"
DURATION_PATTERN = (
    r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
)

Quantities = dict[str, int | str]


class Base(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Every model of the API: immutable, camelCase outside, absent fields stay absent."""


class EnvVar(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("Name of the environment variable.")]
    value: Annotated[str, doc("Its value, taken literally.")] = ""


class ResourceRequirements(Base, frozen=True, kw_only=True):
    limits: Annotated[Quantities, doc("Most the container may use, by resource name.")] = {}
    requests: Annotated[Quantities, doc("What the scheduler sets aside, by resource name.")] = {}


class Toleration(Base, frozen=True, kw_only=True):
    key: Annotated[str, doc("Taint key; empty together with operator Exists means every taint.")] = ""
    operator: Annotated[str, doc("Exists or Equal (the default).")] = ""
    value: Annotated[str, doc("Taint value, for operator Equal.")] = ""
    effect: Annotated[str, doc("NoSchedule, PreferNoSchedule or NoExecute; empty means all.")] = ""
    toleration_seconds: Annotated[int | None, doc("How long a NoExecute taint is tolerated.")] = None


class Probe(Base, frozen=True, kw_only=True):
    """Values that are not given keep those of the operand's own probe."""

    initial_delay_seconds: Annotated[int, doc("Seconds from the container's start to the first probe.")] = 0
    timeout_seconds: Annotated[int, doc("Seconds after which a probe has failed.", minimum=1)] = 0
    period_seconds: Annotated[int, doc("Seconds between probes.", minimum=1)] = 0
    success_threshold: Annotated[int, doc("Successes in a row that count as success.", minimum=1)] = 0
    failure_threshold: Annotated[int, doc("Failures in a row that count as failure.", minimum=1)] = 0


class ImageRef(Base, frozen=True, kw_only=True):
    """Which image; with repository and version both empty, `image` is the whole reference."""

    repository: Annotated[str, doc("Registry and path, without the image's name.")] = ""
    image: Annotated[str, doc("Name of the image.", pattern=IMAGE_PATTERN)] = ""
    version: Annotated[str, doc("Tag, or a digest that starts with sha256:.")] = ""
    image_pull_policy: Annotated[
        str, doc("Always, Never or IfNotPresent; anything else means IfNotPresent.")
    ] = ""
    image_pull_secrets: Annotated[list[str], doc("Names of pull secrets in the operator's namespace.")] = []


class SideCar(ImageRef, frozen=True, kw_only=True):
    """An extra container of the driver's pod."""

    enabled: Annotated[bool, doc("Run this container beside the driver; absent means false.")] = False
    args: Annotated[list[str], doc("Ignored; kept so that stored objects stay valid.")] = []
    env: Annotated[list[EnvVar], doc("Environment variables, set or replaced by name.")] = []


class DriverManager(ImageRef, frozen=True, kw_only=True):
    env: Annotated[list[EnvVar], doc("Environment variables, set or replaced by name.")] = []


class Container(ImageRef, frozen=True, kw_only=True):
    """An operand's main container."""

    resources: Annotated[
        ResourceRequirements, doc("Limits and requests of every main container of the pod.")
    ] = block(ResourceRequirements)
    args: Annotated[list[str], doc("Replaces the arguments of the main container.")] = []
    env: Annotated[
        list[EnvVar], doc("Environment variables of the main container, set or replaced by name.")
    ] = []
    host_network: Annotated[bool, doc("Use the node's network; absent means false.")] = False


class NamedConfig(Base, frozen=True, kw_only=True):
    name: Annotated[str, doc("Name of a ConfigMap in the operator's namespace.")] = ""


class ServiceMonitorRelabel(Base, frozen=True, kw_only=True):
    source_labels: Annotated[list[str], doc("Labels whose values are joined and matched.")] = []
    separator: Annotated[str, doc("Put between the joined values.")] = ""
    target_label: Annotated[str, doc("Label that takes the result.")] = ""
    regex: Annotated[str, doc("Matched against the joined values.")] = ""
    modulus: Annotated[int, doc("For action hashmod.")] = 0
    replacement: Annotated[str, doc("Written to the target label.")] = ""
    action: Annotated[str, doc("What to do on a match: replace, keep, drop …")] = ""


class ServiceMonitor(Base, frozen=True, kw_only=True):
    enabled: Annotated[bool, doc("Create a ServiceMonitor; absent means false.")] = False
    interval: Annotated[str, doc("Time between scrapes, such as 15s.", pattern=DURATION_PATTERN)] = ""
    scrape_timeout: Annotated[str, doc("Time after which a scrape has failed.", pattern=DURATION_PATTERN)] = (
        ""
    )
    honor_labels: Annotated[bool, doc("Labels of the metrics win over those of the target.")] = False
    additional_labels: Annotated[dict[str, str], doc("Labels of the ServiceMonitor itself.")] = {}
    relabelings: Annotated[list[ServiceMonitorRelabel], doc("Relabelling before the scrape.")] = []


FreeObject = dict[str, Any]
