from __future__ import annotations

from typing import Any

import pytest
from tests.unit.operands.original.recorded import policy_of, view_of

from gpuready.controller.policy.active import read
from gpuready.controller.policy.plan import Plan, plan_of
from gpuready.controller.policy.references import Reference, references_of
from gpuready.operands.contract import ClusterView

NOTHING: dict[str, set[str]] = {"ConfigMap": set(), "Secret": set(), "PriorityClass": set()}


def planned(
    existing: dict[str, set[str]], configs: dict[str, dict[str, str]] | None = None, **spec: Any
) -> Plan:
    raw = policy_of("P01")
    for block, fields in spec.items():
        raw["spec"][block] = {**raw["spec"].get(block, {}), **fields}
    active = read(raw)
    assert active.policy is not None
    seen = view_of("P01")
    view = ClusterView(
        seen.namespace, seen.own_image, seen.gpu_nodes, existing=existing, configs=configs or {}
    )
    return plan_of(active, active.policy, view)


def refused(plan: Plan) -> dict[str, str]:
    return {each.operand.name: each.refusal.message for each in plan.operands if each.refusal}


def test_what_a_plan_makes_itself_and_what_every_cluster_has_is_not_missing() -> None:
    plan = planned(NOTHING)

    assert refused(plan) == {}
    assert "system-node-critical" not in plan.referred_to


def test_to_name_the_originals_default_is_to_ask_for_it() -> None:
    """Policies that the original's older charts wrote name it; the original makes it all the same."""
    names = {
        "config": {"name": "default-mig-parted-config"},
        "gpuClientsConfig": {"name": "default-gpu-clients"},
    }

    plan = planned(NOTHING, migManager=names)

    assert refused(plan) == {}
    made = {obj["metadata"]["name"]: obj for obj in plan.objects if obj["kind"] == "ConfigMap"}
    assert "mig-configs" in made["default-mig-parted-config"]["data"]["config.yaml"]
    assert "systemd-services" in made["default-gpu-clients"]["data"]["clients.yaml"]
    (manager,) = [
        obj
        for obj in plan.objects
        if (obj["kind"], obj["metadata"]["name"]) == ("DaemonSet", "nvidia-mig-manager")
    ]
    read_there = {each.name for each in references_of(manager)}
    assert {"default-mig-parted-config", "default-gpu-clients"} <= read_there


def test_only_fields_that_name_an_object_of_this_kind_are_blamed_and_always_in_the_same_order() -> None:
    blocks = {
        "gfd": {"imagePullSecrets": ["absent"]},
        "devicePlugin": {"imagePullSecrets": ["absent"], "env": [{"name": "A", "value": "absent"}]},
        "daemonsets": {"priorityClassName": "absent", "labels": {"team": "absent"}},
        "driver": {"kernelModuleConfig": {"name": "absent"}},
    }
    told = refused(planned(NOTHING, **blocks))

    assert told == refused(planned(NOTHING, **dict(reversed(blocks.items()))))
    assert "ConfigMap gpu-operator/absent, which spec.driver.kernelModuleConfig.name names" in told["driver"]
    assert "PriorityClass absent, which spec.daemonsets.priorityClassName names" in told["toolkit"]
    fields = "spec.devicePlugin.imagePullSecrets, spec.gfd.imagePullSecrets"
    assert f"Secret gpu-operator/absent, which {fields} names" in told["gpu-feature-discovery"]


@pytest.mark.parametrize(
    ("field", "value", "operand", "kind"),
    [
        ("devicePlugin.config", {"name": "absent"}, "device-plugin", "ConfigMap"),
        ("migManager.config", {"name": "absent"}, "mig-manager", "ConfigMap"),
        ("migManager.gpuClientsConfig", {"name": "absent"}, "mig-manager", "ConfigMap"),
        ("dcgmExporter.config", {"name": "absent"}, "dcgm-exporter", "ConfigMap"),
        ("driver.repoConfig", {"configMapName": "absent"}, "driver", "ConfigMap"),
        ("driver.certConfig", {"name": "absent"}, "driver", "ConfigMap"),
        ("driver.kernelModuleConfig", {"name": "absent"}, "driver", "ConfigMap"),
        ("driver.virtualTopology", {"config": "absent"}, "driver", "ConfigMap"),
        ("driver.licensingConfig", {"configMapName": "absent"}, "driver", "ConfigMap"),
        ("driver.licensingConfig", {"secretName": "absent"}, "driver", "Secret"),
        ("driver.secretEnv", "absent", "driver", "Secret"),
        ("gfd.imagePullSecrets", ["absent"], "gpu-feature-discovery", "Secret"),
    ],
)
def test_each_field_that_names_something_is_told_when_that_is_missing(
    field: str, value: Any, operand: str, kind: str
) -> None:
    block, _, name = field.partition(".")

    found = refused(planned(NOTHING, **{block: {name: value}}))

    assert operand in found
    assert "toolkit" not in found, "who does not use it is not held back"
    assert f"there is no {kind} gpu-operator/absent, which spec.{field}" in found[operand]


