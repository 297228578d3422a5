// SPDX-License-Identifier: Apache-2.0
//
// Device memory: statistics and settings of the allocator.

#include <set>
#include <string>

#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/settings.h"
#include "devrt/memory/statistics.h"
#include "memory/api/captured_blocks.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/error_text.h"
#include "python/src/handed_out.h"
#include "python/src/run_allocation.h"
#include "python/src/wait.h"

namespace devrt::python {
namespace {

nb::dict ToDict(const StatisticKeys& keys) {
  nb::dict dict;
  for (const auto& [key, value] : keys) dict[nb::str(key.c_str())] = value;
  return dict;
}

nb::dict Statistics(nb::object device) {
  const Device of = DeviceOf(device.ptr());
  ReleaseFinishedMemory();
  return ToDict(WithoutLock([&] { return ToKeys(GetMemoryStatistics(of)); }));
}

template <typename F>
auto ForDevice(F function) {
  return [function](nb::object device) {
    const Device of = DeviceOf(device.ptr());
    ReleaseFinishedMemory();
    WithoutLock([&] {
      function(of);
      return 0;
    });
  };
}

nb::int_ Alloc(nb::object size, nb::object stream) {
  const uint64_t bytes = BytesOf(size, "size");
  const StreamRef on = StreamOf(stream.ptr());
  const SiteHere site;
  return HandedOutBlocks().HandOut(Check(RunAllocation(
      [&] { return internal::AllocateOutside(on, bytes, site); })));
}

void Delete(nb::object pointer) {
  HandedOutBlocks().TakeBack(pointer, [](void* block, CallSite site) {
    return internal::FreeOutside(block, nullptr, site);
  });
}

void Mark(nb::object pointer, nb::object stream) {
  const void* address = AddressOf(pointer, "pointer");
  const StreamRef on = StreamOf(stream.ptr());
  const SiteHere site;
  Check(
      WithoutLock([&] { return internal::RecordOutside(address, on, site); }));
}

void Empty(nb::object device) {
  DeviceObject* object = ParseDevice(device.ptr());
  if (object == nullptr) ThrowPythonError();
  const Device of = object->device;
  ReleaseFinishedMemory();
  RunOrThrow(*object->backend, [=] { return EmptyCache(of); });
}

void SetFraction(nb::object fraction, nb::object device) {
  if (!PyFloat_Check(fraction.ptr())) {
    PyErr_Format(PyExc_TypeError,
                 "Invalid type for fraction argument, must be `float`: %s",
                 TypeName(fraction.ptr()));
    ThrowPythonError();
  }
  const double value = PyFloat_AS_DOUBLE(fraction.ptr());
  const Device of = DeviceOf(device.ptr());
  Check(WithoutLock([&] { return SetMemoryFraction(of, value); }));
}

double Fraction(nb::object device) {
  const Device of = DeviceOf(device.ptr());
  return WithoutLock([&] { return GetMemoryFraction(of); });
}

nb::object Report(nb::object device) {
  const Device of = DeviceOf(device.ptr());
  ReleaseFinishedMemory();
  return ToText(WithoutLock([&] { return PythonText(MemoryReport(of)); }));
}

nb::object SnapshotJson(nb::object device) {
  const Device of = DeviceOf(device.ptr());
  ReleaseFinishedMemory();
  return ToText(Check(WithoutLock([&] { return MemorySnapshotJson(of); })));
}

// Registers the devices that have a memory history, for which SiteHere finds
// lines.
void NoteHistory(Device device, bool on) {
  static auto* devices = new std::set<std::string>;  // guarded by the GIL
  if (on) {
    devices->insert(device.name());
  } else {
    devices->erase(device.name());
  }
  SetSiteReader(SiteReader::kMemoryHistory, !devices->empty());
}

void RecordHistory(nb::object enabled, nb::object events, nb::object stacks,
                   nb::object device) {
  bool on = true;
  HistoryOptions options;
  if (!ToBool(enabled.ptr(), "enabled", &on) ||
      !ToBool(stacks.ptr(), "stacks", &options.stacks)) {
    ThrowPythonError();
  }
  options.events = CountOf(events, "events");
  const Device of = DeviceOf(device.ptr());
  Check(WithoutLock([&] {
    return RecordMemoryHistory(
        of, on ? std::optional<HistoryOptions>(options) : std::nullopt);
  }));
  NoteHistory(of, on);
}

nb::object Settings() {
  return ToText(WithoutLock([] { return ToString(GetAllocatorSettings()); }));
}

void SetSettings(const std::string& text) {
  Check(WithoutLock([&] { return SetAllocatorSettings(text); }));
}

void BindStatistics(nb::module_& module) {
  module.def(
      "memory_stats", &Statistics, nb::arg("device") = nb::none(),
      "Returns the 122 statistics of a device's caching allocator, by names\n"
      "like 'active_bytes.all.current'.");
  module.def("reset_peak_memory_stats", ForDevice(ResetPeakMemoryStatistics),
             nb::arg("device") = nb::none(),
             "Sets each peak to the current value.");
  module.def("reset_accumulated_memory_stats",
             ForDevice(ResetAccumulatedMemoryStatistics),
             nb::arg("device") = nb::none(),
             "Sets totals: freed bytes to 0, allocated bytes to those in use.");
  module.def("memory_report", &Report, nb::arg("device") = nb::none(),
             "Returns a report on the memory of a device, as text.");
  module.def(
      "memory_snapshot_json", &SnapshotJson, nb::arg("device") = nb::none(),
      "Returns every segment and block of a device, as JSON of the schema\n"
      "devrt.memory/1.");
  module.def(
      "record_memory_history", &RecordHistory, nb::arg("enabled") = true,
      nb::kw_only(), nb::arg("events") = 100000, nb::arg("stacks") = false,
      nb::arg("device") = nb::none(),
      "Starts or stops keeping the last `events` allocations and frees, with\n"
      "the lines of the program, for reports and snapshots.\n\n"
      "Each device has a history of its own.  Without `device` the call is\n"
      "for the current device only.");
}

}  // namespace

void BindMemory(nb::module_& module) {
  BindStatistics(module);
  module.def(
      "caching_allocator_alloc", &Alloc, nb::arg("size"),
      nb::arg("stream") = nb::none(),
      "Returns the address of `size` bytes of device memory for work on\n"
      "`stream`, or 0 for no bytes.\n\n"
      "Raises OutOfMemoryError, and ValueError for a negative size.  Ctrl-C\n"
      "ends the wait for memory that work still uses.");
  module.def("caching_allocator_delete", &Delete, nb::arg("pointer"),
             "Frees memory of caching_allocator_alloc.  Never waits.\n\n"
             "Raises InvalidArgumentError for any other address.");
  module.def(
      "record_stream", &Mark, nb::arg("pointer"), nb::arg("stream"),
      "Declares that work on `stream` uses the block of `pointer`, until the\n"
      "block is freed.");
  module.def(
      "empty_cache", &Empty, nb::arg("device") = nb::none(),
      "Returns a device's unused memory without pending work to the driver.\n"
      "\n"
      "device: None is the current one.  devrt.mtia.empty_cache() and\n"
      "those of devrt.cuda, devrt.hip and devrt.accelerator return the memory\n"
      "of all devices.\n\n"
      "Call devrt.synchronize() before to return blocks with pending work "
      "too.\n"
      "Ctrl-C ends the wait if a driver's free waits.  The memory is returned\n"
      "nevertheless.");
  module.def(
      "set_per_process_memory_fraction", &SetFraction,
      nb::arg("fraction").none(), nb::arg("device") = nb::none(),
      "Limits what this process may reserve to a fraction of the device's\n"
      "memory.\n\n"
      "Raises TypeError unless `fraction` is a float, and ValueError outside\n"
      "[0, 1].");
  module.def("get_per_process_memory_fraction", &Fraction,
             nb::arg("device") = nb::none(),
             "Returns the fraction that was set last, exactly.");
  module.def("allocator_settings", &Settings,
             "Returns all settings of the allocators as one text.");
  module.def("set_allocator_settings", &SetSettings, nb::arg("settings"),
             "Changes the settings that the text names, in the syntax of\n"
             "DEVRT_ALLOC_CONF: 'pinned_use_cuda_host_register:True'.");
}

}  // namespace devrt::python
