// SPDX-License-Identifier: Apache-2.0
//
// devrt.from_dlpack: the steps E52 to E61.

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "arrays/storage/storage.h"
#include "arrays/storage/storage_kept.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "devrt/guards/device_guard.h"
#include "devrt/runtime/status.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/bridge.h"
#include "python/src/call_site.h"
#include "python/src/device.h"
#include "python/src/dlpack.h"
#include "python/src/dlpack_copy.h"
#include "python/src/dlpack_order.h"
#include "python/src/dlpack_producer.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/keep_current.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

constexpr char kVersioned[] = "dltensor_versioned";
constexpr char kLegacy[] = "dltensor";
constexpr char kUsedVersioned[] = "used_dltensor_versioned";
constexpr char kUsedLegacy[] = "used_dltensor";

// ---- Capsules (E60) ---------------------------------------------------------

// Takes the tensor out of the capsule.  The capsule is marked as used first, so
// that nobody else can take the tensor meanwhile.  A refused tensor goes back.
// `producer` is null if the program passed the capsule.
template <typename Tensor>
PyObject* Take(PyObject* capsule, const char* name, const char* used,
               PyObject* producer, DLPackImport how) {
  auto* tensor = static_cast<Tensor*>(PyCapsule_GetPointer(capsule, name));
  if (tensor == nullptr || PyCapsule_SetName(capsule, used) != 0) {
    return nullptr;
  }
  if ((producer != nullptr && !CheckNotCopied(*tensor, producer, how)) ||
      !PrepareCopy(*tensor, &how)) {
    const KeepException keep;
    PyCapsule_SetName(capsule, name);
    return nullptr;
  }
  const SiteHere site;
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
    PyErr_Format(g_exceptions.invalid_argument,
                 "the capsule '%s' has been taken already: a capsule is "
                 "consumed once, ask its producer for another",
                 name);
  } else {
    PyErr_Format(g_exceptions.invalid_argument,
                 "the capsule '%s' is not one of DLPack's: expected "
                 "'dltensor_versioned' or 'dltensor'",
                 name);
  }
  return nullptr;
}

PyObject* TakeCapsule(PyObject* capsule, PyObject* producer, DLPackImport how) {
  const char* name = PyCapsule_GetName(capsule);
  if (name == nullptr) {
    if (PyErr_Occurred() != nullptr) return nullptr;
    return RefuseCapsule("");
  }
  if (std::strcmp(name, kVersioned) == 0) {
    return Take<DLManagedTensorVersioned>(capsule, kVersioned, kUsedVersioned,
                                          producer, how);
  }
  if (std::strcmp(name, kLegacy) == 0) {
    // A legacy tensor has no read-only flag (E61).
    how.read_only = producer != nullptr && IsImmutable(Py_TYPE(producer));
    return Take<DLManagedTensor>(capsule, kLegacy, kUsedLegacy, producer, how);
  }
  return RefuseCapsule(name);
}

// ---- The exchange API (E54) -------------------------------------------------

void Delete(DLManagedTensorVersioned* tensor) {
  if (tensor->deleter == nullptr) return;
  const KeepException keep;
  WithoutLock([&] {
    tensor->deleter(tensor);
    return 0;
  });
}

// Raises if `code`, which the exchange API returned for `x`, is an error.
bool Succeeded(int code, PyObject* x) {
  if (code == 0) return true;
  if (PyErr_Occurred() == nullptr) {
    PyErr_Format(PyExc_BufferError,
                 "the exchange API of %s failed and did not say why",
                 TypeName(x));
  } else {
    RaiseAsBufferError(x);
  }
  return false;
}

// Returns false with an exception set.
bool AskWorkStream(const DLPackExchangeAPI* api, PyObject* x,
                   const DLTensor& tensor, WorkStream* stream) {
  const DLDevice named = tensor.device;
  if (!IsStreamOrdered(named)) return true;
  stream->device = FindDevice(named);
  if (stream->device.has_value()) {
    stream->data = DeviceOfData(tensor, named, *stream->device);
  }
  // The import reports a device that no backend has.
  return !stream->device.has_value() ||
         Succeeded(
             api->current_work_stream(named.device_type,
                                      stream->device->index(), &stream->native),
             x);
}

