// SPDX-License-Identifier: Apache-2.0
//
// Parts of every call: initialisation, codes, handles.
#include "tests/fakes/cuda/driver.h"

#include <cstdlib>
#include <numeric>

#include "tests/fakes/common/vendor.h"

namespace devrt::fake {
namespace {

constexpr const char* kQuirks[] = {"bare_records", "early_reads", nullptr};

// Hardware as measured, and host threads that nobody orders.
constexpr const char* kSimulated[] = {"profile=cuda", "queue_depth=1022",
                                      "slots=128",    "baton=off",
                                      "pin=off",      nullptr};

// The simulator's numbers are the runtime's; the driver has fewer below 100.
int Code(int64_t native) {
  for (const int of_the_runtime : {9, 12, 13, 16, 17, 21, 98}) {
    if (native == of_the_runtime) return CUDA_ERROR_INVALID_VALUE;
  }
  return static_cast<int>(native);
}

// CUDA_VISIBLE_DEVICES: numbers, up to the first that is none.
std::vector<uint32_t> Choose(uint32_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const char* const variable = std::getenv("CUDA_VISIBLE_DEVICES");
  return variable != nullptr ? VisibleOf(all, variable) : all;
}

}  // namespace

extern const Vendor kVendor;
const Vendor kVendor = {"fake CUDA driver",
                        "DEVRT_FAKE_CUDA",
                        kQuirks,
                        kSimulated,
                        &Code,
                        CUDA_ERROR_INVALID_VALUE,
                        CUDA_ERROR_OUT_OF_MEMORY,
                        CUDA_ERROR_UNKNOWN,
                        CUDA_ERROR_NOT_INITIALIZED,
                        CUDA_ERROR_NO_DEVICE,
                        CUDA_ERROR_NOT_PERMITTED};

Registry<CUctx_st>& Contexts() {
  static auto* const contexts = new Registry<CUctx_st>();
  return *contexts;
}
Registry<CUstream_st>& Streams() {
  static auto* const streams = new Registry<CUstream_st>();
  return *streams;
}
Registry<CUevent_st>& Events() {
  static auto* const events = new Registry<CUevent_st>();
  return *events;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return static_cast<CUresult>(Initialise(&Choose));
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const int said = TheOptions().version;
  *version = said != 0 ? said : CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  const CUresult error = Enter("cuDeviceGetCount", kQuiet);
  if (error != CUDA_SUCCESS) return error;
  *count = static_cast<int>(DeviceCount());
  return CUDA_SUCCESS;
}
