"""libcuda: the only module that touches the CUDA driver API, and as little of it as a proof needs.

Meant for a process that does one proof and ends: a context that has failed once answers nothing but that
failure, and a loaded library cannot be given back. Every call is announced before it is made (`entering`), so
that whoever waits for a call that never returns knows which one it was.

Types as in cuda.h: CUdevice is an int, CUdeviceptr 64 bits wide, contexts, modules and functions are pointers
and CUuuid 16 bytes. The header maps the plain names of memory calls to `_v2` since CUDA 3.2, of
cuDevicePrimaryCtxRelease since 11.0; cuDeviceGetUuid_v2 (11.4) tells a MIG device's own UUID where the older
call tells its GPU's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from ctypes import (
    CDLL,
    Array,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint32,
    c_uint64,
    c_void_p,
    cast,
)
from pathlib import Path
from typing import Any

from gpuready.errors import HardwareError

LIBRARY_NOT_LOADABLE = -1  # ours, beside CUDA's numbers: the loader refused the library
SYMBOL_NOT_FOUND = 500
# What libcuda itself loads by name when it compiles PTX. Loaded before, by its path in the same folder, it is
# found also where no loader's cache knows that folder, as in our container. Releases differ in their set.
_COMPANIONS = ("libnvidia-ptxjitcompiler.so.1", "libnvidia-nvvm.so.4", "libnvidia-gpucomp.so.*")

Context, Module, Function = c_void_p, c_void_p, c_void_p
_BLOCK = 256  # threads per block; every GPU takes that many


class CudaError(HardwareError):
    """CUDA's answer to one call: its number, its name ("CUDA_ERROR_…") and its own words."""

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        self.call, self.code, self.name, self.text = call, code, name, text
        super().__init__(f"{call} answered {name} ({code})" + (f": {text}" if text else ""))


class Cuda:
    """A loaded library. `entering` hears the name of each call before it is made."""

    def __init__(self, library: Path, entering: Callable[[str], None]) -> None:
        """raises CudaError (LIBRARY_NOT_LOADABLE) with the loader's words"""
        self._entering = entering
        entering("dlopen")
        self._companions = _load_companions(library.parent)
        try:
            self._cuda = CDLL(str(library))
        except OSError as exc:
            said = str(exc).replace(str(library), library.name)
            raise CudaError("dlopen", LIBRARY_NOT_LOADABLE, "CannotBeLoaded", said) from exc

    # --- devices ----------------------------------------------------------------------------------------

    def init(self) -> None:
        self._call("cuInit", c_uint(0))

    def count(self) -> int:
        number = c_int()
        self._call("cuDeviceGetCount", byref(number))
        return number.value

    def device(self, ordinal: int) -> int:
        found = c_int()
        self._call("cuDeviceGet", byref(found), c_int(ordinal))
        return found.value

    def uuid(self, device: int) -> str:
        """As text without its prefix: the 36 characters behind "GPU-" or "MIG-"."""
        octets = (c_ubyte * 16)()
        newer = "cuDeviceGetUuid_v2"
        self._call(newer if hasattr(self._cuda, newer) else "cuDeviceGetUuid", octets, c_int(device))
        return str(uuid.UUID(bytes=bytes(octets)))

    # --- contexts ---------------------------------------------------------------------------------------

    def retain_primary_context(self, device: int) -> None:
        """Made where there is none, and made the current one."""
        context = Context()
        self._call("cuDevicePrimaryCtxRetain", byref(context), c_int(device))
        self._call("cuCtxSetCurrent", context)

    def release_primary_context(self, device: int) -> None:
        self._call("cuDevicePrimaryCtxRelease_v2", c_int(device))

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    # --- memory -----------------------------------------------------------------------------------------

    def allocate(self, size: int) -> c_uint64:
        address = c_uint64()
        self._call("cuMemAlloc_v2", byref(address), c_size_t(size))
        return address

    def free(self, address: c_uint64) -> None:
        self._call("cuMemFree_v2", address)

    def copy_to_device(self, target: c_uint64, source: Array[Any], size: int) -> None:
        self._call("cuMemcpyHtoD_v2", target, source, c_size_t(size))

    def copy_to_host(self, target: Array[Any], source: c_uint64, size: int) -> None:
        self._call("cuMemcpyDtoH_v2", target, source, c_size_t(size))

    # --- programs ---------------------------------------------------------------------------------------

    def load(self, ptx: str) -> c_void_p:
        """Compiled for the GPU of the current context."""
        module = Module()
        self._call("cuModuleLoadData", byref(module), c_char_p(ptx.encode()))
        return module

    def unload(self, module: c_void_p) -> None:
        self._call("cuModuleUnload", module)

    def function(self, module: c_void_p, name: str) -> c_void_p:
        found = Function()
        self._call("cuModuleGetFunction", byref(found), module, c_char_p(name.encode()))
        return found

    def launch(self, function: c_void_p, threads: int, arguments: Sequence[c_uint64 | c_uint32]) -> None:
        """In one dimension, at least so many threads; each argument of the type that the kernel declares."""
        places = (c_void_p * len(arguments))(*(cast(byref(each), c_void_p) for each in arguments))
        one, blocks = c_uint(1), c_uint(-(-threads // _BLOCK))
        shape = (blocks, one, one, c_uint(_BLOCK), one, one)
        no_stream, no_extra = c_void_p(), c_void_p()
        self._call("cuLaunchKernel", function, *shape, c_uint(0), no_stream, places, no_extra)

    # --- calling ----------------------------------------------------------------------------------------

    def _call(self, name: str, *arguments: Any) -> None:
        self._entering(name)
        try:
            code = int(getattr(self._cuda, name)(*arguments))
        except AttributeError as exc:
            text = f"the library has no function {name}"
            raise CudaError(name, SYMBOL_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", text) from exc
        if code:
            raise CudaError(
                name, code, self._words("cuGetErrorName", code) or "unknown error", self._text(code)
            )

    def _text(self, code: int) -> str:
        return self._words("cuGetErrorString", code)

    def _words(self, function: str, code: int) -> str:
        """ "" where the library does not know the number."""
        text = c_char_p()
        if getattr(self._cuda, function)(c_int(code), byref(text)) != 0:
            return ""
        return (text.value or b"").decode(errors="replace")


def _load_companions(folder: Path) -> list[CDLL]:
    """A missing one is libcuda's to complain of, in its own words."""
    loaded = []
    for pattern in _COMPANIONS:
        for path in sorted(folder.glob(pattern)):
            try:
                loaded.append(CDLL(str(path)))
            except OSError:
                continue
    return loaded
