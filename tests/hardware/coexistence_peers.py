# SPDX-License-Identifier: Apache-2.0
"""The libraries that share a process with devrt, behind one interface.

A peer is made on the main thread; a library that is not there raises
Missing.  Arrays are 4 KiB of bytes.
"""

import contextlib
import ctypes
import importlib
import warnings

BYTES = 4096


class Missing(Exception):
    """The library cannot be used here; says why."""


def load(name):
    try:
        return importlib.import_module(name)
    except Exception as error:  # import of GPU libraries may raise anything
        raise Missing(f"{name}: {error or type(error).__name__}") from error


class Driver:
    """The driver itself, as any library without a runtime uses it."""

    def __init__(self):
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise Missing(str(error)) from error
        self.call("cuInit", 0)

    def call(self, name, *arguments):
        code = getattr(self.cuda, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: CUDA error {code}")

    def context(self):
        """The calling thread's; None if there is none."""
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value

    def new_context(self, index):
        """Made and current, of no runtime's."""
        context = ctypes.c_void_p()
        if hasattr(self.cuda, "cuCtxCreate_v4"):
            self.call("cuCtxCreate_v4", ctypes.byref(context), None, 0, index)
        else:
            self.call("cuCtxCreate_v2", ctypes.byref(context), 0, index)
        return context.value

    def destroy_context(self, context):
        self.call("cuCtxDestroy_v2", ctypes.c_void_p(context))

    def free_bytes(self):
        """Of the current context's device."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    # ---- As a peer

    def current(self):
        device = ctypes.c_int()
        self.call("cuCtxGetDevice", ctypes.byref(device))
        return device.value

    def make_current(self, index):
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), index)
        self.call("cuCtxSetCurrent", context)

    @contextlib.contextmanager
    def on(self, index):
        before = self.context()
        self.make_current(index)
        try:
            yield
        finally:
            self.call("cuCtxSetCurrent", ctypes.c_void_p(before))

    def new_array(self, index):
        memory = ctypes.c_uint64()
        with self.on(index):
            self.call("cuMemAlloc_v2", ctypes.byref(memory),
                      ctypes.c_size_t(BYTES))
        return memory

    def pointer(self, array):
        return array.value

    def new_stream(self, index):
        stream = ctypes.c_void_p()
        with self.on(index):
            self.call("cuStreamCreateWithPriority", ctypes.byref(stream), 1, 0)
        return stream

    def native(self, stream):
        return stream.value

    def adopt(self, native, index):
        return ctypes.c_void_p(native)

    def fill(self, index, stream, array, value):
        self.call("cuMemsetD8Async", array, ctypes.c_ubyte(value),
                  ctypes.c_size_t(BYTES), stream)

    def copy(self, index, stream, target, source):
        self.call("cuMemcpyDtoDAsync_v2", target, source,
                  ctypes.c_size_t(BYTES), stream)

    def synchronize(self, stream):
        self.call("cuStreamSynchronize", stream)

    def held_bytes(self, index):
        """Returns the bytes of device memory that the library keeps: none."""
        return 0


class Torch:

    def __init__(self):
        self.torch = load("torch")
        if not self.torch.cuda.is_available():
            raise Missing("torch sees no CUDA device")

    def current(self):
        return self.torch.cuda.current_device()

    def make_current(self, index):
        self.torch.cuda.set_device(index)

    def new_array(self, index):
        array = self.torch.zeros(BYTES, dtype=self.torch.uint8,
                                 device=f"cuda:{index}")
        self.torch.cuda.synchronize(index)
        return array

    def pointer(self, array):
        return array.data_ptr()

    def new_stream(self, index):
        return self.torch.cuda.Stream(device=index)

    def native(self, stream):
        return stream.cuda_stream

    def adopt(self, native, index):
        return self.torch.cuda.ExternalStream(native, device=index)

    def fill(self, index, stream, array, value):
        with self.torch.cuda.stream(stream):
            array.fill_(value)

    def copy(self, index, stream, target, source):
        with self.torch.cuda.stream(stream):
            target.copy_(source)

    def synchronize(self, stream):
        stream.synchronize()

    def held_bytes(self, index):
        return self.torch.cuda.memory_reserved(index)


class Cupy:

    def __init__(self):
        self.cupy = load("cupy")
        try:
            count = self.cupy.cuda.runtime.getDeviceCount()
        except Exception as error:
            raise Missing(f"cupy: {error}") from error
        if count == 0:
            raise Missing("cupy sees no CUDA device")

    def current(self):
        return self.cupy.cuda.runtime.getDevice()

    def make_current(self, index):
        self.cupy.cuda.Device(index).use()

    def new_array(self, index):
        with self.cupy.cuda.Device(index):
            array = self.cupy.zeros(BYTES, dtype=self.cupy.uint8)
            self.cupy.cuda.runtime.deviceSynchronize()
        return array

    def pointer(self, array):
        return array.data.ptr

    def new_stream(self, index):
        with self.cupy.cuda.Device(index):
            return self.cupy.cuda.Stream(non_blocking=True)

    def native(self, stream):
        return stream.ptr

    def adopt(self, native, index):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return self.cupy.cuda.ExternalStream(native, device_id=index)

    def fill(self, index, stream, array, value):
        with self.cupy.cuda.Device(index), stream:
            array.fill(value)

    def copy(self, index, stream, target, source):
        with self.cupy.cuda.Device(index), stream:
            self.cupy.copyto(target, source)

    def synchronize(self, stream):
        stream.synchronize()

    def held_bytes(self, index):
        with self.cupy.cuda.Device(index):
            return self.cupy.get_default_memory_pool().total_bytes()


class Numba:

    def __init__(self):
        self.numpy = load("numpy")
        # Numba 0.68 compiles nothing beside NumPy 2.5, which has dropped it.
        if not hasattr(self.numpy, "row_stack"):
            self.numpy.row_stack = self.numpy.vstack
        self.cuda = load("numba.cuda")
        if not self.cuda.is_available():
            raise Missing("numba sees no CUDA device")
        cuda = self.cuda  # kernels know modules, not attributes

        @self.cuda.jit
        def fill(array, value):
            i = cuda.grid(1)
            if i < array.size:
                array[i] = value

        @self.cuda.jit
        def copy(target, source):
            i = cuda.grid(1)
            if i < target.size:
                target[i] = source[i]

        self.kernels = {"fill": fill, "copy": copy}

    def current(self):
        return self.cuda.get_current_device().id

    def make_current(self, index):
        self.cuda.select_device(index)

    def new_array(self, index):
        with self.cuda.gpus[index]:
            return self.cuda.to_device(
                self.numpy.zeros(BYTES, dtype=self.numpy.uint8))

    def pointer(self, array):
        return array.__cuda_array_interface__["data"][0]

    def new_stream(self, index):
        with self.cuda.gpus[index]:
            return self.cuda.stream()

    def native(self, stream):
        return int(stream.__cuda_stream__()[1])

    def adopt(self, native, index):
        with self.cuda.gpus[index]:
            return self.cuda.external_stream(native)

    def fill(self, index, stream, array, value):
        with self.cuda.gpus[index]:
            self.kernels["fill"][BYTES // 256, 256, stream](
                array, self.numpy.uint8(value))

    def copy(self, index, stream, target, source):
        with self.cuda.gpus[index]:
            self.kernels["copy"][BYTES // 256, 256, stream](target, source)

    def synchronize(self, stream):
        stream.synchronize()

    def held_bytes(self, index):
        return 0


PEERS = {"driver": Driver, "torch": Torch, "cupy": Cupy, "numba": Numba}
