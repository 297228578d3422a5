// SPDX-License-Identifier: Apache-2.0
//
// Another library resets a device that is in use: one call of ours after that,
// which must answer, and the end of the process.
//
//   reset_program driver|runtime|again CALL
//
// "again": the driver resets it, and the other library uses it once more, so
// that there is a context, but none of what was in it.
//
// Prints what the call answered.  Exit code 0: an error with the driver's code,
// or success of a call that uses nothing from before the reset, or ends it; 1:
// something else; 77: there is no device, or no CUDA runtime to do it with.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>

#include "devrt/devrt.h"
#include "tests/hardware/driver.h"

namespace {

constexpr uint64_t kSize = 1 << 16;
constexpr int kNothingThere = 77;

template <typename T>
T Must(absl::StatusOr<T> result) {
  if (result.ok()) return *std::move(result);
  std::printf("before the reset: %s\n", result.status().ToString().c_str());
  std::fflush(nullptr);
  std::_Exit(1);
}

// False if there is no runtime library.
bool ResetByRuntime() {
  for (const char* const name :
       {"libcudart.so.13", "libcudart.so.12", "libcudart.so",
        "/usr/local/cuda/lib64/libcudart.so"}) {
    void* const library = dlopen(name, RTLD_NOW);
    if (library == nullptr) continue;
    const auto reset =
        reinterpret_cast<int (*)()>(dlsym(library, "cudaDeviceReset"));
    const int error = reset();
    std::printf("cudaDeviceReset of %s: %d\n", name, error);
    if (error != 0) std::exit(1);
    return true;
  }
  return false;
}

void ResetByDriver() { DRIVER_OK(DRIVER_CALL(cuDevicePrimaryCtxReset)(0)); }

struct Before {
  devrt::Device device;
  std::optional<devrt::Stream> stream, other;
  std::optional<devrt::Event> event;
  void* memory;
  void* pinned;
};

using Call = std::function<absl::Status(Before*)>;

constexpr const char* kMaySucceed[] = {"allocate",      "allocate_host",
                                       "create_stream", "memory_info",
                                       "guard",         "destroy"};

const std::map<std::string, Call>& Calls() {
  static const auto* const calls = new std::map<std::string, Call>{
      {"fill",
       [](Before* b) {
         return devrt::FillAsync(*b->stream, b->memory, 1, kSize);
       }},
      {"copy",
       [](Before* b) {
         return devrt::CopyAsync(*b->stream, b->pinned, b->memory, kSize);
       }},
      {"launch", [](Before* b) { return devrt::Spin(*b->stream, 1000); }},
      {"record", [](Before* b) { return b->event->Record(*b->stream); }},
      {"wait", [](Before* b) { return b->stream->Wait(*b->event); }},
      {"query_stream", [](Before* b) { return b->stream->Query().status(); }},
      {"synchronize_stream",
       [](Before* b) { return b->stream->Synchronize(); }},
      {"query_event", [](Before* b) { return b->event->Query().status(); }},
      {"synchronize_event", [](Before* b) { return b->event->Synchronize(); }},
      {"synchronize_device", [](Before* b) { return b->device.Synchronize(); }},
      {"allocate",
       [](Before* b) { return devrt::Allocate(b->device, kSize).status(); }},
      {"allocate_host",
       [](Before* b) {
         return devrt::AllocateHost(b->device, kSize).status();
       }},
      {"create_stream",
       [](Before* b) { return devrt::Stream::Create(b->device).status(); }},
      {"memory_info",
       [](Before* b) { return b->device.GetMemoryInfo().status(); }},
      {"guard",
       [](Before* b) { return devrt::DeviceGuard(b->device).status(); }},
      {"host_function",
       [](Before* b) {
         return devrt::LaunchHostFunc(*b->stream, [](absl::Status) {});
       }},
      {"destroy",
       [](Before* b) {
         b->stream.reset();
         b->event.reset();
         const absl::Status freed = devrt::Free(b->device, b->memory);
         const absl::Status host = devrt::FreeHost(b->pinned);
         return freed.ok() ? host : freed;
       }},
  };
  return *calls;
}

int Run(const std::string& by, const std::string& name, const Call& call) {
  const auto device = devrt::GetDevice("cuda:0");
  if (!device.ok()) {
    std::printf("%s\n", device.status().ToString().c_str());
    return absl::IsUnavailable(device.status()) ? kNothingThere : 1;
  }
  Before before{*device,
                Must(devrt::Stream::Create(*device)),
                Must(devrt::Stream::Create(*device)),
                Must(devrt::Event::Create(*device)),
                Must(devrt::Allocate(*device, kSize)),
                Must(devrt::AllocateHost(*device, kSize))};
  (void)Must(devrt::Flag::Create(*device));
  const absl::Status used = before.event->Record(*before.stream);
  if (!used.ok()) return 1;

  if (by == "runtime") {
    // As a library does that has device 0 current, and leaves so.
    const devrt::DeviceGuard guard(*device);
    if (!ResetByRuntime()) {
      std::printf("there is no libcudart\n");
      return kNothingThere;
    }
  } else {
    ResetByDriver();
  }
  if (by == "again") {
    CUcontext context = nullptr;
    DRIVER_OK(DRIVER_CALL(cuDevicePrimaryCtxRetain)(&context, 0));
  }
  const absl::Status status = call(&before);
  std::printf("%s after a reset: %s\n", name.c_str(),
              status.ToString().c_str());
  if (status.ok()) {
    const bool may = std::find(std::begin(kMaySucceed), std::end(kMaySucceed),
                               name) != std::end(kMaySucceed);
    return may ? 0 : 1;
  }
  const auto info = devrt::GetErrorInfo(status);
  return info.has_value() && info->native_code != 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const auto found = argc == 3 ? Calls().find(argv[2]) : Calls().end();
  const std::string by = argc == 3 ? argv[1] : "";
  if (found == Calls().end() ||
      (by != "driver" && by != "runtime" && by != "again")) {
    std::fprintf(stderr, "usage: reset_program driver|runtime|again CALL\n");
    return 2;
  }
  return Run(by, found->first, found->second);
}
