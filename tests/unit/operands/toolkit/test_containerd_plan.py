"""Where our handlers go in containerd's configuration, version by version."""

from __future__ import annotations

import tomllib

import pytest
from tests.unit.operands.toolkit.nodes import (
    CONF_D,
    OURS,
    ROOT,
    RUNC,
    V2,
    V3,
    after,
    planned,
    registry,
    root_file,
    rules,
    wanted,
)

from gpuready.operands.toolkit.containerd.merge import merge
from gpuready.operands.toolkit.containerd.plan import effective
from gpuready.operands.toolkit.plan import RefusedPlan
from gpuready.operands.toolkit.toml_file import ConfigFileError

OLD, NEW = ["1.6.20", "1.7.24"], ["2.0.2", "2.2.1", "2.3.0"]


def cri_after(version, texts, plan):
    return effective(merge(ROOT, after(plan, texts), rules(version)), rules(version))


@pytest.mark.parametrize("version", ["2.2.1", "2.3.0"])
def test_a_drop_in_has_the_version_of_the_root_file_and_its_section(version):
    """C05 a: containerd 2.3 prints version 4, the root says 2: a drop-in of 4 would keep it from starting."""
    plan = planned(version, {ROOT: root_file(2)})

    (change,) = plan.files
    written = tomllib.loads(change.after)
    assert change.path == OURS
    assert written["version"] == 2
    assert written["plugins"] == {
        V2: {
            "containerd": {
                "runtimes": {
                    "nvidia": {
                        "runtime_type": "io.containerd.runc.v2",
                        "options": {"SystemdCgroup": True, "BinaryName": RUNC},
                    }
                }
            }
        }
    }


def test_under_a_root_of_version_3_it_is_of_version_3():
    """C05 b."""
    written = tomllib.loads(planned("2.3.0", {ROOT: root_file(3)}).files[0].after)

    assert written["version"] == 3
    assert list(written["plugins"]) == [V3]


@pytest.mark.parametrize(("version", "config"), [("1.7.24", 2), ("2.0.2", 3), ("2.3.0", 3)])
def test_without_a_root_file_one_is_made_that_loads(version, config):
    """C05 c: without a root nothing is imported, so a drop-in alone would be ignored."""
    plan = planned(version, {})

    (change,) = plan.files
    assert change.path == ROOT
    assert tomllib.loads(change.after)["version"] == config
    assert cri_after(version, {}, plan)["containerd"]["runtimes"].keys() == {"runc", "nvidia"}


def test_a_root_of_version_1_is_changed_in_place_and_in_its_own_words():
    """C05 d: no drop-in is written that nobody reads."""
    texts = {ROOT: '[plugins.cri]\n  sandbox_image = "pause"\n'}

    plan = planned("1.7.24", texts)

    (change,) = plan.files
    assert change.path == ROOT
    assert "[plugins.cri.containerd.runtimes.nvidia]" in change.after
    assert cri_after("1.7.24", texts, plan)["sandbox_image"] == "pause"


@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_what_the_administrator_set_stays_in_force(version):
    texts = {ROOT: root_file(2)}

    plan = planned(version, texts)

    result = cri_after(version, texts, plan)["containerd"]
    assert result["default_runtime_name"] == "runc"
    assert result["runtimes"]["runc"] == {
        "runtime_type": "io.containerd.runc.v2",
        "options": {"SystemdCgroup": True},
    }
    assert result["runtimes"]["nvidia"]["options"] == {"SystemdCgroup": True, "BinaryName": RUNC}


@pytest.mark.parametrize("version", OLD)
def test_before_2_the_handlers_stand_where_the_section_is_taken_from(version):
    """A drop-in of ours would push the root's section aside; a later file pushes ours."""
    texts = {ROOT: root_file(2)}

    (change,) = planned(version, texts).files

    assert change.path == ROOT
    assert change.after.startswith("# managed by the platform team\nversion = 2\n")
    assert '  default_runtime_name = "runc"  # do not change' in change.after


@pytest.mark.parametrize("version", OLD)
def test_a_registry_file_that_hides_the_handlers_gets_them_and_runc_with_them(version):
    """The incident: conf.d/99-registry.toml replaces the whole CRI section, and no one sees it."""
    hiding = f"{CONF_D}/99-registry.toml"
    texts = after(planned(version, {ROOT: root_file(2)}), {ROOT: root_file(2)}) | {hiding: registry()}

    plan = planned(version, texts)

    assert [each.path for each in plan.files] == [hiding]
    result = cri_after(version, texts, plan)
    assert result["containerd"]["runtimes"].keys() == {"runc", "nvidia"}
    assert result["registry"]["config_path"] == "/etc/containerd/certs.d"
    assert plan.notes == (f'{ROOT}: plugins."{V2}" has no effect: {hiding} replaces the whole section',)


