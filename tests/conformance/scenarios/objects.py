"""Create, read, replace, delete."""

from ..transcript import Scenario
from .words import (
    DAEMON_SETS,
    DEPLOYMENTS,
    LEASES,
    MAPS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
    config_map,
    delete,
    deployment,
    get,
    pod,
    post,
    put,
)

SCENARIOS = [
    Scenario(
        "a config map is created, read, replaced and deleted",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            get(f"{MAPS}/a"),
            put(f"{MAPS}/a", config_map("a", {"k": "2"})),
            put(f"{MAPS}/a", config_map("a", {"k": "2"})),
            delete(f"{MAPS}/a"),
            get(f"{MAPS}/a"),
            delete(f"{MAPS}/a"),
        ],
    ),
    Scenario(
        "a replace with an old version is a conflict and one without a version is not",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            put(f"{MAPS}/a", config_map("a", {"k": "2"}, resourceVersion="$RV0")),
            put(f"{MAPS}/a", config_map("a", {"k": "3"}, resourceVersion="$RV0")),
            put(f"{MAPS}/a", config_map("a", {"k": "4"})),
            put(f"{MAPS}/a", config_map("a", {"k": "5"}, uid="00000000-0000-0000-0000-000000000000")),
            put(f"{MAPS}/a", config_map("b", {"k": "5"})),
            put(f"{MAPS}/none", config_map("none", {"k": "5"})),
            put(f"{MAPS}/none", config_map("none", {"k": "5"}, resourceVersion="1")),
        ],
    ),
    Scenario(
        "the generation counts changes of the spec only",
        [
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            put(f"{DEPLOYMENTS}/d", deployment("d", replicas=0)),
            put(
                f"{DEPLOYMENTS}/d",
                {**deployment("d", replicas=0), "metadata": {"name": "d", "labels": {"a": "b"}}},
            ),
            put(f"{DEPLOYMENTS}/d", deployment("d", replicas=1)),
            put(
                f"{DEPLOYMENTS}/d/status",
                {**deployment("d", replicas=7), "status": {"observedGeneration": 2, "replicas": 1}},
            ),
            get(f"{DEPLOYMENTS}/d/status"),
            delete(f"{DEPLOYMENTS}/d", propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "metadata that the server owns is not taken from a create",
        [
            post(
                MAPS,
                config_map(
                    "a",
                    uid="11111111-1111-1111-1111-111111111111",
                    creationTimestamp="2001-01-01T00:00:00Z",
                    generation=9,
                    selfLink="/x",
                    deletionTimestamp="2001-01-01T00:00:00Z",
                    deletionGracePeriodSeconds=5,
                ),
            ),
            post(MAPS, config_map("b", resourceVersion="5")),
            post(MAPS, config_map("c", namespace="elsewhere")),
        ],
    ),
    Scenario(
        "a dry run answers as the real thing and leaves nothing",
        [
            post(MAPS, config_map("a", {"k": "1"}), dryRun="All"),
            get(f"{MAPS}/a"),
            post(MAPS, config_map("a", {"k": "1"})),
            put(f"{MAPS}/a", config_map("a", {"k": "2"}), dryRun="All"),
            delete(f"{MAPS}/a", dryRun="All"),
            get(f"{MAPS}/a"),
            post(MAPS, config_map("b"), dryRun="Some"),
        ],
    ),
    Scenario("a pod gets its defaults", [post(PODS, pod("p")), get(f"{PODS}/p/status")]),
    Scenario(
        "a pod with everything an operand uses gets its defaults",
        [
            post(
                PODS,
                pod(
                    "p",
                    {
                        "name": "main",
                        "image": "example.com/gpu/cuda:12.4",
                        "ports": [{"containerPort": 80, "name": "http"}],
                        "env": [
                            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                            {"name": "CM", "valueFrom": {"configMapKeyRef": {"name": "a", "key": "k"}}},
                        ],
                        "livenessProbe": {"httpGet": {"port": "http"}},
                        "startupProbe": {"exec": {"command": ["true"]}},
                        "readinessProbe": {"tcpSocket": {"port": 80}},
                        "resources": {"limits": {"nvidia.com/gpu": 1, "memory": "1.5Gi"}},
                        "securityContext": {"privileged": True},
                        "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
                    },
                    initContainers=[{"name": "wait", "image": "cuda@sha256:" + "0" * 64}],
                    volumes=[
                        {"name": "host", "hostPath": {"path": "/dev"}},
                        {"name": "cm", "configMap": {"name": "a"}},
                        {"name": "secret", "secret": {"secretName": "s"}},
                        {"name": "empty", "emptyDir": {}},
                    ],
                    hostNetwork=True,
                    priorityClassName="system-node-critical",
                    tolerations=[{"operator": "Exists"}],
                ),
            )
        ],
    ),
    Scenario(
        "a daemon set gets its defaults",
        [
            post(DAEMON_SETS, {**deployment("d"), "kind": "DaemonSet"}),
            delete(f"{DAEMON_SETS}/d", propagationPolicy="Background"),
        ],
    ),
    Scenario(
        "a service gets its defaults",
        [
            post(
                SERVICES,
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": "s"},
                    "spec": {"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]},
                },
            )
        ],
    ),
    Scenario(
        "a secret keeps bytes and takes text",
        [
            post(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "s"},
                    "data": {"a": "eA=="},
                    "stringData": {"b": "text"},
                },
            ),
            post(
                SECRETS,
                {
                    "apiVersion": "v1",
                    "kind": "Secret",
                    "metadata": {"name": "t"},
                    "data": {"a": "no base64!"},
                },
            ),
        ],
    ),
    Scenario(
        "a config map or secret that is immutable stays as it is",
        [
            post(MAPS, {**config_map("a", {"k": "1"}), "immutable": True}),
            put(f"{MAPS}/a", {**config_map("a", {"k": "2"}), "immutable": True}),
            put(f"{MAPS}/a", config_map("a", {"k": "1"})),
        ],
    ),
    Scenario(
        "a lease is written and renewed",
        [
            post(
                LEASES,
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "l"},
                    "spec": {
                        "holderIdentity": "me",
                        "leaseDurationSeconds": 15,
                        "renewTime": "2026-01-01T00:00:00.000001Z",
                    },
                },
            ),
            put(
                f"{LEASES}/l",
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "l", "resourceVersion": "$RV0"},
                    "spec": {"holderIdentity": "you", "leaseDurationSeconds": 0},
                },
            ),
        ],
    ),
    Scenario(
        "a node is registered, labelled, and tells its status by the subresource",
        [
            post(
                NODES,
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS", "labels": {"a": "b"}},
                    "spec": {"unschedulable": True},
                    "status": {"capacity": {"cpu": "4"}},
                },
            ),
            put(
                f"{NODES}/$NS/status",
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "metadata": {"name": "$NS", "labels": {"a": "c"}},
                    "status": {"capacity": {"cpu": "4", "nvidia.com/gpu": "8"}, "phase": "Running"},
                },
            ),
            delete(f"{NODES}/$NS"),
        ],
    ),
]
