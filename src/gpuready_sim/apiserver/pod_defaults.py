"""Defaults of pods and pod templates, and the small steps in which all defaults are written.

Source: kubernetes, pkg/apis/core/v1/defaults.go.
"""

from __future__ import annotations

from typing import Any, Final

Object = dict[str, Any]


def pod(pod: Object) -> None:
    spec = part(pod, "spec")
    pod_spec(spec)
    fill(spec, enableServiceLinks=True)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1  # core/v1/conversion.go: of pods, not of templates
    for container in [*each(spec, "containers"), *each(spec, "initContainers")]:
        _requests_from_limits(container)
    status = part(pod, "status")
    fill(status, qosClass=_qos(spec))
    for condition in each(status, "conditions"):
        fill(condition, lastProbeTime=None, lastTransitionTime=None)
    for state in [*each(status, "containerStatuses"), *each(status, "initContainerStatuses")]:
        fill(state, state={}, lastState={})


def pod_spec(spec: Object) -> None:
    """Defaults of a pod's specification, also of the one in a template."""
    fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    if "serviceAccountName" in spec:
        fill(spec, serviceAccount=spec["serviceAccountName"])
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in each(spec, "volumes"):
        _volume(volume)
    for container in [*each(spec, "initContainers"), *each(spec, "containers")]:
        _container(container, host_network=bool(spec.get("hostNetwork")))


def _container(container: Object, *, host_network: bool) -> None:
    fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=_pull_policy(str(container.get("image", ""))),
    )
    for port in each(container, "ports"):
        fill(port, protocol="TCP")
        if host_network and "containerPort" in port:
            fill(port, hostPort=port["containerPort"])
    for variable in each(container, "env"):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            fill(reference, apiVersion="v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)


def _probe(probe: Object) -> None:
    fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _http_get(probe)
    if isinstance(probe.get("grpc"), dict):
        fill(probe["grpc"], service="")


def _http_get(handler: Object) -> None:
    if isinstance(handler.get("httpGet"), dict):
        fill(handler["httpGet"], path="/", scheme="HTTP")


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name:
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


VOLUME_MODE: Final = 0o644


def _volume(volume: Object) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            fill(volume[source], defaultMode=VOLUME_MODE)
    if isinstance(volume.get("hostPath"), dict):
        fill(volume["hostPath"], type="")
    files = each(volume.get("downwardAPI") or {}, "items")
    for projection in each(volume.get("projected") or {}, "sources"):
        if isinstance(projection.get("serviceAccountToken"), dict):
            fill(projection["serviceAccountToken"], expirationSeconds=3600)
        files += each(projection.get("downwardAPI") or {}, "items")
    for file in files:
        if isinstance(file.get("fieldRef"), dict):
            fill(file["fieldRef"], apiVersion="v1")


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        requests = part(resources, "requests")
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)
        if not requests:
            del resources["requests"]


def _qos(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed, by cpu and memory alone."""
    guaranteed, anything = True, False
    for container in [*each(spec, "containers"), *each(spec, "initContainers")]:
        resources = container.get("resources") or {}
        for name in ("cpu", "memory"):
            request = (resources.get("requests") or {}).get(name)
            limit = (resources.get("limits") or {}).get(name)
            anything = anything or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and request == limit
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


# --- steps ---


# Of these texts Go cannot tell the empty one from none at all.
_UNSAID_WHEN_EMPTY: Final = ("restartPolicy", "schedulerName", "dnsPolicy", "path", "scheme", "protocol")


def fill(target: Object, **values: Any) -> None:
    for key, value in values.items():
        if key not in target or (target[key] == "" and key in _UNSAID_WHEN_EMPTY):
            target[key] = value


def part(target: Object, key: str) -> Object:
    part = target.setdefault(key, {})
    return part if isinstance(part, dict) else {}


def each(target: Object, key: str) -> list[Object]:
    return [item for item in target.get(key) or [] if isinstance(item, dict)]
