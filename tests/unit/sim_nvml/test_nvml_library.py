"""The simulated libnvidia-ml.so.1 as its clients see it: through nvidia-ml-py, nvitop and gpustat."""

from __future__ import annotations

import ctypes
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpuready_sim.hardware import machine
from gpuready_sim.hardware.catalogue import MODELS
from gpuready_sim.hardware.driver_tree import native_dir
from gpuready_sim.hardware.state import EVENT_SINGLE_BIT_ECC

SYMBOLS = Path(__file__).parent / "data/symbols.txt"

IDENTITY = """
    nvmlInit()
    answer = []
    for index in range(nvmlDeviceGetCount()):
        gpu = nvmlDeviceGetHandleByIndex(index)
        answer.append({
            "name": nvmlDeviceGetName(gpu), "uuid": nvmlDeviceGetUUID(gpu),
            "minor": nvmlDeviceGetMinorNumber(gpu), "index": nvmlDeviceGetIndex(gpu),
            "bus": nvmlDeviceGetPciInfo(gpu).busId, "cc": nvmlDeviceGetCudaComputeCapability(gpu),
            "memory": nvmlDeviceGetMemoryInfo(gpu).total, "pci": nvmlDeviceGetPciInfo(gpu).pciDeviceId,
            "architecture": nvmlDeviceGetArchitecture(gpu), "brand": nvmlDeviceGetBrand(gpu),
            "mig": nvmlDeviceGetMaxMigDeviceCount(gpu),
        })
"""


def test_every_public_symbol_is_exported():
    names = SYMBOLS.read_text().split()
    library = ctypes.CDLL(str(native_dir() / "libnvidia-ml.so"))

    assert len(names) == 429  # 428 public ones and nvmlInternalGetExportTable
    assert [name for name in names if not hasattr(library, name)] == []


def test_the_library_carries_the_soname_that_clients_load():
    shown = subprocess.run(
        ["readelf", "-d", str(native_dir() / "libnvidia-ml.so")], capture_output=True, text=True, check=True
    )

    assert "[libnvidia-ml.so.1]" in shown.stdout


def test_a_function_that_is_not_simulated_answers_not_supported(build):
    answer = build().run("""
        nvmlInit()
        answer = nvmlDeviceGetVgpuCapabilities(nvmlDeviceGetHandleByIndex(0), 0)
    """)

    assert answer == {"error": 3}


def test_no_call_is_answered_before_init(build):
    assert build().run("answer = nvmlDeviceGetCount()") == {"error": 1}


@pytest.mark.parametrize("key", list(MODELS))
def test_a_gpu_describes_itself_as_its_catalogue_entry(build, key):
    model = MODELS[key]
    node = build((key, 1))

    [gpu] = node.run(IDENTITY)

    assert gpu == {
        "name": model.name,
        "uuid": node.state.gpus()[0].uuid,
        "minor": 0,
        "index": 0,
        "bus": "00000000:1A:00.0",
        "cc": list(model.compute),
        "memory": model.memory_mib * 1024 * 1024,
        "pci": model.pci_device_id << 16 | 0x10DE,
        "architecture": model.architecture,
        "brand": model.brand,
        "mig": 7 if model.mig else 0,
    }


def test_the_versions_are_those_of_the_driver(build):
    answer = build(version="570.86.10").run("""
        nvmlInit()
        answer = [nvmlSystemGetDriverVersion(), nvmlSystemGetCudaDriverVersion(), nvmlSystemGetNVMLVersion()]
    """)

    assert answer == ["570.86.10", 12080, "12.570.86.10"]


def test_only_gpus_with_a_device_node_are_visible_and_keep_their_minor(build, tmp_path):
    node = build()
    dev = tmp_path / "container-dev"
    dev.mkdir()
    for name in ("nvidiactl", "nvidia1", "nvidia3"):
        (dev / name).touch()

    seen = node.run(IDENTITY, dev=dev)

    assert [(gpu["index"], gpu["minor"]) for gpu in seen] == [(0, 1), (1, 3)]
    assert [gpu["uuid"] for gpu in seen] == [node.state.gpus()[1].uuid, node.state.gpus()[3].uuid]


def test_a_hidden_gpu_is_not_found_by_its_uuid(build, tmp_path):
    node = build()
    dev = tmp_path / "container-dev"
    dev.mkdir()
    for name in ("nvidiactl", "nvidia1"):
        (dev / name).touch()

    hidden = node.state.gpus()[0].uuid

    assert node.run(f"nvmlInit(); answer = nvmlDeviceGetHandleByUUID({hidden!r})", dev=dev) == {"error": 6}


def test_without_the_control_node_there_is_no_driver(build, tmp_path):
    (tmp_path / "empty").mkdir()

    assert build().run("answer = nvmlInit()", dev=tmp_path / "empty") == {"error": 9}


