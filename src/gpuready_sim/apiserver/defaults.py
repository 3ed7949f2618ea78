"""The defaults that the API server writes into objects of built-in kinds. Pure.

Only what clients and controllers of the simulated cluster rely on; each function fills one type in place,
on a copy made by `defaulted`.

Source: kubernetes, pkg/apis/{core,apps,batch,rbac,…}/v1/defaults.go.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from gpuready_sim.apiserver.pod_defaults import each, fill, part, pod, pod_spec

Object = dict[str, Any]


def defaulted(obj: Object) -> Object:
    """A copy with defaults filled in, nulls dropped: a typed server cannot tell them from absence."""
    copy: Object = _copied(obj)
    filler = FILLERS.get((str(copy.get("apiVersion", "")).partition("/")[0], str(copy.get("kind", ""))))
    if filler is not None:
        filler(copy)
    return copy


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(child) for key, child in value.items() if child is not None}
    return [_copied(child) for child in value] if isinstance(value, list) else value


# --- workloads ---


def _template(spec: Object) -> None:
    template = part(spec, "template")
    fill(template, metadata={})
    pod_spec(part(template, "spec"))


def _daemon_set(obj: Object) -> None:
    spec = part(obj, "spec")
    _template(spec)
    strategy = part(spec, "updateStrategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    fill(spec, revisionHistoryLimit=10)
    fill(
        part(obj, "status"),
        currentNumberScheduled=0,
        numberMisscheduled=0,
        desiredNumberScheduled=0,
        numberReady=0,
    )


def _deployment(obj: Object) -> None:
    spec = part(obj, "spec")
    _template(spec)
    strategy = part(spec, "strategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    fill(obj, status={})


def _replica_set(obj: Object) -> None:
    spec = part(obj, "spec")
    _template(spec)
    fill(spec, replicas=1)
    fill(part(obj, "status"), replicas=0)


def _stateful_set(obj: Object) -> None:
    spec = part(obj, "spec")
    _template(spec)
    fill(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady", serviceName="")
    strategy = part(spec, "updateStrategy")
    fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(part(strategy, "rollingUpdate"), partition=0)
    fill(spec, persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Retain"})
    fill(part(obj, "status"), replicas=0, availableReplicas=0)


def _job_spec(spec: Object) -> None:
    _template(spec)
    fill(
        spec,
        completionMode="NonIndexed",
        suspend=False,
        backoffLimit=6,
        podReplacementPolicy="TerminatingOrFailed",
        manualSelector=False,
    )
    if "completions" not in spec and "parallelism" not in spec:
        fill(spec, completions=1)
    fill(spec, parallelism=1)


def _job(obj: Object) -> None:
    _job_spec(part(obj, "spec"))
    fill(obj, status={})


def _cron_job(obj: Object) -> None:
    spec = part(obj, "spec")
    fill(
        spec,
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = part(spec, "jobTemplate")
    fill(template, metadata={})
    _template(part(template, "spec"))
    fill(obj, status={})


# --- the rest ---


def _service(obj: Object) -> None:
    spec = part(obj, "spec")
    fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        fill(spec, allocateLoadBalancerNodePorts=True)
    for port in each(spec, "ports"):
        fill(port, protocol="TCP")
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    fill(part(obj, "status"), loadBalancer={})


def _namespace(obj: Object) -> None:
    fill(part(obj, "status"), phase="Active")
    name = (obj.get("metadata") or {}).get("name")
    if name:
        labels = part(part(obj, "metadata"), "labels")
        labels["kubernetes.io/metadata.name"] = name


def _secret(obj: Object) -> None:
    fill(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = part(obj, "data")
        data.update({key: base64.b64encode(str(text).encode()).decode() for key, text in plain.items()})


def _node(obj: Object) -> None:
    fill(obj, spec={})
    status = part(obj, "status")
    if "capacity" in status:
        fill(status, allocatable=dict(status["capacity"]))
    for condition in each(status, "conditions"):
        fill(condition, lastHeartbeatTime=None, lastTransitionTime=None)
    fill(part(status, "daemonEndpoints"), kubeletEndpoint={"Port": 0})
    names = (
        "architecture bootID containerRuntimeVersion kernelVersion kubeProxyVersion kubeletVersion machineID "
        "operatingSystem osImage systemUUID"
    )
    fill(part(status, "nodeInfo"), **dict.fromkeys(names.split(), ""))


def _binding(obj: Object) -> None:
    group = "rbac.authorization.k8s.io"
    fill(part(obj, "roleRef"), apiGroup=group)
    for subject in each(obj, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            fill(subject, apiGroup=group)


def _role(obj: Object) -> None:
    fill(obj, rules=[])


def _persistent_volume_claim(obj: Object) -> None:
    fill(part(obj, "spec"), volumeMode="Filesystem")
    fill(part(obj, "status"), phase="Pending")


def _persistent_volume(obj: Object) -> None:
    fill(part(obj, "spec"), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    fill(part(obj, "status"), phase="Pending")


def _event(obj: Object) -> None:
    fill(obj, source={}, reportingComponent="", reportingInstance="", firstTimestamp=None, lastTimestamp=None)
    fill(obj, eventTime=None)


def _crd(obj: Object) -> None:
    spec = part(obj, "spec")
    names = part(spec, "names")
    kind = str(names.get("kind", ""))
    fill(names, singular=kind.lower())
    if kind:
        fill(names, listKind=f"{kind}List")
    fill(spec, conversion={"strategy": "None"})
    fill(part(obj, "status"), conditions=[], storedVersions=[], acceptedNames={"kind": "", "plural": ""})


def _priority_class(obj: Object) -> None:
    fill(obj, preemptionPolicy="PreemptLowerPriority", value=0)


def _storage_class(obj: Object) -> None:
    fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _budget(obj: Object) -> None:
    fill(obj, spec={})
    fill(part(obj, "status"), currentHealthy=0, desiredHealthy=0, disruptionsAllowed=0, expectedPods=0)


def _network_policy(obj: Object) -> None:
    spec = part(obj, "spec")
    for rule in [*each(spec, "ingress"), *each(spec, "egress")]:
        for port in each(rule, "ports"):
            fill(port, protocol="TCP")
    if "policyTypes" not in spec:
        spec["policyTypes"] = ["Ingress"] + (["Egress"] if "egress" in spec else [])


def _webhooks(obj: Object) -> None:
    for hook in each(obj, "webhooks"):
        fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", timeoutSeconds=10)
        fill(hook, namespaceSelector={}, objectSelector={})
        for rule in each(hook, "rules"):
            fill(rule, scope="*")
        service = (hook.get("clientConfig") or {}).get("service")
        if isinstance(service, dict):
            fill(service, port=443)
        if obj["kind"] == "MutatingWebhookConfiguration":
            fill(hook, reinvocationPolicy="Never")


def _admission_policy(obj: Object) -> None:
    spec = part(obj, "spec")
    fill(spec, failurePolicy="Fail")
    if isinstance(spec.get("matchConstraints"), dict):
        _match(spec["matchConstraints"])


def _admission_binding(obj: Object) -> None:
    resources = part(obj, "spec").get("matchResources")
    if isinstance(resources, dict):
        _match(resources)


def _match(resources: Object) -> None:
    fill(resources, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in each(resources, "resourceRules"):
        fill(rule, scope="*")


def _device_requests(spec: Object) -> None:
    for request in each(spec.get("devices") or {}, "requests"):
        if isinstance(request.get("exactly"), dict):
            _device_request(request["exactly"])
        for alternative in each(request, "firstAvailable"):
            _device_request(alternative)


def _device_request(request: Object) -> None:
    fill(request, allocationMode="ExactCount")
    if request["allocationMode"] == "ExactCount":
        fill(request, count=1)


def _resource_claim(obj: Object) -> None:
    _device_requests(part(obj, "spec"))
    fill(obj, status={})


def _resource_claim_template(obj: Object) -> None:
    spec = part(obj, "spec")
    fill(spec, metadata={})
    _device_requests(part(spec, "spec"))


FILLERS: Final[dict[tuple[str, str], Callable[[Object], None]]] = {
    ("v1", "Pod"): pod,
    ("v1", "PodTemplate"): lambda obj: pod_spec(part(part(obj, "template"), "spec")),
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
