"""The defaults that the API server writes into objects of built-in kinds. Pure.

Only what clients and controllers of the simulated cluster rely on; each function fills one type in place,
on a copy made by `defaulted`.

Source: kubernetes, pkg/apis/{core,apps,batch,rbac,…}/v1/defaults.go.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

Object = dict[str, Any]


def defaulted(obj: Object) -> Object:
    """A copy with defaults filled in, nulls dropped: a typed server cannot tell them from absence."""
    copy: Object = _copied(obj)
    fill = FILLERS.get((str(copy.get("apiVersion", "")).partition("/")[0], str(copy.get("kind", ""))))
    if fill is not None:
        fill(copy)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items() if child is not None}
    return [_copied(child) for child in value] if isinstance(value, list) else value


def _fill(target: Object, **values: Any) -> None:
    for key, value in values.items():
        target.setdefault(key, value)


def _part(target: Object, key: str) -> Object:
    part = target.setdefault(key, {})
    return part if isinstance(part, dict) else {}


def _each(target: Object, key: str) -> list[Object]:
    return [item for item in target.get(key) or [] if isinstance(item, dict)]


# --- pods ---


def _pod(pod: Object) -> None:
    spec = _part(pod, "spec")
    pod_spec(spec)
    _fill(spec, enableServiceLinks=True)
    for container in [*_each(spec, "containers"), *_each(spec, "initContainers")]:
        _requests_from_limits(container)
    _fill(_part(pod, "status"), phase="Pending", qosClass=_qos(spec))


def pod_spec(spec: Object) -> None:
    """Defaults of a pod's specification, also of the one in a template."""
    _fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        terminationGracePeriodSeconds=30,
        schedulerName="default-scheduler",
        securityContext={},
    )
    if "serviceAccountName" in spec:
        _fill(spec, serviceAccount=spec["serviceAccountName"])
    elif "serviceAccount" in spec:
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in _each(spec, "volumes"):
        _volume(volume)
    for container in [*_each(spec, "initContainers"), *_each(spec, "containers")]:
        _container(container, host_network=bool(spec.get("hostNetwork")))