def test_without_a_loaded_module_init_says_driver_not_loaded(build):
    node = build()
    machine.unload_driver(node.node_dir)

    assert node.run("answer = nvmlInit()") == {"error": 9}


def test_new_libraries_over_an_old_module_are_a_mismatch_until_the_driver_is_reloaded(build):
    node = build()
    machine.update_driver(node.root, "570.86.10")

    assert node.run("answer = nvmlInit()") == {"error": 18}

    machine.unload_driver(node.node_dir)
    machine.load_driver(node.node_dir, "570.86.10")
    assert node.run("nvmlInit(); answer = nvmlSystemGetDriverVersion()") == "570.86.10"


def test_a_client_that_opened_nvml_before_an_update_keeps_its_version(build):
    node = build()
    client = node.start("""
        nvmlInit(); print("ready", flush=True); input(); print(nvmlSystemGetDriverVersion())
    """)

    machine.update_driver(node.root, "570.86.10")

    assert client.communicate("\n", timeout=20)[0] == "550.163.01\n"


def test_utilisation_drives_power_temperature_clocks_and_memory(build):
    node = build()
    code = """
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
        memory = nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2)
        rates = nvmlDeviceGetUtilizationRates(gpu)
        answer = [rates.gpu, rates.memory, nvmlDeviceGetPowerUsage(gpu), nvmlDeviceGetTemperatureV(gpu, 0),
                  nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM), memory.used >> 20]
    """

    assert node.run(code) == [0, 0, 54000, 32, 210, 0]
    node.state.set_utilization(0, gpu=100, memory=40, used_mib=12000)
    assert node.run(code) == [100, 40, 365400, 68, 1410, 12000]
    assert node.run(code) == [100, 40, 365400, 68, 1410, 12000]  # deterministic


def test_free_used_and_reserved_memory_add_up(build):
    free, used, reserved, total, old_used = build().run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
        new, old = nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2), nvmlDeviceGetMemoryInfo(gpu)
        answer = [new.free, new.used, new.reserved, new.total, old.used]
    """)

    assert free + used + reserved == total
    assert old_used == used + reserved


def test_a_struct_of_another_version_is_refused(build):
    answer = build().run("""
        nvmlInit(); answer = nvmlDeviceGetMemoryInfo(nvmlDeviceGetHandleByIndex(0), version=0x03000028).used
    """)

    assert answer == {"error": 25}


def test_mig_mode_is_off_where_the_model_has_mig_and_unknown_elsewhere(build):
    answer = build(("H100-SXM5-80GB", 1), ("L4", 1)).run("""
        nvmlInit(); answer = [nvmlDeviceGetMigMode(nvmlDeviceGetHandleByIndex(0))]
        try: nvmlDeviceGetMigMode(nvmlDeviceGetHandleByIndex(1))
        except NVMLError as error: answer.append(error.value)
    """)

    assert answer == [[0, 0], 3]


def test_topology_links_and_fabric_follow_the_model(build):
    answer = build(("H100-SXM5-80GB", 8)).run("""
        nvmlInit(); gpus = [nvmlDeviceGetHandleByIndex(i) for i in range(8)]
        fabric = c_nvmlGpuFabricInfo_v3_t(); nvmlDeviceGetGpuFabricInfoV(gpus[0], byref(fabric))
        links = 0
        try:
            while nvmlDeviceGetNvLinkState(gpus[0], links): links += 1
        except NVMLError: pass
        answer = {"ancestors": [nvmlDeviceGetTopologyCommonAncestor(gpus[0], other) for other in gpus],
                  "links": links, "fabric": fabric.state}
    """)

    assert answer == {"ancestors": [0, 10, 40, 40, 50, 50, 50, 50], "links": 18, "fabric": 3}


def test_nvitop_runs_unmodified(build):
    shown = build(("A100-SXM4-40GB", 2), ("RTX-4090", 1)).command(
        str(Path(sys.executable).with_name("nvitop")), "--once", "--ascii"
    )

    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("A100-SXM4-40GB") == 2
    assert "RTX 4090" in shown.stdout
    assert "Driver Version: 550.163.01" in shown.stdout


def test_gpustat_runs_unmodified_and_names_a_lost_gpu(build):
    node = build(("A100-SXM4-40GB", 2))
    node.state.set_lost(1)

    shown = node.command(sys.executable, "-m", "gpustat")

    assert shown.returncode == 0, shown.stderr
    assert "NVIDIA A100-SXM4-40GB" in shown.stdout
    assert "GPU is lost" in shown.stdout


# --- health ----------------------------------------------------------------------------------------------


def test_a_lost_gpu_answers_nothing_and_the_others_go_on(build):
    node = build()
    client = node.start("""
        nvmlInit(); gpus = [nvmlDeviceGetHandleByIndex(i) for i in range(4)]
        print("ready", flush=True); input()
        for gpu in gpus:
            try: print(nvmlDeviceGetName(gpu))
            except NVMLError as error: print(error.value)
    """)

    node.state.raise_xid(2, 79)

    name = MODELS["A100-SXM4-40GB"].name
    assert client.communicate("\n", timeout=20)[0].splitlines() == [name, name, "15", name]


def test_a_corrupt_inforom_fails_only_its_own_queries(build):
    node = build()
    node.state.set_inforom_corrupt(2)

    answer = node.run("""
        nvmlInit(); answer = []
        for index in range(4):
            gpu = nvmlDeviceGetHandleByIndex(index)
            try: nvmlDeviceValidateInforom(gpu); valid = True
            except NVMLError as error: valid = error.value
            answer.append([valid, nvmlDeviceGetUUID(gpu) != ""])
    """)

    assert answer == [[True, True], [True, True], [14, True], [True, True]]


RECOVERY = """
    nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
    action = nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]
    answer = [action.nvmlReturn, action.value.uiVal, nvmlDeviceGetRemappedRows(gpu)[2],
              nvmlDeviceGetTotalEccErrors(gpu, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)]