// Returns true if the import orders nothing, submits and ends nothing, and
// loads no backend.
bool IsBrief(const DLTensor& tensor, const WorkStream& stream,
             const DLPackImport& how) {
  if (!IsPlainImport(how) || tensor.data == nullptr ||
      internal::HasPendingReleases()) {
    return false;
  }
  if (!stream.device.has_value()) return tensor.device.device_type == kDLCPU;
  return stream.data == stream.device && stream.native == nullptr &&
         CurrentStream(*stream.device).kind() == StreamKind::kDefault;
}

// Returns null with an exception set.
DLManagedTensorVersioned* AskTensor(const DLPackExchangeAPI* api, PyObject* x) {
  DLManagedTensorVersioned* tensor = nullptr;
  if (!Succeeded(api->managed_tensor_from_py_object_no_sync(x, &tensor), x)) {
    return nullptr;
  }
  if (tensor == nullptr) {
    PyErr_Format(PyExc_BufferError, "the exchange API of %s gave no tensor",
                 TypeName(x));
  }
  return tensor;
}

// Orders an import that may copy, and waits ahead of it, after which the import
// orders nothing.  Returns false with an exception set.
bool OrderAndPrepare(const DLManagedTensorVersioned& tensor, WorkStream* stream,
                     DLPackImport* how) {
  const SiteHere site;
  const absl::Status ordered =
      WithoutLock([&] { return OrderAfterWork(*stream, site); });
  if (!ordered.ok()) {
    RaiseExchange(ordered);
    return false;
  }
  stream->device.reset();
  return PrepareCopy(tensor, how);
}

// Imports by the exchange API.  `keep` is null for PyTorch: its API does not
// change the current device and streams, as was measured (E12), and its tensors
// end with the GIL held.
PyObject* ImportByApi(const ProducerType& type, PyObject* x, DLPackImport* how,
                      KeepCurrent* keep) {
  const DLPackExchangeAPI* const api = type.api;
  const Ref kept = Ref::To(type.capsule);  // the questions may run any code
  DLManagedTensorVersioned* const tensor = AskTensor(api, x);
  if (tensor == nullptr) return nullptr;
  WorkStream stream;
  // In a tensor of another major version only the version can be read.
  const bool readable = tensor->version.major == DLPACK_MAJOR_VERSION;
  bool ok = !readable || (CheckShareable(x, tensor->dl_tensor.dtype) &&
                          CheckNotCopied(*tensor, x, *how) &&
                          AskWorkStream(api, x, tensor->dl_tensor, &stream));
  if (keep != nullptr) keep->RestoreStreams();
  if (ok && !IsPlainImport(*how)) ok = OrderAndPrepare(*tensor, &stream, how);
  if (!ok) {
    Delete(tensor);
    return nullptr;
  }
  const SiteHere site;
  const auto import = [&] { return FromDLPack(tensor, *how, site); };
  const auto order_and_import = [&]() -> absl::StatusOr<Array> {
    DEVRT_RETURN_IF_ERROR(OrderAfterWork(stream, site));
    return import();
  };
  auto array = readable && IsBrief(tensor->dl_tensor, stream, *how)
                   ? QuickCall(import)
                   : WithoutLock(order_and_import);
  if (!array.ok()) {
    Delete(tensor);
    return RaiseExchange(array.status());
  }
  PyObject* const object = WrapArray(*std::move(array));
  if (object != nullptr) AsArray(object)->ends_with_lock = keep == nullptr;
  return object;
}

// A function of its own: inline, its optional KeepCurrent would be cleared in
// every import of PyTorch's tensors.
__attribute__((noinline)) PyObject* ImportKeepingCurrent(
    const ProducerType& type, PyObject* x, DLPackImport* how) {
  KeepCurrent keep;
  return ImportByApi(type, x, how, &keep);
}

