// SPDX-License-Identifier: Apache-2.0
//
// devrt.from_dlpack: the steps of interop.md 1.3.

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "devrt/arrays/dlpack.h"
#include "devrt/guards/device_guard.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/device.h"
#include "python/src/dlpack.h"
#include "python/src/dlpack_producer.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

constexpr char kVersioned[] = "dltensor_versioned";
constexpr char kLegacy[] = "dltensor";
constexpr char kUsedVersioned[] = "used_dltensor_versioned";
constexpr char kUsedLegacy[] = "used_dltensor";

// ---- Capsules (step 9) ------------------------------------------------------

// Takes the tensor out.  It is the array's from the beginning, so that nobody
// else can take it meanwhile; a refused one is given back.
template <typename Tensor>
PyObject* Take(PyObject* capsule, const char* name, const char* used,
               const DLPackImport& how) {
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, name));
  if (tensor == nullptr || PyCapsule_SetName(capsule, used) != 0) {
    return nullptr;
  }
  const CallSite site = SiteHere();
  auto array = WithoutLock([&] { return FromDLPack(tensor, how, site); });
  if (!array.ok()) {
    PyCapsule_SetName(capsule, name);
    return RaiseExchange(array.status());
  }
  return WrapArray(*std::move(array));
}

PyObject* RefuseCapsule(const char* name) {
  if (std::strcmp(name, kUsedVersioned) == 0 ||
      std::strcmp(name, kUsedLegacy) == 0) {
    PyErr_Format(PyExc_ValueError,
                 "the capsule '%s' has been taken already: a capsule is "
                 "consumed once, ask its producer for another",
                 name);
  } else {
    PyErr_Format(PyExc_ValueError,
                 "the capsule '%s' is not one of DLPack's: expected "
                 "'dltensor_versioned' or 'dltensor'",
                 name);
  }
  return nullptr;
}

PyObject* TakeCapsule(PyObject* capsule, PyTypeObject* producer,
                      DLPackImport how) {
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    return RefuseCapsule("");
  }
  if (std::strcmp(name, kVersioned) == 0) {
    return Take<DLManagedTensorVersioned>(capsule, kVersioned, kUsedVersioned,
                                          how);
  }
  if (std::strcmp(name, kLegacy) == 0) {
    // It cannot say that nobody may write (step 10).
    how.read_only = producer != nullptr && IsImmutable(producer);
    return Take<DLManagedTensor>(capsule, kLegacy, kUsedLegacy, how);
  }
  return RefuseCapsule(name);
}

// ---- The exchange API (step 3) ----------------------------------------------

void Delete(DLManagedTensorVersioned* tensor) {
  if (tensor->deleter == nullptr) return;
  WithoutLock([&] {
    tensor->deleter(tensor);
    return 0;
  });
}

// The current stream comes after the producer's; false with an exception.
bool OrderAfterProducer(const DLPackExchangeAPI* api, DLDevice device) {
  if (api == ExchangeApi() || !HasQueue(device)) return true;
  const std::optional<Device> found =
      WithoutLock([&] { return FindDLPackDevice(device); });
  if (!found.has_value()) return true;  // the import says what is wrong
  void* native = nullptr;
  if (api->current_work_stream(device.device_type, found->index(), &native) !=
      0) {
    return false;
  }
  const absl::Status status = WithoutLock(
      [&] { return OrderAfterNative(CurrentStream(*found), native); });
  if (!status.ok()) RaiseExchange(status);
  return status.ok();
}

PyObject* ImportByApi(const DLPackExchangeAPI* api, PyObject* x,
                      const DLPackImport& how) {
  DLManagedTensorVersioned* tensor = nullptr;
  if (api->managed_tensor_from_py_object_no_sync(x, &tensor) != 0) {
    return nullptr;
  }
  if (!OrderAfterProducer(api, tensor->dl_tensor.device)) {
    Delete(tensor);
    return nullptr;
  }
  const CallSite site = SiteHere();
  auto array = WithoutLock([&] { return FromDLPack(tensor, how, site); });
  if (!array.ok()) {
    Delete(tensor);
    return RaiseExchange(array.status());
  }
  return WrapArray(*std::move(array));
}

// ---- __dlpack__ (steps 4 to 8) ----------------------------------------------

// The stream that a producer is told, and what is behind it.
struct Told {
  Ref stream;                    // the devrt.Stream that is current
  Ref number;                    // what is passed; null: nothing
  std::optional<StreamRef> ref;  // of `stream`
  // Not `ref` where it has no number that producers take.
  std::optional<StreamRef> bridge;
};