@pytest.mark.parametrize(
    "order", [("10-registry.toml", "99-kata.toml"), ("99-registry.toml", "10-kata.toml")]
)
@pytest.mark.parametrize("version", [*OLD, *NEW])
def test_two_drop_ins_on_one_section_keep_what_they_said_in_both_orders(version, order):
    kata = f'[plugins."{V2}".containerd.runtimes.kata]\n  runtime_type = "io.containerd.kata.v2"\n'
    texts = {
        ROOT: root_file(2),
        f"{CONF_D}/{order[0]}": registry(None),
        f"{CONF_D}/{order[1]}": kata,
    }
    before = effective(merge(ROOT, texts, rules(version)), rules(version))

    result = cri_after(version, texts, planned(version, texts))

    handler = result["containerd"]["runtimes"].pop("nvidia")
    assert handler["options"]["BinaryName"] == RUNC
    result.pop("enable_cdi", None), before.pop("enable_cdi", None)
    assert result == before


def test_mixed_versions_lose_nothing():
    """On 2.0-2.2 a later file of version 3 keeps an earlier one of version 2 from being read at all."""
    early = f"{CONF_D}/10-registry.toml"
    texts = {ROOT: root_file(3), early: registry(2)}

    plan = planned("2.2.1", texts)

    merged = merge(ROOT, after(plan, texts), rules("2.2.1"))
    assert merged.plugins["io.containerd.cri.v1.images"]["registry"] == {
        "config_path": "/etc/containerd/certs.d"
    }
    assert "nvidia" in merged.cri(rules("2.2.1"))["containerd"]["runtimes"]


def test_a_root_that_imports_nothing_gets_one_line_more():
    texts = {ROOT: root_file(3, imports=False)}

    plan = planned("2.2.1", texts)

    # The drop-in first: nobody reads it until the root imports it.
    assert [each.path for each in plan.files] == [OURS, ROOT]
    added = set(plan.files[1].after.splitlines()) - set(texts[ROOT].splitlines())
    assert added == {f'imports = ["{CONF_D}/*.toml"]'}


def test_what_is_as_wanted_is_not_written_again():
    texts = {ROOT: root_file(2)}
    for version in [*OLD, *NEW]:
        there = after(planned(version, texts), texts)

        assert planned(version, there).files == ()


def test_cdi_is_switched_on_where_it_is_off_and_not_mentioned_where_it_is_on():
    assert "enable_cdi = true" in planned("1.7.24", {ROOT: root_file(2)}).files[0].after
    assert "enable_cdi" not in planned("2.2.1", {ROOT: root_file(3)}).files[0].after
    assert "enable_cdi" not in planned("1.6.20", {ROOT: root_file(2)}).files[0].after
    off = {ROOT: root_file(3, more=f'[plugins."{V3}"]\n  enable_cdi = false')}
    assert cri_after("2.2.1", off, planned("2.2.1", off))["enable_cdi"] is True


def test_the_default_runtime_changes_only_on_request():
    texts = {ROOT: root_file(2)}

    plan = planned("1.7.24", texts, wanted(default=True))

    assert '  default_runtime_name = "nvidia"  # do not change' in plan.files[0].after


def test_a_daemon_that_would_not_start_is_left_alone():
    too_new = {ROOT: root_file(2), f"{CONF_D}/50-x.toml": "version = 3\n"}
    with pytest.raises(RefusedPlan) as refused:
        planned("2.3.0", too_new)
    assert f"{CONF_D}/50-x.toml has version = 3, {ROOT} has 2" in refused.value.why

    absent = {ROOT: 'version = 2\nimports = ["/etc/containerd/site.toml"]\n'}
    with pytest.raises(RefusedPlan) as refused:
        planned("1.7.24", absent)
    assert f"{ROOT} imports /etc/containerd/site.toml, which does not exist" in refused.value.why


def test_a_file_that_is_no_toml_is_refused_with_its_line_and_column():
    texts = {ROOT: root_file(2), f"{CONF_D}/50-x.toml": "version = 2\n[plugins\n"}

    with pytest.raises(ConfigFileError) as refused:
        planned("2.2.1", texts)

    assert refused.value.what.startswith(f"{CONF_D}/50-x.toml is no valid TOML")
    assert "at line 2, column 9" in refused.value.what


def test_inline_tables_are_extended_in_their_own_notation():
    inline = (
        f"version = 3\n[plugins]\n'{V3}' = {{ containerd = {{ runtimes = {{ "
        "runc = { runtime_type = 'io.containerd.runc.v2' } } } }\n"
    )
    texts = {ROOT: inline, OURS: "version = 3\n"}

    plan = planned("2.2.1", texts)

    assert "nvidia" in cri_after("2.2.1", texts, plan)["containerd"]["runtimes"]
    assert "runc" in cri_after("2.2.1", texts, plan)["containerd"]["runtimes"]