// Imports an array of devrt: copies it, or exports it without order and imports
// the result, which FromDLPack recognises.
absl::StatusOr<Array> ShareOrCopy(const Array& own, const DLPackImport& how,
                                  CallSite site) {
  if (IsCopyWanted(own.place(), how)) {
    const Place to = how.place.value_or(own.place());
    return to != own.place() ? own.To(to, false, site) : own.Copy(site);
  }
  // Imports of pinned memory are not ordered by a stream.
  DLPackExport unordered;
  unordered.stream = -1;
  DEVRT_ASSIGN_OR_RETURN(DLManagedTensorVersioned* const tensor,
                         own.place().kind() == MemoryKind::kPinned
                             ? ToDLPack(own, unordered, site)
                             : ExportNoSync(own, site));
  absl::StatusOr<Array> made = FromDLPack(tensor, how, site);
  if (!made.ok()) tensor->deleter(tensor);
  return made;
}

PyObject* ImportOwn(PyObject* x, DLPackImport how) {
  const Array& own = ArrayOf(x);
  const auto held = own.storage();  // see array_owner.h
  if (!PrepareCopy(own, &how)) return nullptr;
  const SiteHere site;
  auto array = WithoutLock([&] { return ShareOrCopy(own, how, site); });
  if (!array.ok()) return RaiseExchange(array.status());
  return WrapArray(*std::move(array));
}

// ---- __dlpack__ (E55 to E59) ------------------------------------------------