def _container(container: Object, *, host_network: bool) -> None:
    _fill(
        container,
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=_pull_policy(str(container.get("image", ""))),
    )
    for port in _each(container, "ports"):
        _fill(port, protocol="TCP")
        if host_network and "containerPort" in port:
            _fill(port, hostPort=port["containerPort"])
    for variable in _each(container, "env"):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            _fill(reference, apiVersion="v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http_get(hook)


def _probe(probe: Object) -> None:
    _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    _http_get(probe)
    if isinstance(probe.get("grpc"), dict):
        _fill(probe["grpc"], service="")


def _http_get(handler: Object) -> None:
    if isinstance(handler.get("httpGet"), dict):
        _fill(handler["httpGet"], path="/", scheme="HTTP")


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
            _fill(volume[source], defaultMode=VOLUME_MODE)
    if isinstance(volume.get("hostPath"), dict):
        _fill(volume["hostPath"], type="")
    files = _each(volume.get("downwardAPI") or {}, "items")
    for projection in _each(volume.get("projected") or {}, "sources"):
        if isinstance(projection.get("serviceAccountToken"), dict):
            _fill(projection["serviceAccountToken"], expirationSeconds=3600)
        files += _each(projection.get("downwardAPI") or {}, "items")
    for file in files:
        if isinstance(file.get("fieldRef"), dict):
            _fill(file["fieldRef"], apiVersion="v1")


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources")
    if isinstance(resources, dict) and isinstance(resources.get("limits"), dict):
        requests = _part(resources, "requests")
        for name, amount in resources["limits"].items():
            requests.setdefault(name, amount)
        if not requests:
            del resources["requests"]


def _qos(spec: Object) -> str:
    """BestEffort, Burstable or Guaranteed, by cpu and memory alone."""
    guaranteed, anything = True, False
    for container in [*_each(spec, "containers"), *_each(spec, "initContainers")]:
        resources = container.get("resources") or {}
        for name in ("cpu", "memory"):
            request = (resources.get("requests") or {}).get(name)
            limit = (resources.get("limits") or {}).get(name)
            anything = anything or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and request == limit
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


# --- workloads ---


def _template(spec: Object) -> None:
    template = _part(spec, "template")
    _fill(template, metadata={})
    pod_spec(_part(template, "spec"))


def _daemon_set(obj: Object) -> None:
    spec = _part(obj, "spec")
    _template(spec)
    strategy = _part(spec, "updateStrategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_part(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _fill(spec, revisionHistoryLimit=10)
    _fill(
        _part(obj, "status"),
        currentNumberScheduled=0,
        numberMisscheduled=0,
        desiredNumberScheduled=0,
        numberReady=0,
    )


def _deployment(obj: Object) -> None:
    spec = _part(obj, "spec")
    _template(spec)
    strategy = _part(spec, "strategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_part(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    _fill(obj, status={})


def _replica_set(obj: Object) -> None:
    spec = _part(obj, "spec")
    _template(spec)
    _fill(spec, replicas=1)
    _fill(_part(obj, "status"), replicas=0)


def _stateful_set(obj: Object) -> None:
    spec = _part(obj, "spec")
    _template(spec)
    _fill(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady", serviceName="")
    strategy = _part(spec, "updateStrategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_part(strategy, "rollingUpdate"), partition=0)
    _fill(spec, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})
    _fill(_part(obj, "status"), replicas=0, availableReplicas=0)


def _job_spec(spec: Object) -> None:
    _template(spec)
    _fill(
        spec,
        completionMode="NonIndexed",
        suspend=False,
        backoffLimit=6,
        podReplacementPolicy="TerminatingOrFailed",
        manualSelector=False,
    )
    if "completions" not in spec and "parallelism" not in spec:
        _fill(spec, completions=1)
    _fill(spec, parallelism=1)


def _job(obj: Object) -> None:
    _job_spec(_part(obj, "spec"))
    _fill(obj, status={})


def _cron_job(obj: Object) -> None:
    spec = _part(obj, "spec")
    _fill(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = _part(spec, "jobTemplate")
    _fill(template, metadata={})
    _template(_part(template, "spec"))
    _fill(obj, status={})


# --- the rest ---


def _service(obj: Object) -> None:
    spec = _part(obj, "spec")
    _fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        _fill(spec, internalTrafficPolicy="Cluster", ipFamilyPolicy="SingleStack", ipFamilies=["IPv4"])
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        _fill(spec, allocateLoadBalancerNodePorts=True)
    for port in _each(spec, "ports"):
        _fill(port, protocol="TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    _fill(_part(obj, "status"), loadBalancer={})


def _namespace(obj: Object) -> None:
    _fill(_part(obj, "spec"), finalizers=["kubernetes"])
    _fill(_part(obj, "status"), phase="Active")
    name = (obj.get("metadata") or {}).get("name")
    if name:
        labels = _part(_part(obj, "metadata"), "labels")
        labels["kubernetes.io/metadata.name"] = name


def _secret(obj: Object) -> None:
    _fill(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = _part(obj, "data")
        data.update({key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()})


def _node(obj: Object) -> None:
    _fill(obj, spec={})
    status = _part(obj, "status")
    if "capacity" in status:
        _fill(status, allocatable=dict(status["capacity"]))
    _fill(_part(status, "daemonEndpoints"), kubeletEndpoint={"Port": 0})
    names = (
        "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion machineID "
        "operatingSystem osImage systemUUID"
    )
    _fill(_part(status, "nodeInfo"), **dict.fromkeys(names.split(), ""))


def _binding(obj: Object) -> None:
    group = "rbac.authorization.k8s.io"
    _fill(_part(obj, "roleRef"), apiGroup=group)
    for subject in _each(obj, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            _fill(subject, apiGroup=group)


def _role(obj: Object) -> None:
    _fill(obj, rules=[])


def _persistent_volume_claim(obj: Object) -> None:
    _fill(_part(obj, "spec"), volumeMode="Filesystem")
    _fill(_part(obj, "status"), phase="Pending")


def _persistent_volume(obj: Object) -> None:
    _fill(_part(obj, "spec"), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    _fill(_part(obj, "status"), phase="Pending")


def _event(obj: Object) -> None:
    _fill(
        obj, source={}, reportingComponent="", reportingInstance="", firstTimestamp=None, lastTimestamp=None
    )
    _fill(obj, eventTime=None)


def _crd(obj: Object) -> None:
    spec = _part(obj, "spec")
    names = _part(spec, "names")
    kind = str(names.get("kind", ""))
    _fill(names, singular=kind.lower(), listKind=f"{kind}List")
    _fill(spec, conversion={"strategy": "None"})
    _fill(_part(obj, "status"), conditions=[], storedVersions=[], acceptedNames={"kind": "", "plural": ""})


def _priority_class(obj: Object) -> None:
    _fill(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _storage_class(obj: Object) -> None:
    _fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _budget(obj: Object) -> None:
    _fill(obj, spec={})
    _fill(_part(obj, "status"), currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0)


def _network_policy(obj: Object) -> None:
    spec = _part(obj, "spec")
    for rule in [*_each(spec, "ingress"), *_each(spec, "egress")]:
        for port in _each(rule, "ports"):
            _fill(port, protocol="TCP")
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress"] + (["Egress"] if "egress" in spec else [])


def _webhooks(obj: Object) -> None:
    for hook in _each(obj, "webhooks"):
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        _fill(hook, namespaceSelector={}, objectSelector={})
        for rule in _each(hook, "rules"):
            _fill(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            _fill(service, port=443)
        if obj["kind"] == "MutatingWebhookConfiguration":
            _fill(hook, reinvocationPolicy="Never")


def _admission_policy(obj: Object) -> None:
    spec = _part(obj, "spec")
    _fill(spec, failurePolicy="Fail")
    if isinstance(spec.get("matchConstraints"), dict):
        _match(spec["matchConstraints"])


def _admission_binding(obj: Object) -> None:
    resources = _part(obj, "spec").get("matchResources")
    if isinstance(resources, dict):
        _match(resources)


def _match(resources: Object) -> None:
    _fill(resources, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in _each(resources, "resourceRules"):
        _fill(rule, scope="*")


def _device_requests(spec: Object) -> None:
    for request in _each(spec.get("devices") or {}, "requests"):
        if isinstance(request.get("exactly"), dict):
            _device_request(request["exactly"])
        for alternative in _each(request, "firstAvailable"):
            _device_request(alternative)


def _device_request(request: Object) -> None:
    _fill(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        _fill(request, count=1)


def _resource_claim(obj: Object) -> None:
    _device_requests(_part(obj, "spec"))
    _fill(obj, status={})


def _resource_claim_template(obj: Object) -> None:
    spec = _part(obj, "spec")
    _fill(spec, metadata={})
    _device_requests(_part(spec, "spec"))


FILLERS: Final[dict[tuple[str, str], Callable[[Object], None]]] = {
    ("v1", "Pod"): _pod,
    ("v1", "PodTemplate"): lambda obj: pod_spec(_part(_part(obj, "template"), "spec")),
    ("v1", "ReplicationController"): _replica_set,
    ("v1", "Service"): _service,
    ("v1", "Namespace"): _namespace,
    ("v1", "Secret"): _secret,
    ("v1", "Node"): _node,
    ("v1", "Event"): _event,
    ("v1", "PersistentVolumeClaim"): _persistent_volume_claim,
    ("v1", "PersistentVolume"): _persistent_volume,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "Role"): _role,
    ("rbac.authorization.k8s.io", "ClusterRole"): _role,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _crd,
    ("scheduling.k8s.io", "PriorityClass"): _priority_class,
    ("storage.k8s.io", "StorageClass"): _storage_class,
    ("policy", "PodDisruptionBudget"): _budget,
    ("networking.k8s.io", "NetworkPolicy"): _network_policy,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _webhooks,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): _admission_policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): _admission_binding,
    ("resource.k8s.io", "ResourceClaim"): _resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): _resource_claim_template,
}
