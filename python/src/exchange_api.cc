// SPDX-License-Identifier: Apache-2.0
//
// The C exchange API of DLPack 1.3: what devrt.Array offers, and how devrt
// finds it on other types (E12).

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "devrt/arrays/exchange.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/dlpack.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace devrt::python {
namespace {

constexpr char kCapsule[] = "dlpack_exchange_api";

// Releases the GIL if this thread has it.  Some consumers call without it.
template <typename F>
auto Unlock(F&& call) {
  return PyGILState_Check() != 0 ? WithoutLock(call) : call();
}

int Fail(const absl::Status& status,
         PyObject* (*raise)(const absl::Status&) = RaiseExchange) {
  // Nothing is left to report the error to.
  if (!Py_IsInitialized()) return -1;
  const Locked lock;
  raise(status);
  return -1;
}

const Array* CheckArray(void* object) {
  auto* array = static_cast<PyObject*>(object);
  if (array != nullptr && IsArray(array)) return &ArrayOf(array);
  PyErr_Format(PyExc_TypeError, "the exchange API of devrt.Array was given %s",
               array != nullptr ? TypeName(array) : "NULL");
  return nullptr;
}

// Error names that consumers of DLPack know.
const char* KindOf(const absl::Status& status) {
  if (GetExchangeError(status) != ExchangeError::kNone) return "BufferError";
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
      return "ValueError";
    case absl::StatusCode::kResourceExhausted:
      return "MemoryError";
    default:
      return "BufferError";
  }
}

using SetErrorCall = void (*)(void* context, const char* kind,
                              const char* message);

// Sets no Python exception.
int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out,
             void* error_context, SetErrorCall set_error) {
  const auto made = [&]() -> absl::StatusOr<DLManagedTensorVersioned*> {
    if (prototype == nullptr || out == nullptr) {
      return absl::InvalidArgumentError("the prototype or the result is NULL");
    }
    return Unlock([&] { return AllocateLike(*prototype); });
  }();
  if (made.ok()) {
    *out = *made;
    return 0;
  }
  if (set_error != nullptr) {
    const std::string message(made.status().message());
    set_error(error_context, KindOf(made.status()), message.c_str());
  }
  return -1;
}

int FromPython(void* object, DLManagedTensorVersioned** out) {
  const Array* array = CheckArray(object);
  if (array == nullptr) return -1;
  const auto held = array->storage();  // see array_owner.h
  const auto tensor = WithoutLock([&] { return ExportNoSync(*array); });
  if (!tensor.ok()) return Fail(tensor.status(), RaiseExport);
  *out = *tensor;
  return 0;
}

// Takes the tensor if it succeeds.  After a failure the caller still owns the
// tensor and calls its deleter, as tvm-ffi does.
int ToPython(DLManagedTensorVersioned* tensor, void** out) {
  if (tensor == nullptr || out == nullptr) {
    PyErr_SetString(PyExc_ValueError, "the tensor or the result is NULL");
    return -1;
  }
  ReservedObject object;  // before the tensor is taken
  if (!object) return -1;
  auto array = WithoutLock([&] { return FromDLPack(tensor); });
  if (!array.ok()) return Fail(array.status());
  *out = object.Fill(*std::move(array));
  return 0;
}

// Returns memory for the strides of a borrowed view, in elements.  They have to
// live until the view's owner regains control, so each thread keeps the strides
// of its last 128 views.
int64_t* NextStrides() {
  constexpr int kViews = 128;
  constexpr int kDims = 32;
  static thread_local std::unique_ptr<int64_t[]> strides;
  static thread_local int next = 0;
  if (strides == nullptr) strides = std::make_unique<int64_t[]>(kViews * kDims);
  next = (next + 1) % kViews;
  return strides.get() + next * kDims;
}

int Borrow(void* object, DLTensor* out) {
  const Array* array = CheckArray(object);
  if (array == nullptr) return -1;
  const auto held = array->storage();  // see array_owner.h
  int64_t* const strides = NextStrides();
  const absl::Status status =
      WithoutLock([&] { return BorrowNoSync(*array, strides, out); });
  return status.ok() ? 0 : Fail(status, RaiseExport);
}

int WorkStream(DLDeviceType type, int32_t id, void** out) {
  const absl::StatusOr<void*> stream =
      Unlock([&] { return CurrentWorkStream(type, id); });
  if (!stream.ok()) return Fail(stream.status());
  *out = *stream;
  return 0;
}

}  // namespace

DLPackExchangeAPI* ExchangeApi() {
  static DLPackExchangeAPI api = {
      {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
      Allocate,
      FromPython,
      ToPython,
      Borrow,
      WorkStream,
  };
  return &api;
}

PyObject* NewExchangeApiCapsule() {
  return PyCapsule_New(ExchangeApi(), kCapsule, nullptr);
}

const DLPackExchangeAPI* FindExchangeApi(PyTypeObject* type,
                                         PyObject** capsule) {
  static PyObject* const name =
      PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  PyObject* found = _PyType_Lookup(type, name);  // borrowed
  *capsule = found;
  if (found == nullptr) return nullptr;
  if (!PyCapsule_CheckExact(found) || PyCapsule_IsValid(found, kCapsule) == 0) {
    return nullptr;
  }
  const auto* header = static_cast<const DLPackExchangeAPIHeader*>(
      PyCapsule_GetPointer(found, kCapsule));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) {
    header = header->prev_api;
  }
  const auto* api = reinterpret_cast<const DLPackExchangeAPI*>(header);
  // Both functions are required (E12).
  const bool usable = api != nullptr &&
                      api->managed_tensor_from_py_object_no_sync != nullptr &&
                      api->current_work_stream != nullptr;
  return usable ? api : nullptr;
}

}  // namespace devrt::python
