// SPDX-License-Identifier: Apache-2.0
//
// The layer in front of the backend under test: writes down the last calls, as
// text, in memory that outlives the worker.

#ifndef DEVRT_CTS_RECORDER_H_
#define DEVRT_CTS_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer.h"

namespace devrt::cts {

// In memory shared by supervisor and worker.
struct CallRing {
  static constexpr uint64_t kLines = 256;
  static constexpr uint64_t kWidth = 152;
  std::atomic<uint64_t> next;
  char lines[kLines][kWidth];

  // The last ones, the oldest first.
  std::vector<std::string> Lines() const;
};

// What stands in front of the backend under test.
struct Front {
  void* self = nullptr;
  const devrt_ops_v0* ops = nullptr;
  uint64_t capabilities = 0;
  const devrt_host_v0* host = nullptr;
};

// The layer "devrt_cts", for RegisterLayer.
extern const devrt_manifest_v0 kRecorderManifest;
devrt_status OpenRecorder(const devrt_host_v0* host, devrt_layer_v0* layer);

// Where calls are written; nullptr: nowhere.
void SetCallRing(CallRing* ring);
// Handles are numbered from 1 again.
void ForgetHandles();
// The front of the backend of that name; ops is nullptr before it is opened.
Front FrontOf(const std::string& backend);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RECORDER_H_
