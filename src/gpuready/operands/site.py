"""What a site asks of every pod of ours, whoever wrote its manifest: its registry, pull secrets and CA. Pure.

It is laid over finished objects, so that init containers, and the pods that a validator makes from its own
environment, are reached like everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuready.api.clusterpolicy import ClusterPolicy, GPUReadyOptions
from gpuready.api.images import NGC
from gpuready.operands.contract import KubeObject

CA_FILE = "ca-bundle.crt"
CA_DIR = "/etc/gpuready/ca"
CA_VOLUME = "gpuready-ca"
# Read by OpenSSL, Go and Python; curl has a name of its own.
CA_ENV = ("SSL_CERT_FILE", "CURL_CA_BUNDLE")
# Whom the original's validator tells with which secrets its pods pull.
_PULL_SECRETS_ENV = "VALIDATOR_IMAGE_PULL_SECRETS"
_CONTAINERS = ("initContainers", "containers")


def fitted(obj: KubeObject, policy: ClusterPolicy) -> KubeObject:
    """The object as this site wants it; only what has a pod template changes."""
    template = obj.get("spec", {}).get("template") if obj["kind"] in ("DaemonSet", "Deployment") else None
    site = policy.spec.gpuready
    if template is None or not (site.registry or any(site.image_pull_secrets) or site.cert_config.name):
        return obj
    pod = _pod(template["spec"], site)
    return {**obj, "spec": {**obj["spec"], "template": {**template, "spec": pod}}}


def mirrored(image: str, registry: str) -> str:
    """The reference in the site's registry; images of other registries than the public one stay."""
    path = image.removeprefix(f"{NGC}/")
    return f"{registry.rstrip('/')}/{path}" if registry and path != image else image


def _pod(pod: Mapping[str, Any], site: GPUReadyOptions) -> KubeObject:
    fitted = {**pod}
    for group in _CONTAINERS:
        if pod.get(group):
            fitted[group] = [_container(container, site) for container in pod[group]]
    if any(site.image_pull_secrets):
        already = [secret["name"] for secret in pod.get("imagePullSecrets", ())]
        fitted["imagePullSecrets"] = [{"name": name} for name in _unique(already, site.image_pull_secrets)]
    if site.cert_config.name:
        volume = {"name": CA_VOLUME, "configMap": {"name": site.cert_config.name}}
        fitted["volumes"] = [*pod.get("volumes", ()), volume]
    return fitted


def _container(container: Mapping[str, Any], site: GPUReadyOptions) -> KubeObject:
    fitted = {**container, "image": mirrored(container["image"], site.registry)}
    env = [_variable(variable, site) for variable in container.get("env", ())]
    env += _handed_on(env, site)
    if site.cert_config.name:
        known = {variable["name"] for variable in env}
        env += [{"name": name, "value": f"{CA_DIR}/{CA_FILE}"} for name in CA_ENV if name not in known]
        mount = {"name": CA_VOLUME, "mountPath": CA_DIR, "readOnly": True}
        fitted["volumeMounts"] = [*container.get("volumeMounts", ()), mount]
    return {**fitted, "env": env} if env else fitted


def _variable(variable: Mapping[str, Any], site: GPUReadyOptions) -> KubeObject:
    """Images and secrets that a container hands on to pods that it makes itself."""
    name, value = variable["name"], variable.get("value", "")
    if name.endswith("_IMAGE") and value:
        return {**variable, "value": mirrored(value, site.registry)}
    if name == _PULL_SECRETS_ENV and "valueFrom" not in variable:
        named = [each for each in value.split(",") if each]
        return {**variable, "value": ",".join(_unique(named, site.image_pull_secrets))}
    return dict(variable)


def _handed_on(env: Iterable[Mapping[str, Any]], site: GPUReadyOptions) -> list[KubeObject]:
    """The secrets for a container that makes pods and was told of none."""
    names = {variable["name"] for variable in env}
    if "VALIDATOR_IMAGE" not in names or _PULL_SECRETS_ENV in names or not any(site.image_pull_secrets):
        return []
    return [{"name": _PULL_SECRETS_ENV, "value": ",".join(_unique(site.image_pull_secrets))}]


def _unique(*names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for group in names for name in group if name))
