// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory, and the description of pointers.

#include "devrt/memory/pinned_memory.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/raw_memory.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/handed_out.h"
#include "python/src/wait.h"

namespace devrt::python {
namespace {

BackendEntry* NamedOrActive(nb::object backend) {
  if (!backend.is_none()) return BackendOf(backend);
  BackendEntry* active = ActiveBackend();
  // Opening the backend again fails in a forked child.
  if (active != nullptr) active = OpenBackend(active->backend.name());
  if (active == nullptr) ThrowPythonError();
  return active;
}

nb::dict Statistics(nb::object backend) {
  const Backend of = NamedOrActive(backend)->backend;
  ReleaseFinishedMemory();
  nb::dict dict;
  for (const auto& [key, value] :
       WithoutLock([&] { return ToKeys(GetPinnedStatistics(of)); })) {
    dict[nb::str(key.c_str())] = value;
  }
  return dict;
}

void ResetPeak(nb::object backend) {
  const Backend of = NamedOrActive(backend)->backend;
  ReleaseFinishedMemory();
  const Unlocked unlocked;
  ResetPeakPinnedStatistics(of);
}

void ResetAccumulated(nb::object backend) {
  const Backend of = NamedOrActive(backend)->backend;
  ReleaseFinishedMemory();
  const Unlocked unlocked;
  ResetAccumulatedPinnedStatistics(of);
}

void EmptyHostCache(nb::object backend) {
  BackendEntry* entry = NamedOrActive(backend);
  const Backend of = entry->backend;
  ReleaseFinishedMemory();
  RunOrThrow(*entry, [=] { return EmptyPinnedCache(of); });
}

nb::int_ Alloc(nb::object size, nb::object device) {
  const uint64_t bytes = BytesOf(size, "size");
  const Device of = DeviceOf(device.ptr());
  const SiteHere site;
  return HandedOutPinned().HandOut(
      Check(WithoutLock([&] { return AllocatePinned(of, bytes, site); })));
}

void Delete(nb::object pointer) {
  HandedOutPinned().TakeBack(pointer, [](void* block, CallSite site) {
    return FreePinned(block, site);
  });
}

void Register(nb::object pointer, nb::object size, nb::object device) {
  void* address = AddressOf(pointer, "pointer");
  const uint64_t bytes = BytesOf(size, "size");
  const Device of = DeviceOf(device.ptr());
  const SiteHere site;
  Check(WithoutLock([&] { return RegisterHost(of, address, bytes, site); }));
}

void Unregister(nb::object pointer, nb::object device) {
  void* address = AddressOf(pointer, "pointer");
  DeviceObject* object = ParseDevice(device.ptr());
  if (object == nullptr) ThrowPythonError();
  const Device of = object->device;
  const SiteHere here;
  const CallSite site = here;  // for the waiting thread too
  RunOrThrow(*object->backend,
             [=] { return UnregisterHost(of, address, site); });
}

bool Pinned(nb::object pointer) {
  const void* address = AddressOf(pointer, "pointer");
  return Check(WithoutLock([&] { return IsPinned(address); }));
}

nb::dict Describe(nb::object pointer) {
  const void* address = AddressOf(pointer, "pointer");
  const PointerInfo info =
      Check(WithoutLock([&] { return GetPointerInfo(address); }));
  nb::dict dict;
  dict["kind"] = ToString(info.kind);
  dict["device"] =
      info.device.has_value() ? ToObject(*info.device) : nb::none();
  dict["base"] = AddressToInt(info.base);
  dict["size"] = info.size;
  dict["id"] = info.id;
  dict["host_readable"] = info.host_readable;
  return dict;
}

}  // namespace

void BindHostMemory(nb::module_& module) {
  module.def(
      "host_memory_stats", &Statistics, nb::arg("backend") = nb::none(),
      "Returns the 28 statistics of a backend's pinned memory.  Times are in\n"
      "microseconds.");
  module.def("reset_peak_host_memory_stats", &ResetPeak,
             nb::arg("backend") = nb::none(),
             "Sets each peak to the current value.");
  module.def("reset_accumulated_host_memory_stats", &ResetAccumulated,
             nb::arg("backend") = nb::none(),
             "Sets totals: freed bytes to 0, allocated bytes to those in use.");
  module.def(
      "empty_host_cache", &EmptyHostCache, nb::arg("backend") = nb::none(),
      "Returns unused pinned memory without pending work to the driver.\n\n"
      "Ctrl-C ends the wait if a driver waits.  The memory is returned\n"
      "nevertheless.");
  module.def(
      "pinned_alloc", &Alloc, nb::arg("size"), nb::arg("device") = nb::none(),
      "Returns the address of `size` bytes of pinned host memory, or 0 for no\n"
      "bytes.\n\n"
      "Raises OutOfMemoryError, and ValueError for a negative size.");
  module.def(
      "pinned_delete", &Delete, nb::arg("pointer"),
      "Frees memory of pinned_alloc.  Copies by devrt may still use it.");
  module.def(
      "register_host", &Register, nb::arg("pointer"), nb::arg("size"),
      nb::arg("device") = nb::none(),
      "Page-locks `size` bytes at `pointer`, which must stay allocated until\n"
      "unregister_host.");
  module.def("unregister_host", &Unregister, nb::arg("pointer"),
             nb::arg("device") = nb::none(),
             "Ends register_host for that memory.  A driver may wait for the "
             "device's\n"
             "work.\n\n"
             "Ctrl-C ends that wait.  The memory is then unregistered when the "
             "work is\n"
             "over, and must stay allocated until then.");
  module.def(
      "is_pinned", &Pinned, nb::arg("pointer"),
      "Returns True if devices access that host address directly, whoever\n"
      "page-locked it.");
  module.def(
      "pointer_info", &Describe, nb::arg("pointer"),
      "Returns kind ('unregistered', 'device', 'pinned', 'managed'), device,\n"
      "base, size (bytes), id and host_readable of the block that contains an\n"
      "address.");
}

}  // namespace devrt::python
