// SPDX-License-Identifier: Apache-2.0
//
// Parts of every call: initialisation, versions.
#include "tests/fakes/hip/driver.h"

#include <cstdlib>
#include <numeric>
#include <string>

#include "tests/fakes/common/vendor.h"
#include "tests/fakes/hip/errors.h"

namespace devrt::fake {
namespace {

constexpr const char* kQuirks[] = {"c9_missing_waits",   "c15_needs_device",
                                   "c16_needs_device",   "c17_drops_work",
                                   "c18_forgets_stream", "c20_slot",
                                   "c27_pending_record", "c37_stale",
                                   "c71_needs_device",   nullptr};

// C53 and C64 as HIP's documents have them, and host threads that nobody
// orders.
constexpr const char* kSimulated[] = {"profile=hip",
                                      "fault_delivery=status",
                                      "fault_scope=process",
                                      "baton=off",
                                      "pin=off",
                                      nullptr};

// ROCR_VISIBLE_DEVICES hides devices from HIP, also all of them when it is
// empty; HIP_VISIBLE_DEVICES, or else CUDA_VISIBLE_DEVICES, chooses among the
// rest, and means nothing when it is empty.
std::vector<uint32_t> Choose(uint32_t count) {
  std::vector<uint32_t> devices(count);
  std::iota(devices.begin(), devices.end(), 0);
  if (const char* const rocr = std::getenv("ROCR_VISIBLE_DEVICES")) {
    devices = VisibleOf(devices, rocr);
  }
  for (const char* const name :
       {"HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}) {
    const char* const list = std::getenv(name);
    if (list != nullptr && *list != '\0') return VisibleOf(devices, list);
  }
  return devices;
}

}  // namespace

extern const Vendor kVendor;
const Vendor kVendor = {"fake HIP driver",
                        "DEVRT_FAKE_HIP",
                        kQuirks,
                        kSimulated,
                        [](int64_t native) { return static_cast<int>(native); },
                        hipErrorInvalidValue,
                        hipErrorOutOfMemory,
                        hipErrorUnknown,
                        hipErrorNotInitialized,
                        hipErrorNoDevice,
                        hipErrorNotSupported};

hipError_t Enter(const char* name, unsigned rules) {
  if (!TheOptions().missing.empty()) {
    Die("missing=: the dynamic linker finds HIP's functions");
  }
  const int error = Initialise(&Choose);
  return static_cast<hipError_t>(error != 0 ? error : EnterCall(name, rules));
}

hipError_t Remember(hipError_t error) {
  return RememberLast(error, Has(kC20Slot));
}

Registry<ihipStream_t>& Streams() {
  static auto* const streams = new Registry<ihipStream_t>();
  return *streams;
}
Registry<ihipEvent_t>& Events() {
  static auto* const events = new Registry<ihipEvent_t>();
  return *events;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

hipError_t hipInit(unsigned flags) {
  return Call("hipInit", kQuiet,
              [&] { return flags == 0 ? hipSuccess : hipErrorInvalidValue; });
}

hipError_t hipRuntimeGetVersion(int* version) {
  if (version == nullptr) return Remember(hipErrorInvalidValue);
  const int said = TheOptions().version;
  *version = said != 0 ? said : HIP_VERSION;
  return Remember(hipSuccess);
}

hipError_t hipDriverGetVersion(int* version) {
  return hipRuntimeGetVersion(version);
}
