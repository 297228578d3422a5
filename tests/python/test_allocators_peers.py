# SPDX-License-Identifier: Apache-2.0
"""devrt's memory in CuPy, cuda.core and Numba themselves, on a GPU: graphs that
they capture, and kernels that spin.  Each library in a process of its own, as it
takes an allocator once."""

import importlib.util

import pytest

import devrt

try:
    devrt.devices("cuda")
except devrt.Error as error:
    pytest.skip(f"no cuda: {str(error)[:100]}", allow_module_level=True)


def passes(run_program, library, source, env=None):
    try:
        found = importlib.util.find_spec(library) is not None
    except ModuleNotFoundError:
        found = False
    if not found:
        pytest.skip(f"no {library}")
    done = run_program(source, env=env, timeout=300)
    assert done.returncode == 0 and "passed" in done.stdout, done.stderr


def test_a_graph_of_cupys_keeps_its_temporaries(run_program):
    passes(run_program, "cupy", """
        import cupy
        from devrt import interop
        cupy.cuda.set_allocator(interop.cupy_allocator)
        n = 1 << 20
        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            x, y = cupy.ones(n, "float32"), cupy.zeros(n, "float32")
            warm = [cupy.multiply(x, 2) for _ in range(2)]
            cupy.add(warm[0], 1, out=y)
            del warm
            stream.synchronize()
            stream.begin_capture()
            double = cupy.multiply(x, 2)
            address = double.data.ptr
            cupy.add(double, 1, out=y)
            del double
            graph = stream.end_capture()
            eager = [cupy.zeros(n, "float32") for _ in range(16)]
            x.fill(3)
            graph.launch(stream)
            stream.synchronize()
            assert float(y[0]) == float(y[-1]) == 7, y
            assert all(not e.any() for e in eager), "the graph wrote to one"
            assert address not in [e.data.ptr for e in eager]
        print("passed")
        """)


def test_a_graph_keeps_the_buffers_of_cuda_core(run_program):
    passes(run_program, "cuda.core", """
        import ctypes
        import cuda.core as core
        from devrt import interop
        device = core.Device(0)
        device.set_current()
        stream = device.create_stream()
        resource = interop.cuda_core_memory_resource("cuda:0")
        driver = ctypes.CDLL("libcuda.so.1")
        handle = ctypes.c_void_p(int(stream.handle))
        size = 4 << 20
        resource.allocate(size, stream=stream).close(stream)
        stream.sync()
        graph, launchable = ctypes.c_void_p(), ctypes.c_void_p()
        assert driver.cuStreamBeginCapture_v2(handle, 0) == 0
        buffer = resource.allocate(size, stream=stream)
        address = int(buffer.handle)
        assert driver.cuMemsetD8Async(
            ctypes.c_uint64(address), ctypes.c_ubyte(7), ctypes.c_size_t(size),
            handle) == 0
        buffer.close(stream)
        assert driver.cuStreamEndCapture(handle, ctypes.byref(graph)) == 0
        assert driver.cuGraphInstantiateWithFlags(
            ctypes.byref(launchable), graph, ctypes.c_uint64(0)) == 0
        eager = [resource.allocate(size, stream=stream) for _ in range(8)]
        host = (ctypes.c_ubyte * size)()
        for e in eager:
            assert driver.cuMemsetD8Async(
                ctypes.c_uint64(int(e.handle)), ctypes.c_ubyte(0),
                ctypes.c_size_t(size), handle) == 0
        assert driver.cuGraphLaunch(launchable, handle) == 0
        stream.sync()
        for e in eager:
            assert int(e.handle) != address
            assert driver.cuMemcpyDtoH_v2(
                host, ctypes.c_uint64(int(e.handle)), ctypes.c_size_t(size)) == 0
            assert not any(host), "the graph wrote to one"
        print("passed")
        """)


def test_a_block_of_numbas_is_nobodys_before_its_work_is_over(run_program):
    passes(run_program, "numba.cuda", """
        import numpy as np
        import devrt
        import numpy as np
        if not hasattr(np, "row_stack"):  # numba-cuda 0.30 needs the old name
            np.row_stack = np.vstack
        from numba import cuda

        @cuda.jit
        def copy(out, x):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = x[i]

        n, shape = 1 << 20, ((1 << 20) // 256, 256)
        x, out = cuda.to_device(np.ones(n)), cuda.device_array(n)
        copy[shape](out, x)
        cuda.synchronize()
        out.copy_to_device(np.zeros(n))
        busy = devrt.Stream("cuda:0", blocking=True)
        theirs = cuda.external_stream(busy.native_handle)
        other = cuda.stream()
        twos = cuda.to_device(np.full(n, 2.0))
        cuda.synchronize()
        devrt._core._spin(100_000_000, busy)
        copy[(*shape, theirs)](out, x)
        address = x.device_ctypes_pointer.value
        del x
        following = cuda.device_array(n)
        assert not busy.query(), "the stream should spin still"
        assert following.device_ctypes_pointer.value != address
        copy[(*shape, other)](following, twos)
        cuda.synchronize()
        assert (out.copy_to_host() == 1).all()
        del following
        last = [cuda.device_array(n) for _ in range(8)]
        assert address in [a.device_ctypes_pointer.value for a in last]
        print("passed")
        """, env={"NUMBA_CUDA_MEMORY_MANAGER": "devrt.interop"})
