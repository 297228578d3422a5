// SPDX-License-Identifier: Apache-2.0
//
// The properties of one fake driver that the shared parts of all fake drivers
// need.  Each fake driver defines kVendor.

#ifndef DEVRT_TESTS_FAKES_COMMON_VENDOR_H_
#define DEVRT_TESTS_FAKES_COMMON_VENDOR_H_

#include <cstdint>

namespace devrt::fake {

struct Vendor {
  const char* name;           // in messages, such as "fake CUDA driver"
  const char* variable;       // of the options, such as "DEVRT_FAKE_CUDA"
  const char* const* quirks;  // names in the order of their bits, then nullptr
  const char* const* simulated;  // keys of DEVRT_MTIA, if it has no others
  // The simulator's numbers are CUDA's runtime's; the driver's own.
  int (*code)(int64_t native);
  // 0 is success for all; others where the simulator gives no number.
  int invalid_value, out_of_memory, unknown;
  // Of every call that has a life cycle.
  int not_initialised, no_device, not_permitted;
};

extern const Vendor kVendor;

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_VENDOR_H_