@pytest.mark.parametrize(
    ("field", "value", "operand", "key"),
    [
        ("dcgmExporter.config", {"name": "there"}, "dcgm-exporter", "dcgm-metrics.csv"),
        ("migManager.config", {"name": "there"}, "mig-manager", "config.yaml"),
        ("migManager.gpuClientsConfig", {"name": "there"}, "mig-manager", "clients.yaml"),
        ("driver.virtualTopology", {"config": "there"}, "driver", "nvidia-topologyd.conf"),
        ("driver.licensingConfig", {"configMapName": "there"}, "driver", "gridd.conf"),
        ("devicePlugin.config", {"name": "there", "default": "eight"}, "device-plugin", "eight"),
    ],
)
def test_a_config_map_without_the_key_that_is_read_holds_its_reader_back(
    field: str, value: Any, operand: str, key: str
) -> None:
    block, _, name = field.partition(".")
    existing = {**NOTHING, "ConfigMap": {"there"}}

    found = refused(planned(existing, {"there": {"other": "text"}}, **{block: {name: value}}))

    assert f"the ConfigMap gpu-operator/there, which spec.{field}" in found[operand]
    assert f"has no key {key}" in found[operand]
    assert refused(planned(existing, {"there": {key: "text"}}, **{block: {name: value}})) == {}


def test_of_a_secrets_keys_nothing_is_known() -> None:
    existing = {**NOTHING, "Secret": {"there"}, "ConfigMap": {"there"}}
    driver = {"licensingConfig": {"secretName": "there", "nlsEnabled": True}}

    assert refused(planned(existing, {"there": {"other": "text"}}, driver=driver)) == {}


def test_a_priority_class_is_everybodys_and_the_node_agent_keeps_its_account() -> None:
    plan = planned(NOTHING, daemonsets={"priorityClassName": "absent"})

    assert plan.refused >= {"driver", "toolkit", "device-plugin", "mig-manager"}, "none of them is pruned"
    assert "runtime-classes" not in plan.refused
    assert plan.agent_refusal is not None
    assert {obj["kind"] for obj in plan.agent} == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding"}


def test_once_it_is_there_nothing_is_held_back() -> None:
    there = {**NOTHING, "PriorityClass": {"absent"}}

    assert refused(planned(there, daemonsets={"priorityClassName": "absent"})) == {}


def test_of_a_kind_that_may_not_be_seen_nothing_is_said_to_be_missing() -> None:
    unseen = {kind: names for kind, names in NOTHING.items() if kind != "Secret"}

    assert refused(planned(unseen, driver={"secretEnv": "absent"})) == {}


def test_a_changed_mig_configuration_renews_the_mig_managers_pods_and_never_the_drivers() -> None:
    def pods(text: str) -> dict[str, Any]:
        plan = planned(
            {},
            {"mine": {"config.yaml": text}},
            migManager={"config": {"name": "mine", "default": "all-disabled"}},
            driver={"kernelModuleConfig": {"name": "mine"}},
        )
        return {
            obj["metadata"]["name"]: obj["spec"]["template"]
            for obj in plan.objects
            if obj["kind"] == "DaemonSet"
        }

    before, after = pods("a"), pods("b")

    assert {name for name in before if before[name] != after[name]} == {"nvidia-mig-manager"}


def test_optional_sources_are_no_references() -> None:
    pod = {
        "containers": [
            {
                "envFrom": [{"secretRef": {"name": "a"}}, {"configMapRef": {"name": "b", "optional": True}}],
                "env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}}],
            }
        ],
        "volumes": [{"projected": {"sources": [{"configMap": {"name": "d"}}, {"secret": {"name": "e"}}]}}],
    }

    found = references_of({"spec": {"template": {"spec": pod}}})

    secrets = {Reference("Secret", name) for name in "ace"}
    assert found == {*secrets, Reference("Secret", "c", "k"), Reference("ConfigMap", "d")}


@pytest.mark.parametrize(
    ("field", "value", "operand", "says"),
    [
        (
            "gfd.imagePullSecrets",
            ["A B"],
            "gpu-feature-discovery",
            'spec.gfd.imagePullSecrets: "A B" is not a',
        ),
        ("driver.certConfig", {"name": "x" * 300_000}, "driver", "spec.driver.certConfig.name: "),
        ("dcgmExporter.config", {"name": "a\x1b[31m\n"}, "dcgm-exporter", "\\u001b"),
    ],
)
def test_a_name_that_no_object_can_have_is_told_with_its_field_and_nobody_is_sent_to_make_it(
    field: str, value: Any, operand: str, says: str
) -> None:
    block, _, name = field.partition(".")

    plan = planned(NOTHING, **{block: {name: value}})

    (found,) = [each.refusal for each in plan.operands if each.operand.name == operand]
    assert found is not None
    assert says in found.message
    assert "a name that an object can have" in found.message
    assert "there is no" not in found.message
    assert len(found.message) < 500
    assert found.next_step == "correct this field of the policy"
