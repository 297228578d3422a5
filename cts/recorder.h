// SPDX-License-Identifier: Apache-2.0
//
// The layer in front of the backend under test.  It records the last calls as
// text, in memory that outlives the worker.

#ifndef DEVRT_CTS_RECORDER_H_
#define DEVRT_CTS_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

// Lies in memory shared by supervisor and worker, so its lines survive a crash
// of the worker.  Lines that a worker overwrote by mistake still end.
class CallRing {
 public:
  static constexpr uint64_t kLines = 256;
  static constexpr uint64_t kWidth = 152;

  // Takes a new line and returns its number, from 1.
  uint64_t Take() { return last_.fetch_add(1, std::memory_order_relaxed) + 1; }
  // Sets the text of a line: at most kWidth characters with the NUL.  May be
  // called again for the line.  Does nothing if a newer line has its place.
  void Write(uint64_t number, const char* text);

  // The last lines, the oldest first.
  std::vector<std::string> Lines() const;
  // No other thread or process may write meanwhile.
  void Clear();

 private:
  struct Line {
    // Twice the line's number; plus 1 during a write.
    std::atomic<uint64_t> state;
    char text[kWidth];
  };
  std::atomic<uint64_t> last_;
  Line lines_[kLines];
};

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