// One per device, made when first needed and never ended.
absl::StatusOr<StreamRef> BridgeStream(Device device) {
  struct Entry {
    Device device;
    Stream stream;
  };
  static Mutex* mutex = new Mutex;
  static auto* streams = new std::vector<Entry>;
  const MutexLock lock(mutex);
  for (const Entry& entry : *streams) {
    if (entry.device == device) return entry.stream.ref();
  }
  DEVRT_ASSIGN_OR_RETURN(Stream made, Stream::Create(device));
  streams->push_back({device, std::move(made)});
  return streams->back().stream.ref();
}

// Step 6; false with an exception.
bool Tell(DeviceObject* device, Told* told) {
  told->stream = Ref(CurrentStreamObject(device));
  if (!told->stream) return false;
  const StreamRef current = AsStream(told->stream.get())->ref;
  told->ref = current;
  const auto number = WithoutLock([&]() -> absl::StatusOr<int64_t> {
    if (current.kind() != StreamKind::kPerThread) return StreamNumber(current);
    DEVRT_ASSIGN_OR_RETURN(const StreamRef bridge,
                           BridgeStream(device->device));
    told->bridge = bridge;
    return StreamNumber(bridge);
  });
  if (!number.ok()) {
    RaiseExchange(number.status());
    return false;
  }
  told->number = Ref(PyLong_FromLongLong(*number));
  return static_cast<bool>(told->number);
}

// What of the told stream's order the producer has not seen to.
absl::Status Order(const Told& told, bool was_passed) {
  if (!told.ref.has_value()) return absl::OkStatus();
  if (!was_passed) {
    // A producer without a stream has ordered its default stream, or waited.
    const StreamRef usual = DefaultStream(told.ref->device());
    return usual == *told.ref ? absl::OkStatus() : told.ref->Wait(usual);
  }
  return told.bridge.has_value() ? told.ref->Wait(*told.bridge)
                                 : absl::OkStatus();
}

PyObject* ImportByMethods(PyObject* x, DLPackImport how) {
  DLDevice named;
  if (!AskDevice(x, &named)) return nullptr;
  Told told;
  std::optional<DeviceGuard> guard;
  if (HasQueue(named)) {
    const std::optional<Device> found =
        WithoutLock([&] { return FindDLPackDevice(named); });
    if (!found.has_value()) {
      PyErr_Format(PyExc_BufferError,
                   "%s is memory of DLPack device (%d, %d), which no backend "
                   "that can be used here has",
                   TypeName(x), static_cast<int>(named.device_type),
                   static_cast<int>(named.device_id));
      return nullptr;
    }
    DeviceObject* device = WrapDevice(*found);
    if (device == nullptr) return nullptr;
    WithoutLock([&] {
      guard.emplace(*found);
      return 0;
    });
    if (!guard->status().ok()) return RaiseExchange(guard->status());
    if (!Tell(device, &told)) return nullptr;
    if (IsNumpy(x)) told.number = Ref();
  }
  bool passed = false;
  const Ref capsule(
      AskCapsule(x, told.number.get(), how.copy == false, &passed));
  if (!capsule) return nullptr;
  const absl::Status status = WithoutLock([&] { return Order(told, passed); });
  if (!status.ok()) return RaiseExchange(status);
  return TakeCapsule(capsule.get(), Py_TYPE(x), how);
}

// ---- Arguments --------------------------------------------------------------

bool ReadArguments(PyObject* const* args, Py_ssize_t count, PyObject* names,
                   PyObject** x, DLPackImport* how) {
  static const Parameters kParameters = {
      "from_dlpack", 1, 1, 3, {"x, by position", "device", "copy"}};
  PyObject* values[3];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return false;
  }
  *x = values[0];
  if (values[2] != nullptr && values[2] != Py_None) {
    bool copy = false;
    if (!ToBool(values[2], "copy", &copy)) return false;
    how->copy = copy;
  }
  if (values[1] == nullptr || values[1] == Py_None) return true;
  how->place = ParsePlace(values[1], false);
  return how->place.has_value();
}

}  // namespace

PyObject* FromDLPackObject(PyObject*, PyObject* const* args, Py_ssize_t count,
                           PyObject* names) {
  PyObject* x = nullptr;
  DLPackImport how;
  if (!ReadArguments(args, count, names, &x, &how)) return nullptr;
  if (PyCapsule_CheckExact(x)) return TakeCapsule(x, nullptr, how);
  const DLPackExchangeAPI* api = FindExchangeApi(Py_TYPE(x));
  if (api == nullptr && PyErr_Occurred() != nullptr) return nullptr;
  if (!IsArray(x) && !CheckShareable(x)) return nullptr;
  return api != nullptr ? ImportByApi(api, x, how) : ImportByMethods(x, how);
}

}  // namespace devrt::python
