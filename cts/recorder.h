// SPDX-License-Identifier: Apache-2.0
//
// The layer in front of the backend under test.  It records the last calls in
// a CallRing.

#ifndef DEVRT_CTS_RECORDER_H_
#define DEVRT_CTS_RECORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cts/call_ring.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

// The table in front of the backend under test.
struct Front {
  void* self = nullptr;
  const devrt_ops_v0* ops = nullptr;
  uint64_t capabilities = 0;
  const devrt_host_v0* host = nullptr;
};

// The layer "devrt_cts", for RegisterLayer.
extern const devrt_manifest_v0 kRecorderManifest;
devrt_status OpenRecorder(const devrt_host_v0* host, devrt_layer_v0* layer);

// Sets where calls are recorded; nullptr: they are not recorded.
void SetCallRing(CallRing* ring);
// Calls `watcher` with the name of each later call before the call; nullptr
// ends that.
void WatchCalls(void (*watcher)(const char* call));
// Starts a test: numbers handles from 1 again, and forgets answers.
void ForgetTest();

// Required or promised slots that answered UNIMPLEMENTED in this test.
std::vector<UnwrittenSlot> UnwrittenSlots();
// The names of the slots that were called since the process began.
std::vector<std::string> CalledSlots();
// The slots that every backend must have, in table order.
std::vector<std::string> RequiredSlots();
// The front of the backend with that name; ops is nullptr before it is opened.
Front FrontOf(const std::string& backend);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RECORDER_H_
