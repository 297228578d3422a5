// SPDX-License-Identifier: Apache-2.0
//
// What devrt.interop is made of: memory on streams that are named by native
// handles, for allocator hooks of other libraries, and the device for which
// exchange() asks for streams.

#include <dlfcn.h>

#include <optional>
#include <string>

#include "devrt/memory/devrt_memory.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "memory/api/adopted_streams.h"
#include "memory/api/captured_blocks.h"
#include "python/src/array.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/handed_out.h"

namespace devrt::python {
namespace {

nb::int_ AllocNative(const std::string& device, nb::object size,
                     nb::object stream) {
  const uint64_t bytes = BytesOf(size, "size");
  void* const handle = AddressOf(stream, "stream");
  const SiteHere site;
  return HandedOutBlocks().HandOut(
      Check(WithoutLock([&]() -> absl::StatusOr<void*> {
        DEVRT_ASSIGN_OR_RETURN(const Device of, GetDevice(device));
        DEVRT_ASSIGN_OR_RETURN(const StreamRef on,
                               internal::StreamByHandle(of, handle));
        return internal::AllocateOutside(on, bytes, site);
      })));
}

absl::Status FreeOn(void* block, void* handle, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const PointerInfo info, GetPointerInfo(block));
  if (!info.device.has_value()) {
    return internal::FreeOutside(block, nullptr, site);
  }
  DEVRT_ASSIGN_OR_RETURN(const StreamRef on,
                         internal::StreamByHandle(*info.device, handle));
  return internal::FreeOutside(block, &on, site);
}

void FreeNative(nb::object pointer, nb::object stream) {
  const bool in_order = !stream.is_none();
  void* const handle = in_order ? AddressOf(stream, "stream") : nullptr;
  HandedOutBlocks().TakeBack(pointer, [=](void* block, CallSite site) {
    return in_order && block != nullptr
               ? FreeOn(block, handle, site)
               : internal::FreeOutside(block, nullptr, site);
  });
}

void StreamEnds(const std::string& device, nb::object stream) {
  void* const handle = AddressOf(stream, "stream");
  Check(WithoutLock([&] { return GetDevice(device); }));
  WithoutLock(
      [&] { return devrt_memory_stream_ends_v0(device.c_str(), handle); });
}

// Returns the path of the shared library that contains devrt.  Related files
// lie beside it.
nb::object LibraryPath() {
  Dl_info info;
  if (dladdr(reinterpret_cast<const void*>(&devrt_memory_alloc_v0), &info) ==
          0 ||
      info.dli_fname == nullptr) {
    return nb::none();
  }
  return ToText(info.dli_fname);
}

// For CuPy's CFunctionAllocator, which passes no stream and takes null as out
// of memory.
void* CupyAllocate(void*, size_t size, int device) {
  const std::string name = "cuda:" + std::to_string(device);
  void* block = nullptr;
  return devrt_memory_alloc_v0(name.c_str(), size, nullptr, &block) == 0
             ? block
             : nullptr;
}

void CupyFree(void*, void* block, int) { (void)devrt_memory_free_v0(block); }

nb::tuple CupyFunctions() {
  return nb::make_tuple(reinterpret_cast<uintptr_t>(&CupyAllocate),
                        reinterpret_cast<uintptr_t>(&CupyFree));
}

// Returns the device whose streams use the array's memory.  None if no stream
// can.
nb::object MemoryDevice(nb::object array) {
  if (!IsArray(array.ptr())) {
    PyErr_Format(PyExc_TypeError, "array must be a devrt.Array, not %s",
                 TypeName(array.ptr()));
    ThrowPythonError();
  }
  const std::optional<Device> device = ArrayOf(array.ptr()).place().device();
  return device.has_value() ? ToObject(*device) : nb::none();
}

}  // namespace

void BindInterop(nb::module_& module) {
  module.def("_alloc_native", &AllocNative, nb::arg("device"),
             nb::arg("size").none(), nb::arg("stream"));
  module.def("_free_native", &FreeNative, nb::arg("pointer").none(),
             nb::arg("stream") = nb::none());
  module.def("_stream_ends", &StreamEnds, nb::arg("device"), nb::arg("stream"));
  module.def("_library_path", &LibraryPath);
  module.def("_cupy_c_functions", &CupyFunctions);
  module.def("_memory_device", &MemoryDevice, nb::arg("array"));
}

}  // namespace devrt::python
