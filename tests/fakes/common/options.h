// SPDX-License-Identifier: Apache-2.0
//
// The machine that a fake driver imitates, described by one environment
// variable such as DEVRT_FAKE_CUDA.
//
//   DEVRT_FAKE_CUDA="devices=1,version=11080,missing=cuStreamGetCtx"
//
//   devices=N          how many devices (default: DEVRT_MTIA's, or 2)
//   version=N          the driver's version (default: its header's)
//   missing=A+B        entry points that this driver does not have, or what its
//                      devices do not: memory_pools
//   no_device          initialisation answers "no device"
//   init=CODE          initialisation answers CODE
//   init=hang          it never comes back
//   init=crash         it ends the process with SIGSEGV
//   fail=NAME@N:CODE   the N-th call of NAME fails with CODE, nothing else
//   lost=NAME@N:CODE   from the N-th call of NAME on, every call that concerns
//                      a device fails with CODE
//   QUIRK              one of the vendor's, see its driver.h
//   quirks             all of them
//
// A wrong key ends the process with a message.

#ifndef DEVRT_TESTS_FAKES_COMMON_OPTIONS_H_
#define DEVRT_TESTS_FAKES_COMMON_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::fake {

struct Failure {
  std::string name;  // empty: none
  unsigned long nth = 1;
  int code = 0;
};

struct Options {
  unsigned long devices = 0;  // 0: not said
  int version = 0;            // 0: not said
  std::vector<std::string> missing;
  int init = 0;
  enum class Start { kReturns, kHangs, kCrashes } start = Start::kReturns;
  Failure fail, lost;
  uint32_t quirks = 0;

  bool IsMissing(const std::string& name) const;
};

// The options of the environment, which is read once.
const Options& TheOptions();

// Returns true if the quirk is on.  `quirk` is its number in kVendor.quirks.
template <typename Quirk>
bool Has(Quirk quirk) {
  return (TheOptions().quirks >> static_cast<unsigned>(quirk) & 1) != 0;
}

// Says why on stderr, and aborts.
[[noreturn]] void Die(const char* format, ...)
    __attribute__((format(printf, 1, 2)));

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_OPTIONS_H_