"""


@pytest.mark.parametrize(
    ("code", "asks_for"),
    [
        pytest.param(31, [0, 0, 0, 0], id="an application error asks for nothing"),
        pytest.param(94, [0, 0, 0, 0], id="a contained error asks for nothing"),
        pytest.param(999, [0, 0, 0, 0], id="an unknown code asks for nothing"),
        pytest.param(109, [0, 1, 0, 0], id="109 asks for a reset"),
        pytest.param(48, [0, 1, 1, 1], id="a double-bit error asks for a reset and remaps a row"),
    ],
)
def test_an_xid_sets_the_recovery_action_until_a_reset(build, code, asks_for):
    node = build()

    node.state.raise_xid(0, code)
    assert node.run(RECOVERY) == asks_for

    assert node.state.reset(0)
    assert node.run(RECOVERY) == [0, 0, 0, 0]


def test_a_hanging_nvml_holds_its_callers_until_the_hang_is_lifted(build):
    node = build()
    client = node.start("""
        nvmlInit(); print("ready", flush=True); input(); print("asking", flush=True)
        print(nvmlDeviceGetCount())
    """)
    node.state.set_hang_s(30)
    client.stdin.write("\n")
    client.stdin.flush()
    assert client.stdout.readline() == "asking\n"
    began = time.monotonic()
    lift = threading.Timer(0.3, node.state.set_hang_s, [0])
    lift.start()

    assert client.stdout.readline() == "4\n"

    assert 0.2 < time.monotonic() - began < 5
    lift.join()


def test_a_client_that_hangs_in_nvml_can_be_ended(build):
    node = build()
    node.state.set_hang_s(30)
    client = node.start('print("ready", flush=True); nvmlInit()')

    client.terminate()

    assert client.wait(timeout=5) == -15


# --- events ----------------------------------------------------------------------------------------------

WAITER = """
    import time
    nvmlInit(); events = nvmlEventSetCreate()
    for index in range(nvmlDeviceGetCount()):
        nvmlDeviceRegisterEvents(nvmlDeviceGetHandleByIndex(index), nvmlEventTypeXidCriticalError, events)
    print("ready", flush=True)
    while True:
        try: event = nvmlEventSetWait_v2(events, 10000)
        except NVMLError as error: print(error.value, flush=True); break
        seen, index = time.monotonic(), nvmlDeviceGetIndex(event.device)
        print(seen, index, event.eventType, event.eventData, flush=True)
