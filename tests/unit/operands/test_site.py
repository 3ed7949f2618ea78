"""One knob each for registry, pull secrets and CA: they reach every container of every pod of ours."""

from __future__ import annotations

from typing import Any

from gpuready.api.policy import parse_policy
from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import plan_of
from gpuready.operands.contract import ClusterView, KubeObject, NodeFacts
from gpuready.operands.site import CA_DIR, fitted, mirrored

NODE = NodeFacts(
    "gpu-a",
    {
        "nvidia.com/gpu.deploy.driver": "true",
        "feature.node.kubernetes.io/system-os_release.ID": "ubuntu",
        "feature.node.kubernetes.io/system-os_release.VERSION_ID": "22.04",
    },
)
VIEW = ClusterView("gpu-operator", "mirror.example.com/gpu/gpuready:0.1.0", (NODE,))


def policy(**site: Any) -> dict[str, Any]:
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "uid": "u"},
        "spec": {"gpuready": site},
    }


def pods_of(**site: Any) -> dict[str, KubeObject]:
    """DaemonSet name -> its pod's spec."""
    active = read(policy(**site))
    assert active.policy is not None
    objects = plan_of(active, active.policy, VIEW).objects
    return {o["metadata"]["name"]: o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet"}


def containers_of(pod: KubeObject) -> list[KubeObject]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def daemonset(**pod: Any) -> KubeObject:
    return {"kind": "DaemonSet", "metadata": {"name": "x"}, "spec": {"template": {"spec": pod}}}


def test_with_a_registry_no_image_comes_from_anywhere_else() -> None:
    pods = pods_of(registry="mirror.example.com/gpu")
    images = {c["image"] for pod in pods.values() for c in containers_of(pod)}
    assert len(pods) >= 3
    assert {image for image in images if not image.startswith("mirror.example.com/gpu/")} == set()


def test_the_mirror_keeps_the_path_and_leaves_images_of_other_registries_alone() -> None:
    assert (
        mirrored("nvcr.io/nvidia/driver:570", "m.example.com/gpu/") == "m.example.com/gpu/nvidia/driver:570"
    )
    assert mirrored("registry.example.com/driver:570", "m.example.com") == "registry.example.com/driver:570"
    assert mirrored("nvcr.io/nvidia/driver:570", "") == "nvcr.io/nvidia/driver:570"


def test_every_pod_gets_the_pull_secrets_once_beside_its_own() -> None:
    for pod in pods_of(imagePullSecrets=["site", "second"]).values():
        assert pod["imagePullSecrets"] == [{"name": "site"}, {"name": "second"}]
    own = daemonset(
        containers=[{"name": "c", "image": "i"}], imagePullSecrets=[{"name": "own"}, {"name": "site"}]
    )
    pod = fitted(own, parse_policy(policy(imagePullSecrets=["site", "second"])))["spec"]["template"]["spec"]
    assert [secret["name"] for secret in pod["imagePullSecrets"]] == ["own", "site", "second"]


def test_a_pull_secret_without_a_name_is_none() -> None:
    bare = policy(imagePullSecrets=["", "site"])
    bare["spec"] |= {
        "toolkit": {"imagePullSecrets": [""]},
        "validator": {"image": "v", "imagePullSecrets": [""]},
    }
    active = read(bare)
    assert active.policy is not None
    objects = plan_of(active, active.policy, VIEW).objects
    pods = [o["spec"]["template"]["spec"] for o in objects if o["kind"] == "DaemonSet"]
    assert {tuple(each["name"] for each in pod["imagePullSecrets"]) for pod in pods} == {("site",)}
    handed_on = [
        row["value"]
        for pod in pods
        for each in containers_of(pod)
        for row in each.get("env", ())
        if row["name"] == "VALIDATOR_IMAGE_PULL_SECRETS"
    ]
    assert set(handed_on) == {"site"}


def test_every_container_and_init_container_trusts_the_sites_ca() -> None:
    init = {"name": "wait", "image": "i", "env": [{"name": "SSL_CERT_FILE", "value": "/own.pem"}]}
    own = daemonset(initContainers=[init], containers=[{"name": "c", "image": "i"}])
    pod = fitted(own, parse_policy(policy(certConfig={"name": "site-ca"})))["spec"]["template"]["spec"]
    assert {"name": "gpuready-ca", "configMap": {"name": "site-ca"}} in pod["volumes"]
    for container in containers_of(pod):
        assert {"name": "gpuready-ca", "mountPath": CA_DIR, "readOnly": True} in container["volumeMounts"]
    main = {v["name"]: v["value"] for v in pod["containers"][0]["env"]}
    assert main["SSL_CERT_FILE"] == f"{CA_DIR}/ca-bundle.crt"
    assert pod["initContainers"][0]["env"][0]["value"] == "/own.pem", "what an operand sets itself stays"


def test_the_pods_that_a_validator_makes_are_reached_through_its_environment() -> None:
    env = [{"name": "VALIDATOR_IMAGE", "value": "nvcr.io/nvidia/gpu-operator:v1"}]
    own = daemonset(containers=[{"name": "c", "image": "nvcr.io/nvidia/gpu-operator:v1", "env": env}])
    site = policy(registry="m.example.com", imagePullSecrets=["site"])
    pod = fitted(own, parse_policy(site))["spec"]["template"]["spec"]
    told = {v["name"]: v["value"] for v in pod["containers"][0]["env"]}
    assert told["VALIDATOR_IMAGE"] == "m.example.com/nvidia/gpu-operator:v1"
    assert told["VALIDATOR_IMAGE_PULL_SECRETS"] == "site"


def test_a_variable_that_is_taken_from_elsewhere_stays_as_it_is() -> None:
    taken = {"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
    env = [{"name": "X_IMAGE", **taken}, {"name": "VALIDATOR_IMAGE_PULL_SECRETS", **taken}]
    own = daemonset(containers=[{"name": "c", "image": "i", "env": env}])
    site = policy(registry="m.example.com", imagePullSecrets=["site"])
    pod = fitted(own, parse_policy(site))["spec"]["template"]["spec"]
    assert pod["containers"][0]["env"] == env


def test_a_policy_that_says_nothing_of_the_site_changes_no_object() -> None:
    own = daemonset(containers=[{"name": "c", "image": "nvcr.io/nvidia/driver:570"}])
    assert fitted(own, parse_policy(policy())) is own
