"""Other forms of the same objects: tables, partial metadata, scale, reviews."""

from ..transcript import Scenario
from .words import (
    DAEMON_SETS,
    DEPLOYMENTS,
    MAPS,
    NODES,
    PODS,
    POLICIES,
    config_map,
    delete,
    deployment,
    get,
    patch,
    pod,
    policy,
    post,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "$NS", "labels": {"node-role.kubernetes.io/worker": ""}},
    "spec": {"unschedulable": True},
}

SCENARIOS = [
    Scenario(
        "tables of config maps and pods",
        [
            post(MAPS, config_map("a", {"k": "1"})),
            get(f"{MAPS}/a", TABLE),
            get(f"{MAPS}/a", TABLE, includeObject="None"),
            get(f"{MAPS}/a", TABLE, includeObject="Object"),
            post(PODS, pod("p")),
            get(PODS, TABLE),
            patch(
                "strategic",
                f"{PODS}/p/status",
                {
                    "status": {
                        "phase": "Running",
                        "podIP": "127.0.0.1",
                        "containerStatuses": [
                            {
                                "name": "main",
                                "image": "x",
                                "imageID": "",
                                "ready": False,
                                "restartCount": 3,
                                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                            }
                        ],
                    }
                },
            ),
            get(f"{PODS}/p", TABLE),
        ],
    ),
    Scenario(
        "tables of nodes, deployments, daemon sets and policies",
        [
            post(NODES, NODE),
            get(f"{NODES}/$NS", TABLE),
            delete(f"{NODES}/$NS"),
            post(DEPLOYMENTS, deployment("d", replicas=0)),
            get(f"{DEPLOYMENTS}/d", TABLE),
            delete(f"{DEPLOYMENTS}/d", propagationPolicy="Background"),
            post(DAEMON_SETS, {**deployment("d"), "kind": "DaemonSet"}),
            get(f"{DAEMON_SETS}/d", TABLE),
            delete(f"{DAEMON_SETS}/d", propagationPolicy="Background"),
            post(POLICIES, policy()),
            get(f"{POLICIES}/$NS", TABLE),
            delete(f"{POLICIES}/$NS"),
        ],
    ),
    Scenario(
        "metadata alone",
        [
            post(MAPS, config_map("a", {"k": "1"}, labels={"x": "y"})),
            get(f"{MAPS}/a", PARTIAL),
            get(MAPS, PARTIAL_LIST, labelSelector="x"),
            get(f"{MAPS}/a", "application/xml"),
            get(f"{MAPS}/a", "application/json;as=Nothing;v=v1;g=meta.k8s.io"),
        ],
    ),
    Scenario(
        "access reviews answer for the administrator",
        [
            post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SelfSubjectAccessReview",
                    "spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}},
                },
            ),
            post(
                "/api/v1/namespaces/$NS/serviceaccounts/none/token",
                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
            ),
            post(
                "/api/v1/namespaces/$NS/serviceaccounts/default/token",
                {
                    "apiVersion": "authentication.k8s.io/v1",
                    "kind": "TokenRequest",
                    "spec": {"expirationSeconds": 5},
                },
            ),
        ],
    ),
]
