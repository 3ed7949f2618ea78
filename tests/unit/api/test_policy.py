from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.api.policies import policy, tutorial

from gpuready.api.policy import find_problems, find_unknown_fields, parse_policy, without_effect
from gpuready.errors import PolicyError


def test_the_policy_of_the_tutorials_works_with_only_versions() -> None:
    assert find_problems(tutorial()) == []

    spec = parse_policy(tutorial()).spec
    assert (spec.driver.enabled, spec.driver.version) == (True, "570.86.10")
    assert (spec.device_plugin.config.name, spec.device_plugin.config.default) == (
        "time-slicing-config",
        "any",
    )
    assert spec.dcgm_exporter.service_monitor.interval == "15s"
    assert spec.mig_manager.config.default == "all-disabled"
    assert spec.daemonsets.update_strategy == "RollingUpdate"
    assert find_unknown_fields(tutorial()) == ["spec.nfd"]


def test_an_empty_policy_means_the_originals_defaults() -> None:
    spec = parse_policy({"metadata": {"name": "p"}}).spec

    on = ("driver", "toolkit", "device_plugin", "dcgm", "dcgm_exporter", "gfd", "mig_manager")
    off = ("node_status_exporter", "gds", "gdrcopy", "vgpu_manager", "kata_manager")
    assert all(getattr(spec, name).enabled for name in on)
    assert not any(getattr(spec, name).enabled for name in off)
    assert spec.operator.runtime_class == "nvidia"
    assert spec.cdi.enabled
    assert spec.driver.kernel_module_type == "auto"
    assert spec.gpuready.images == "asNamed"


def test_a_policy_that_the_original_stored_is_read_whatever_its_status_says() -> None:
    stored = tutorial() | {"status": {"state": "ready", "namespace": "gpu-operator", "extra": {"a": 1}}}
    stored["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [], "generation": 4}

    found = parse_policy(stored)

    assert (found.name, found.metadata.generation, found.status.state) == ("cluster-policy", 4, "ready")


def test_nulls_mean_absent() -> None:
    assert parse_policy(policy(driver=None, toolkit={"enabled": None})).spec.toolkit.enabled


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        pytest.param(
            {"mig": {"strategy": "both"}},
            "spec.mig.strategy",
            'spec.mig.strategy: "both" is not one of none, single, mixed',
            id="an unknown strategy",
        ),
        pytest.param(
            {"driver": {"enabled": "yes"}},
            "spec.driver.enabled",
            'spec.driver.enabled: "yes" is not true or false',
            id="a text for a switch",
        ),
        pytest.param(
            {"devicePlugin": {"env": [{"value": "x"}]}},
            "spec.devicePlugin.env[0].name",
            "spec.devicePlugin.env[0].name: is required",
            id="a variable without a name",
        ),
        pytest.param(
            {"devicePlugin": {"env": [{"name": "A", "value": 1}]}},
            "spec.devicePlugin.env[0].value",
            "spec.devicePlugin.env[0].value: 1 is not a string",
            id="a number for a text",
        ),
        pytest.param({"driver": []}, "spec.driver", "spec.driver: [] is not a map", id="a list for a block"),
        pytest.param(
            {"driver": {"startupProbe": {"periodSeconds": 0}}},
            "spec.driver.startupProbe.periodSeconds",
            "spec.driver.startupProbe.periodSeconds: 0 is not 1 or more",
            id="a period of nothing",
        ),
        pytest.param(
            {"migManager": {"config": {"default": "all-1g.5gb"}}},
            "spec.migManager.config.default",
            'spec.migManager.config.default: "all-1g.5gb" is not one of all-disabled, ""',
            id="a default that the original forbids",
        ),
        pytest.param(
            {"dcgmExporter": {"resources": {"limits": {"cpu": 0.5}}}},
            "spec.dcgmExporter.resources.limits.cpu",
            "spec.dcgmExporter.resources.limits.cpu: 0.5 is not a whole number or a string",
            id="a fraction for a quantity",
        ),
        pytest.param(
            {"cdi": {"enabled": False, "nriPluginEnabled": True}},
            "spec.cdi.nriPluginEnabled",
            "spec.cdi.nriPluginEnabled: must be false while spec.cdi.enabled is false",
            id="NRI without CDI",
        ),
        pytest.param(
            {"cdi": {"nriPluginEnabled": True}, "toolkit": {"enabled": False}},
            "spec.cdi.nriPluginEnabled",
            "spec.cdi.nriPluginEnabled: must be false while spec.toolkit.enabled is false",
            id="NRI without toolkit",
        ),
        pytest.param(
            {"driver": {"usePrecompiled": True}, "gds": {"enabled": True}},
            "spec.gds.enabled",
            "spec.gds.enabled: must be false while spec.driver.usePrecompiled is true",
            id="GDS with precompiled drivers",
        ),
        pytest.param(
            {"driver": {"usePrecompiled": True}, "gdrcopy": {"enabled": True}},
            "spec.gdrcopy.enabled",
            "spec.gdrcopy.enabled: must be false while spec.driver.usePrecompiled is true",
            id="GDRCopy with precompiled drivers",
        ),
        pytest.param(
            {"driver": {"upgradePolicy": {"maxUnavailable": "some"}}},
            "spec.driver.upgradePolicy.maxUnavailable",
            'spec.driver.upgradePolicy.maxUnavailable: "some" is not a number or a percentage such as "25%"',
            id="an amount that is none",
        ),
        pytest.param(
            {"hostPaths": {"driverInstallDir": "run/driver"}},
            "spec.hostPaths.driverInstallDir",
            'spec.hostPaths.driverInstallDir: "run/driver" is not an absolute path without ".."',
            id="a relative path",
        ),
        pytest.param(
            {"gpuready": {"images": "mine"}},
            "spec.gpuready.images",
            'spec.gpuready.images: "mine" is not one of asNamed, own',
            id="our own block",
        ),
    ],
)
def test_a_problem_names_path_value_and_what_is_allowed(
    spec: dict[str, Any], path: str, message: str
) -> None:
    found = find_problems(policy(**spec))

    assert [(each.path, each.message) for each in found] == [(path, message)]


