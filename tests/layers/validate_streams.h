// SPDX-License-Identifier: Apache-2.0
//
// Two streams under the validate layer, for tests that ask for the findings of
// a part of a program.  Such a test runs in a child process:
//
//   InChild([] {
//     const TwoStreams s;
//     const validate::Scope scope;
//     s.Race("twice");
//     EXPECT_THAT(KindsOf(scope), Contains("write-after-write"));
//   });
//
// Threads: one.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_STREAMS_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_STREAMS_H_

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {

inline constexpr uint64_t kBytes = 4096;

inline void Use(StreamRef stream, Access access, const char* name) {
  LaunchOptions options;
  options.name = name;
  EXPECT_OK(Launch(
      stream, {access}, [](const LaunchContext&) {}, options));
}

inline absl::Status EnableQuietly() {
  setenv("DEVRT_LOG", "off", 1);
  return validate::Enable();
}

// Two streams and memory of a device, with the layer.
struct TwoStreams {
  // Two unordered writes.
  void Race(const char* name) const {
    Use(a, Write(block, kBytes), name);
    Use(b, Write(block, kBytes), name);
  }

  absl::Status enabled = EnableQuietly();
  Device device = Must(GetDevice("mtia:0"));
  Stream a = Must(Stream::Create(device));
  Stream b = Must(Stream::Create(device));
  void* block = Must(Allocate(device, kBytes));
};

inline std::vector<std::string> KindsOf(const validate::Scope& scope) {
  std::vector<std::string> kinds;
  for (const validate::Finding& finding : scope.Findings()) {
    kinds.push_back(finding.kind);
  }
  return kinds;
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_STREAMS_H_
