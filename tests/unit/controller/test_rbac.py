"""What the operator may do, and that it is enough to grant what it grants."""

from __future__ import annotations

from typing import Any

import yaml
from click.testing import CliRunner

from gpuready.commands import gpuready
from gpuready.controller.rbac import operator_objects
from gpuready.operands.node_agent import manifest as node_agent

Object = dict[str, Any]


def granted(rules: list[Object]) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def rules_of(kind: str) -> list[Object]:
    found: list[Object] = next(obj["rules"] for obj in operator_objects("gpu") if obj["kind"] == kind)
    return found


def test_the_operator_may_itself_what_it_grants_to_the_node_agent() -> None:
    assert granted(node_agent.RULES) <= granted(rules_of("ClusterRole"))


def test_nothing_is_granted_by_a_star_and_secrets_are_only_looked_for_where_the_operands_are() -> None:
    everything = granted(rules_of("ClusterRole")) | granted(rules_of("Role"))
    assert not [one for one in everything if "*" in one]
    assert not [one for one in granted(rules_of("ClusterRole")) if one[1] == "secrets"]
    assert {one[2] for one in everything if one[1] == "secrets"} == {"list", "watch"}


def test_what_operands_are_made_of_is_written_in_its_own_namespace_only() -> None:
    assert ("apps", "daemonsets", "create") in granted(rules_of("Role"))
    assert ("apps", "daemonsets", "create") not in granted(rules_of("ClusterRole"))
    places = {obj["metadata"].get("namespace") for obj in operator_objects("gpu") if obj["kind"] == "Role"}
    assert places == {"gpu"}


def test_the_lease_of_the_leader_can_be_had_in_its_own_namespace_and_nowhere_else() -> None:
    of_leases = {
        ("coordination.k8s.io", "leases", verb) for verb in ("get", "list", "watch", "create", "update")
    }
    assert of_leases <= granted(rules_of("Role"))
    assert not of_leases & granted(rules_of("ClusterRole"))


def test_the_command_prints_them_for_kubectl() -> None:
    printed = CliRunner().invoke(gpuready, ["rbac", "--namespace", "gpu"], standalone_mode=False)
    assert list(yaml.load_all(printed.output, Loader=yaml.CSafeLoader)) == operator_objects("gpu")