def test_all_violations_are_listed_not_only_the_first() -> None:
    bad = policy(mig={"strategy": "both"}, driver={"enabled": 1, "version": 570})

    assert [each.path for each in find_problems(bad)] == [
        "spec.mig.strategy", "spec.driver.enabled", "spec.driver.version",
    ]  # fmt: skip
    with pytest.raises(PolicyError, match=r"spec\.mig\.strategy.*spec\.driver\.version"):
        parse_policy(bad)


@pytest.mark.parametrize("amount", ["1", "25%", ""])
def test_amounts_are_numbers_or_percentages(amount: str) -> None:
    assert find_problems(policy(daemonsets={"rollingUpdate": {"maxUnavailable": amount}})) == []


def test_misspelt_fields_are_found_although_the_api_server_would_drop_them() -> None:
    misspelt = policy(
        devicePlugn={}, driver={"versoin": "1"}, dcgmExporter={"env": [{"name": "A", "valu": "x"}]}
    )

    assert find_unknown_fields(misspelt) == [
        "spec.devicePlugn", "spec.driver.versoin", "spec.dcgmExporter.env[0].valu",
    ]  # fmt: skip


def test_settings_that_do_nothing_are_named_only_when_they_say_something() -> None:
    assert without_effect(parse_policy(tutorial())) == []

    silent = policy(
        cdi={"default": True},
        psp={"enabled": False},
        operator={"defaultRuntime": "docker"},
    )
    assert [each.partition(":")[0] for each in without_effect(parse_policy(silent))] == [
        "spec.operator.defaultRuntime",
        "spec.cdi.default",
        "spec.psp",
    ]


def test_a_recorded_policy_of_the_original_has_no_problem() -> None:
    """Chart defaults, as in tests/unit/api/data/chart-defaults.yaml."""
    from gpuready.yaml_text import parse_yaml

    for file in sorted((Path(__file__).parent / "data").glob("*.yaml")):
        obj = parse_yaml(file.read_text(), source=file.name)
        assert find_problems(obj) == [], file.name
        assert find_unknown_fields(obj) == [], file.name
        parse_policy(obj)


@pytest.mark.parametrize("amount", ["0", "0%", "101%", "3\n", "٣", "²%", "99999999999"])
def test_an_amount_that_no_daemonset_can_have_is_named_before_it_is_sent(amount: str) -> None:
    found = find_problems(policy(daemonsets={"rollingUpdate": {"maxUnavailable": amount}}))

    assert {each.path for each in found} == {"spec.daemonsets.rollingUpdate.maxUnavailable"}
    assert amount.strip() in found[0].message


@pytest.mark.parametrize("version", ["v1\n", " v1", "v1 # stable", "v1'", "v\u2060", "v1\x1b[31m"])
def test_an_image_that_no_runtime_could_name_is_a_problem_and_replaces_nothing(version: str) -> None:
    found = find_problems(policy(driver={"manager": {"version": version}}, dcgm={"repository": version}))

    assert [each.path for each in found] == ["spec.driver.manager.version", "spec.dcgm.repository"]
    assert "is not a part of an image's name" in found[0].message


def test_an_image_of_a_disabled_operand_and_every_form_of_a_reference_are_no_problem() -> None:
    whole = "Registry.example.org:5000/a_b/c-d.e:v1.0_x@sha256:" + "0" * 64

    assert find_problems(policy(dcgm={"enabled": False, "version": "v 1"}, gfd={"image": whole})) == []


@pytest.mark.parametrize("path", ["/a\n", "/a/../b", "/a\x1b"])
def test_a_path_that_leads_elsewhere_than_it_says_is_a_problem(path: str) -> None:
    found = find_problems(policy(hostPaths={"driverInstallDir": path}))

    assert [each.path for each in found] == ["spec.hostPaths.driverInstallDir"]


@pytest.mark.parametrize("name", ["x" * 300_000, "../../x y\n", "A", "a..b", "-a", "\x1b[31mkey\n"])
def test_a_configmap_that_cannot_exist_is_a_problem_and_one_that_may_is_none(name: str) -> None:
    asked = {"metadata": {"name": "p"}, "spec": {"devicePlugin": {"config": {"name": name}}}}

    (found,) = find_problems(asked)

    assert found.path == "spec.devicePlugin.config.name"
    assert "is not a name that an object can have" in found.message
    assert len(found.message) < 250
    assert found.message.isprintable()


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        ("shared-5_x.yaml", True),
        ("A" * 253, True),
        ("A" * 254, False),
        ("\x1b[31mkey\n", False),
        ("..", False),
        ("a/b", False),
    ],
)
def test_a_key_that_no_configmap_can_have_is_a_problem(key: str, fits: bool) -> None:
    plugin = {"config": {"name": "sharing.v1", "default": key}}

    found = find_problems({"metadata": {"name": "p"}, "spec": {"devicePlugin": plugin}})

    assert [each.path for each in found] == ([] if fits else ["spec.devicePlugin.config.default"])
    off = {"devicePlugin": {**plugin, "enabled": False}}
    assert find_problems({"metadata": {"name": "p"}, "spec": off}) == [], "what is switched off is left alone"
