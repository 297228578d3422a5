# SPDX-License-Identifier: Apache-2.0
"""devrt.from_dlpack of tensors of PyTorch: bits, and what cannot be shared (E54)."""

import pathlib
import sys

import pytest

np = pytest.importorskip("numpy")

import devrt

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "interop"))
import stubs  # noqa: E402


def host(shape=(2, 3), dtype="float32"):
    return (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)


# ---- torch's bits (E54) ------------------------------------------------------


@pytest.mark.parametrize("bit", ["requires_grad", "conjugate", "negative"])
def test_bits_of_torch(bit):
    producer = stubs.TorchTensor(stubs.Forged(host()).capsule)
    devrt.from_dlpack(producer)
    setattr(producer, bit, True)
    with pytest.raises(BufferError):
        devrt.from_dlpack(producer)


@pytest.mark.parametrize("kind", [RuntimeError, ValueError, BufferError])
def test_unexportable_torch_tensors_raise_a_short_buffer_error(kind):
    """By the methods, as PyTorch before 2.9 is asked."""
    class Tensor(stubs.TorchTensor):
        def answer(self, keywords):
            raise kind("Cannot pack tensors on meta\nframe #0: c10::Error")

    class Nowhere(stubs.TorchTensor):
        def __dlpack_device__(self):
            raise kind("Unknown device type meta for Dlpack")

    for tensor, said in ((Tensor, "Cannot pack tensors on meta"),
                         (Nowhere, "Unknown device type meta for Dlpack")):
        with pytest.raises(BufferError) as info:
            devrt.from_dlpack(tensor(None))
        assert str(info.value) == f"{tensor.__name__} cannot be shared: {said}"


@pytest.mark.parametrize("says,remedy", [
    ({"layout": "torch.strided", "is_meta": False, "is_quantized": False}, ""),
    ({"layout": "torch.sparse_csr"},
     " (its layout is torch.sparse_csr: use .to_dense())"),
    ({"layout": "torch.sparse_coo", "is_meta": True},
     " (it is on the device meta and has no memory)"),
    ({"layout": "torch.strided", "is_quantized": True},
     " (it is quantized: use .dequantize())"),
])
def test_what_torch_cannot_export_has_the_remedy_of_its_kind(says, remedy):
    class Tensor(stubs.TorchTensor):
        def answer(self, keywords):
            raise RuntimeError("no")

    tensor = Tensor(None)
    for name, value in says.items():
        setattr(tensor, name, value)
    with pytest.raises(BufferError) as info:
        devrt.from_dlpack(tensor)
    assert str(info.value) == f"Tensor cannot be shared: no{remedy}"


@pytest.mark.parametrize("text", ["CUDA error: an illegal memory access",
                                  "HIP error: an illegal memory access"])
def test_device_errors_do_not_become_buffer_errors(text):
    error = RuntimeError(text + "\nof an earlier kernel")

    class Tensor(stubs.TorchTensor):
        def answer(self, keywords):
            raise error

    with pytest.raises(RuntimeError) as info:
        devrt.from_dlpack(Tensor(None))
    assert info.value is error


def test_tensors_of_torch_that_have_no_plain_memory():
    torch = pytest.importorskip("torch")
    dense = torch.eye(3)
    for tensor, remedy in (
            (dense.to_sparse(), "use .to_dense())"),
            (dense.to_sparse_csr(), "use .to_dense())"),
            (dense.to("meta"), "has no memory)"),
            (torch.quantize_per_tensor(dense, 1.0, 0, torch.qint8),
             "use .dequantize())")):
        with pytest.raises(BufferError) as info:
            devrt.from_dlpack(tensor)
        assert "cannot be shared: " in str(info.value)
        assert str(info.value).endswith(remedy)
        assert "\n" not in str(info.value)