"""


def test_an_xid_wakes_every_waiting_process_within_100_ms(build):
    node = build()
    clients = [node.start(WAITER), node.start(WAITER)]

    raised = time.monotonic()
    node.state.raise_xid(3, 109)

    for client in clients:
        seen, index, kind, code = client.stdout.readline().split()
        assert (index, kind, code) == ("3", "8", "109")
        assert float(seen) - raised < 0.1


def test_events_come_in_order_and_types_that_were_not_asked_for_do_not(build):
    node = build()
    client = node.start(WAITER)

    node.state.raise_xid(0, 31)
    node.state.raise_event(0, EVENT_SINGLE_BIT_ECC)
    node.state.raise_xid(1, 94)

    lines = [client.stdout.readline().split()[1:] for _ in range(2)]
    assert lines == [["0", "8", "31"], ["1", "8", "94"]]


def test_a_wait_without_events_ends_with_a_timeout(build):
    answer = build().run("""
        import time
        nvmlInit(); events = nvmlEventSetCreate(); began = time.monotonic()
        try: nvmlEventSetWait_v2(events, 200)
        except NVMLError as error: answer = [error.value, 0.19 < time.monotonic() - began < 2]
    """)

    assert answer == [10, True]


def test_after_its_xid_a_lost_gpu_fails_the_wait_as_on_hardware(build):
    node = build()
    client = node.start(WAITER.replace("nvmlDeviceGetIndex(event.device)", "0"))

    node.state.raise_xid(1, 79)

    assert client.stdout.readline().split()[3] == "79"
    assert client.stdout.readline() == "15\n"


def test_unsupported_event_types_cannot_be_registered(build):
    answer = build(("RTX-4090", 1)).run("""
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); answer = [nvmlDeviceGetSupportedEventTypes(gpu) & 8]
        try: nvmlDeviceRegisterEvents(gpu, nvmlEventTypeDoubleBitEccError, nvmlEventSetCreate())
        except NVMLError as error: answer.append(error.value)
    """)

    assert answer == [8, 3]


# --- holders ---------------------------------------------------------------------------------------------


def test_a_holder_counts_from_init_to_shutdown(build):
    node = build()
    client = node.start("""
        nvmlInit(); nvmlInit(); print("ready", flush=True)
        input(); nvmlShutdown(); print("one", flush=True)
        input(); nvmlShutdown(); print("none", flush=True)
        input()
    """)

    assert [holder.pid for holder in node.state.holders()] == [client.pid]
    assert "nvmlInit" in node.state.holders()[0].command
    for word, held in (("one", True), ("none", False)):
        client.stdin.write("\n")
        client.stdin.flush()
        assert client.stdout.readline() == f"{word}\n"
        assert bool(node.state.holders()) is held


def test_a_holder_that_was_killed_no_longer_counts_and_the_others_go_on(build):
    node = build()
    program = 'nvmlInit(); print("ready", flush=True); input(); print(nvmlDeviceGetCount())'
    victim, witness = node.start(program), node.start(program)

    victim.kill()
    victim.wait()

    assert [holder.pid for holder in node.state.holders()] == [witness.pid]
    assert witness.communicate("\n", timeout=20)[0] == "4\n"
    assert node.run("nvmlInit(); answer = nvmlDeviceGetCount()") == 4


def test_a_session_ends_with_the_module_under_it(build):
    node = build()
    client = node.start("""
        nvmlInit(); print("ready", flush=True); input()
        try: nvmlDeviceGetCount()
        except NVMLError as error: print(error.value)
        nvmlShutdown(); nvmlInit(); print(nvmlDeviceGetCount())
    """)

    machine.unload_driver(node.node_dir, tolerate=lambda holder: holder.pid == client.pid)
    machine.load_driver(node.node_dir, "550.163.01")

    assert client.communicate("\n", timeout=20)[0] == "9\n4\n"


def test_processes_on_a_gpu_are_listed_while_they_run(build):
    node = build()
    client = node.start('print("ready", flush=True); input()')
    node.state.set_processes(0, [(client.pid, 512)])
    code = """
        nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0)
        answer = [[p.pid, p.usedGpuMemory >> 20] for p in nvmlDeviceGetComputeRunningProcesses(gpu)]
    """

    assert node.run(code) == [[client.pid, 512]]
    client.communicate("\n", timeout=20)
    assert node.run(code) == []


def test_a_client_of_a_replaced_state_file_finds_no_driver_until_it_opens_nvml_again(build):
    node = build()
    client = node.start("""
        nvmlInit(); print("ready", flush=True); input()
        try: nvmlDeviceGetCount()
        except NVMLError as error: print(error.value)
        nvmlShutdown(); nvmlInit(); print(nvmlDeviceGetCount())
    """)

    machine.build_node_root(node.node_dir, machine.MachineSpec("gpu-1", (("L4", 2),)))
    machine.load_driver(node.node_dir, "550.163.01")

    assert client.communicate("\n", timeout=20)[0] == "9\n2\n"


def test_many_threads_open_wait_read_and_close_while_the_state_changes(build):
    node = build()
    client = node.start("""
        import threading
        def work():
            for _ in range(300):
                nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(1); events = nvmlEventSetCreate()
                nvmlDeviceRegisterEvents(gpu, nvmlEventTypeXidCriticalError, events)
                try: nvmlEventSetWait_v2(events, 0)
                except NVMLError_Timeout: pass
                nvmlDeviceGetUUID(gpu); nvmlSystemGetDriverVersion(); nvmlEventSetFree(events); nvmlShutdown()
        threads = [threading.Thread(target=work) for _ in range(8)]
        print("ready", flush=True)
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print("done")
    """)

    while client.poll() is None and not select.select([client.stdout], [], [], 0.001)[0]:
        node.state.raise_xid(1, 31)

    assert client.communicate(timeout=20)[0] == "done\n"
    assert client.returncode == 0
    assert node.state.holders() == []
