// SPDX-License-Identifier: Apache-2.0
//
// The function that every fuzz target defines; libFuzzer and replay.cc call it.

#ifndef DEVRT_TESTS_FUZZ_ENTRY_H_
#define DEVRT_TESTS_FUZZ_ENTRY_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Returns 0.  A finding is a crash, a sanitizer's report, or FUZZ_EXPECT.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

// Ends the process unless `condition` holds: the fuzzer keeps the input.
#define FUZZ_EXPECT(condition)                                         \
  do {                                                                 \
    if (!(condition)) {                                                \
      std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, \
                   #condition);                                        \
      std::abort();                                                    \
    }                                                                  \
  } while (false)

#endif  // DEVRT_TESTS_FUZZ_ENTRY_H_