// Returns the tensor that TakeCapsule will read.  Null if it will refuse the
// capsule.
const DLTensor* Peek(PyObject* capsule) {
  const char* const name = PyCapsule_GetName(capsule);
  if (name == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  void* const tensor = PyCapsule_GetPointer(capsule, name);
  if (std::strcmp(name, kVersioned) == 0) {
    auto* const versioned = static_cast<DLManagedTensorVersioned*>(tensor);
    return versioned->version.major == DLPACK_MAJOR_VERSION
               ? &versioned->dl_tensor
               : nullptr;
  }
  return std::strcmp(name, kLegacy) == 0
             ? &static_cast<DLManagedTensor*>(tensor)->dl_tensor
             : nullptr;
}

// The stream that a producer is given, and the streams behind it.
struct ProducerStream {
  Ref stream;                    // the devrt.Stream that is current
  Ref number;                    // what is passed; null: nothing
  std::optional<StreamRef> ref;  // of `stream`
  // The bridge that is passed if producers do not accept the number of `ref`.
  std::shared_ptr<Stream> bridge;

  ~ProducerStream() {
    if (bridge == nullptr) return;
    const Unlocked unlocked;  // may be the last reference
    bridge.reset();
  }
};

// Chooses the stream for the producer (E57).  Returns false with an exception
// set.
bool ChooseProducerStream(DeviceObject* device, ProducerStream* chosen) {
  chosen->stream = Ref(CurrentStreamObject(device));
  if (!chosen->stream) return false;
  const StreamRef current = AsStream(chosen->stream.get())->ref;
  chosen->ref = current;
  const auto find = [&]() -> absl::StatusOr<int64_t> {
    if (current.kind() != StreamKind::kPerThread) return StreamNumber(current);
    DEVRT_ASSIGN_OR_RETURN(chosen->bridge, BridgeStream(device->device));
    return StreamNumber(chosen->bridge->ref());
  };
  // The default stream's number is known without a call.
  const auto number =
      current.kind() == StreamKind::kDefault ? find() : WithoutLock(find);
  if (!number.ok()) {
    RaiseExchange(number.status());
    return false;
  }
  chosen->number = Ref(PyLong_FromLongLong(*number));
  return static_cast<bool>(chosen->number);
}

// Adds the order that the producer did not.  Releases the GIL around driver
// calls.
absl::Status CompleteOrder(const ProducerStream& chosen, bool was_passed) {
  if (!chosen.ref.has_value() || (was_passed && chosen.bridge == nullptr)) {
    return absl::OkStatus();
  }
  const SiteHere site;
  return WithoutLock([&] {
    if (was_passed) return chosen.ref->Wait(chosen.bridge->ref(), site);
    // A producer that took no stream has ordered its default stream, or waited.
    const StreamRef usual = DefaultStream(chosen.ref->device());
    return usual == *chosen.ref ? absl::OkStatus()
                                : chosen.ref->Wait(usual, site);
  });
}

absl::Status OrderCapsule(PyObject* capsule, const ProducerStream& chosen,
                          DLDevice named) {
  const DLTensor* const tensor = Peek(capsule);
  if (!chosen.ref.has_value() || tensor == nullptr) return absl::OkStatus();
  const Device asked = chosen.ref->device();
  const std::optional<Device> data = DeviceOfData(*tensor, named, asked);
  if (data == asked) return absl::OkStatus();
  const SiteHere site;
  return WithoutLock([&] { return OrderData(data, asked, site); });
}

// Makes the device current for the scope of `guard`.  Returns false with an
// exception set.
bool Enter(DeviceObject* device, std::optional<DeviceGuard>* guard) {
  if (__builtin_expect(device->entered, 1)) {
    // Writes only state of this thread, so the GIL stays, as in `with device`.
    guard->emplace(device->device);
  } else {
    WithoutLock([&] { return guard->emplace(device->device).status().ok(); });
    device->entered = (*guard)->status().ok();
  }
  if (!(*guard)->status().ok()) RaiseExchange((*guard)->status());
  return (*guard)->status().ok();
}

bool IsHostMemory(DLDevice device) {
  return device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
         device.device_type == kDLROCMHost;
}

PyObject* RefuseDevice(PyObject* x, DLDevice named) {
  PyErr_Format(PyExc_BufferError,
               "%s is memory of DLPack device (%d, %d), which no backend "
               "that can be used here has",
               TypeName(x), static_cast<int>(named.device_type),
               static_cast<int>(named.device_id));
  return nullptr;
}

PyObject* ImportByMethods(PyObject* x, DLPackImport how) {
  DLDevice named;
  KeepCurrent keep;
  if (!GetDLPackDevice(x, &named)) return nullptr;
  keep.Restore();
  if (!IsStreamOrdered(named) && !IsHostMemory(named)) {
    return RefuseDevice(x, named);
  }
  ProducerStream chosen;
  std::optional<DeviceGuard> guard;
  if (IsStreamOrdered(named)) {
    const std::optional<Device> found = FindDevice(named);
    if (!found.has_value()) {
      return RefuseDevice(x, named);
    }
    DeviceObject* device = WrapDevice(*found);
    if (device == nullptr || !Enter(device, &guard) ||
        !ChooseProducerStream(device, &chosen)) {
      return nullptr;
    }
    if (IsNumpy(x)) chosen.number = Ref();
  }
  bool passed = false;
  const Ref capsule(
      GetDLPackCapsule(x, chosen.number.get(), how.copy == false, &passed));
  if (!capsule) return nullptr;
  keep.RestoreStreams();
  absl::Status status = CompleteOrder(chosen, passed);
  if (status.ok()) status = OrderCapsule(capsule.get(), chosen, named);
  if (!status.ok()) return RaiseExchange(status);
  return TakeCapsule(capsule.get(), x, how);
}

// ---- Arguments --------------------------------------------------------------

bool ReadArguments(PyObject* const* args, Py_ssize_t count, PyObject* names,
                   PyObject** x, DLPackImport* how) {
  static const Parameters kParameters = {
      "from_dlpack", 1, 1, 3, {"x, by position", "device", "copy"}};
  if (count == 1 && names == nullptr) {
    *x = args[0];
    return true;
  }
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
  if (IsArray(x)) return ImportOwn(x, how);
  if (PyCapsule_CheckExact(x)) return TakeCapsule(x, nullptr, how);
  const ProducerType& type = ProducerTypeOf(Py_TYPE(x));
  if (type.api != nullptr) {
    return type.is_torch ? ImportByApi(type, x, &how, nullptr)
                         : ImportKeepingCurrent(type, x, &how);
  }
  if (PyErr_Occurred() != nullptr || !CheckShareable(x, std::nullopt)) {
    return nullptr;
  }
  return ImportByMethods(x, how);
}

}  // namespace devrt::python
