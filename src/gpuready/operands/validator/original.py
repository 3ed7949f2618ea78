"""(policy, view) -> the objects of NVIDIA's validator: one init container for each link it proves. Pure.

Source: gpu-operator v26.3.3, assets/state-operator-validation; object_controls.go TransformValidator.
"""

from __future__ import annotations

from gpuready.api.blocks import EnvVar
from gpuready.api.clusterpolicy import ClusterPolicy
from gpuready.operands.contract import Access, ClusterView, KubeObject
from gpuready.operands.original import gpu_access
from gpuready.operands.original.access import READ, READ_NODES, USE_PRIVILEGED, account, rule
from gpuready.operands.original.containers import (
    AS_ROOT,
    NAMESPACE,
    NODE_NAME,
    Env,
    container,
    driver_install_dir,
    host_dev_char,
    host_root,
    user_env,
)
from gpuready.operands.original.pods import Pod, daemonset
from gpuready.operands.original.scripts import ALL_PASSED, VALIDATIONS
from gpuready.operands.original.validation import (
    WRITE_GATES,
    driver_validation,
    validations_volume,
    validator_image,
)

NAME = "nvidia-operator-validator"
_ALL = ("create", *READ, "update", "patch", "delete")
ACCESS = Access(
    in_namespace=(
        USE_PRIVILEGED,
        rule("", ["pods"], _ALL),
        rule("apps", ["daemonsets"], READ),
    ),
    in_cluster=(
        READ_NODES,
        # Its workload pods are owned by the policy, and who sets such an owner must be allowed this.
        rule("nvidia.com", ["clusterpolicies/finalizers", "nvidiadrivers/finalizers"], _ALL),
    ),
)


def objects(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    return [*account(NAME, ACCESS, view), _daemonset(policy, view)]


def _daemonset(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    validator = policy.spec.validator
    pod = Pod(
        name=NAME,
        operand="operator-validator",
        account=NAME,
        labels={"app.kubernetes.io/part-of": "gpu-operator"},
        node_selector={"nvidia.com/gpu.deploy.operator-validator": "true"},
        gpus_for="toolkit-validation",
        host_network=validator.host_network,
        images=[validator],
        init_containers=_validations(policy, view),
        containers=[_keeper_of_the_gates(policy, view)],
        volumes=[
            validations_volume(),
            driver_install_dir(policy, kind=""),
            host_root(policy),
            host_dev_char(policy),
        ],
    )
    return daemonset(pod, policy, view)


def _validations(policy: ClusterPolicy, view: ClusterView) -> list[KubeObject]:
    """In the order of the chain; without a device plugin there is none to prove."""
    validator = policy.spec.validator
    containers = [
        _with_host_first(driver_validation(policy, view)),
        _validation(policy, view, "toolkit", {"NVIDIA_VISIBLE_DEVICES": "all"}, validator.toolkit.env),
        _validation(policy, view, "cuda", _workload_env(policy, view), validator.cuda.env),
    ]
    if policy.spec.device_plugin.enabled:
        env = {"WITH_WORKLOAD": "false", **_strategy(policy), **_workload_env(policy, view)}
        containers.append(_validation(policy, view, "plugin", env, validator.plugin.env))
    return containers


def _with_host_first(validation: KubeObject) -> KubeObject:
    """The same mounts as in the toolkit's pod, listed as the original lists them here."""
    order = ("host-root", "driver-install-dir", "run-nvidia-validations", "host-dev-char")
    mounts = sorted(validation["volumeMounts"], key=lambda each: order.index(each["name"]))
    return {**validation, "volumeMounts": mounts}


def _validation(
    policy: ClusterPolicy, view: ClusterView, component: str, env: Env, user: list[EnvVar]
) -> KubeObject:
    return container(
        f"{component}-validation",
        validator_image(policy, view),
        command=["sh", "-c"],
        args=["nvidia-validator"],
        env={"WITH_WAIT": "false", "COMPONENT": component, **env, **user_env(user)},
        securityContext=AS_ROOT,
        mounts=[WRITE_GATES],
    )


def _strategy(policy: ClusterPolicy) -> dict[str, str]:
    return {"MIG_STRATEGY": policy.spec.mig.strategy}


def _workload_env(policy: ClusterPolicy, view: ClusterView) -> Env:
    """What the validator needs to make its workload pod."""
    image = validator_image(policy, view)
    env: dict[str, str | KubeObject] = {
        "NODE_NAME": NODE_NAME,
        "OPERATOR_NAMESPACE": NAMESPACE,
        "VALIDATOR_IMAGE": image.reference,
        "VALIDATOR_IMAGE_PULL_POLICY": image.pull_policy,
    }
    if secrets := list(filter(None, policy.spec.validator.image_pull_secrets)):
        env["VALIDATOR_IMAGE_PULL_SECRETS"] = ",".join(secrets)
    if name := gpu_access.runtime_class(policy, view):
        env["VALIDATOR_RUNTIME_CLASS"] = name
    return env


def _keeper_of_the_gates(policy: ClusterPolicy, view: ClusterView) -> KubeObject:
    """Sleeps while all is proved; when it goes, so do the gates."""
    validator = policy.spec.validator
    return container(
        NAME,
        validator_image(policy, view),
        command=["sh", "-c"],
        args=validator.args or [ALL_PASSED],
        env=user_env(validator.env),
        resources=validator.resources,
        securityContext=AS_ROOT,
        lifecycle={"preStop": {"exec": {"command": ["sh", "-c", f"rm -f {VALIDATIONS}/*-ready"]}}},
        mounts=[WRITE_GATES],
    )
