// SPDX-License-Identifier: Apache-2.0
//
// Random programs for allocators.  Each step stands for itself: what it means
// depends on what is alive, and with any steps taken out what is left is a
// program, so that one that fails can be shrunk.

#ifndef DEVRT_TESTS_MEMORY_MODEL_PROGRAM_H_
#define DEVRT_TESTS_MEMORY_MODEL_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace devrt::testing {

struct Step {
  enum Kind : uint32_t {
    kAllocate,
    kFree,
    kEmpty,
    kResetPeak,
    kResetAccumulated,
    kFraction,
    kTooMuch,  // beyond the fraction
    // The following only in programs with uses.
    kFill,         // by devrt's own operation
    kRecord,       // RecordStream
    kFreeOn,       // on another stream
    kOrder,        // one stream waits for another
    kSynchronize,  // the host for one
    kSpin,         // a stream is busy for a while
    // The following only in hard ones.
    kReplace,  // a stream ends, another is in its place
    kSetting,  // another way to take memory or to pass it on
  };
  Kind kind;
  uint32_t stream;
  uint64_t number;  // bytes, or which block
};

using Program = std::vector<Step>;

enum class Mix { kPlain, kUses, kHard };

Program MakeProgram(uint64_t seed, size_t steps, uint32_t streams, Mix mix);

// The shortest program found that still fails.
Program Shrink(Program program,
               const std::function<bool(const Program&)>& fails);

std::string ToString(const Program& program);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_MODEL_PROGRAM_H_
