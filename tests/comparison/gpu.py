# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver for measurements: streams that are kept busy, and a fault.

hold() enqueues libc's usleep as a host function, so that a stream stays busy for a
known time without a kernel, and while a call waits with Python's lock held.
"""

import ctypes
import functools
import os
import time

NOT_READY = 600
HOLD = 0.25  # seconds

# Stores through a null pointer: an illegal address.
FAULT = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry fault()
{
  .reg .u64 %rd<2>;
  .reg .u32 %r<2>;
  mov.u64 %rd1, 0;
  mov.u32 %r1, 1;
  st.global.u32 [%rd1], %r1;
  ret;
}
\0"""


@functools.lru_cache(maxsize=None)
def driver():
    return ctypes.CDLL("libcuda.so.1")


def check(result, call):
    if result != 0:
        raise RuntimeError(f"{call} returned {result}")


def device_count():
    """0 if there is no driver or no device."""
    try:
        library = driver()
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if library.cuInit(0) or library.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def device_name():
    text = ctypes.create_string_buffer(100)
    device = ctypes.c_int(0)
    check(driver().cuDeviceGet(ctypes.byref(device), 0), "cuDeviceGet")
    check(driver().cuDeviceGetName(text, 100, device), "cuDeviceGetName")
    return text.value.decode()


def hold(stream, seconds=HOLD):
    """Keeps a stream, given as its handle, busy for that time."""
    usleep = ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p)
    check(driver().cuLaunchHostFunc(
        ctypes.c_void_p(stream), usleep,
        ctypes.c_void_p(int(seconds * 1e6))), "cuLaunchHostFunc")


def is_busy(stream):
    result = driver().cuStreamQuery(ctypes.c_void_p(stream))
    if result not in (0, NOT_READY):
        raise RuntimeError(f"cuStreamQuery returned {result}")
    return result == NOT_READY


def is_non_blocking(stream):
    flags = ctypes.c_uint(99)
    check(driver().cuStreamGetFlags(ctypes.c_void_p(stream),
                                    ctypes.byref(flags)), "cuStreamGetFlags")
    return flags.value == 1


def seconds_of(function, *arguments):
    begin = time.monotonic()
    function(*arguments)
    return time.monotonic() - begin


def fault(stream=0):
    """Launches a kernel that ends the process's use of CUDA."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    check(driver().cuModuleLoadData(ctypes.byref(module), FAULT),
          "cuModuleLoadData")
    check(driver().cuModuleGetFunction(ctypes.byref(function), module,
                                       b"fault"), "cuModuleGetFunction")
    check(driver().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0,
                                  ctypes.c_void_p(stream), None, None),
          "cuLaunchKernel")


def in_forked_child(function):
    """Returns the text of function() from a child of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = function()
        except BaseException as error:
            said = f"the child's function raised {error!r}"
        os.write(writer, said.encode()[:4000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


class Interface:
    """An object with a CUDA Array Interface of version 3 that names a stream."""

    def __init__(self, array, stream):
        self.array = array  # kept
        self.__cuda_array_interface__ = dict(
            array.__cuda_array_interface__, version=3, stream=stream)


class StreamLike:
    """An object with __cuda_stream__, which keeps the stream's owner."""

    def __init__(self, handle, owner=None):
        self.handle = handle
        self.owner = owner

    def __cuda_stream__(self):
        return (0, self.handle)
