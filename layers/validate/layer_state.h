// SPDX-License-Identifier: Apache-2.0
//
// The state of the loaded layer, and values of the plugin ABI in the words of
// the Validator.
//
// Threads: any.  The host opens one backend at a time, before calls to that
// backend.  Only `pages` changes while calls to other backends run.

#ifndef DEVRT_LAYERS_VALIDATE_LAYER_STATE_H_
#define DEVRT_LAYERS_VALIDATE_LAYER_STATE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/inlined_vector.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_own_query.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_stream_number.h"
#include "layers/validate/validator.h"

namespace devrt::race {

class PinnedPages;
class SimulatedRun;

struct LayerState {
  const devrt_host_v0* host = nullptr;
  Validator* validator = nullptr;  // nullptr: DEVRT_RACE=off
  Findings* findings = nullptr;    // of the validator
  bool tells_leaks = false;        // at the end, without a Shutdown
  bool has_told_leaks = false;
  CodePlaces* places = nullptr;      // of pinned pages and of stacks
  CallStacks* all_stacks = nullptr;  // of the validator
  bool never_takes_stacks = false;   // DEVRT_RACE_STACKS=off
  // all_stacks, or nullptr: calls get no stacks.
  std::atomic<CallStacks*> stacks{nullptr};
  bool throws = false;          // calls with a finding are refused
  bool wants_witness = false;   // from the start
  SimulatedRun* run = nullptr;  // of the simulator; nullptr: none is open
  // The run, once a witness is wanted.
  std::atomic<SimulatedRun*> witnessed{nullptr};
  const devrt_stream_number_v0* numbers = nullptr;  // nullptr: older host
  const devrt_own_query_v0* own_queries = nullptr;  // nullptr: older host
  // Of the simulator; nullptr: it was not opened.
  std::atomic<PinnedPages*> pages{nullptr};
};
inline LayerState g_layer;

inline MemoryAccess Accessed(const void* ptr, uint64_t size, Mode mode) {
  return {reinterpret_cast<uint64_t>(ptr), size, mode};
}

inline StreamKind KindOf(const devrt_stream_desc_v0& desc) {
  if (desc.kind == DEVRT_STREAM_LEGACY) return StreamKind::kLegacy;
  return desc.kind == DEVRT_STREAM_PER_THREAD ||
                 (desc.flags & DEVRT_STREAM_BLOCKING) != 0
             ? StreamKind::kBlocking
             : StreamKind::kNonBlocking;
}

// Few accesses need no allocation.
using ShortList = absl::InlinedVector<MemoryAccess, 8>;

ShortList Accesses(const devrt_access_v0* accesses, uint32_t count);

// Asks the backend what it has at an address.
Validator::HasMemory MemoryQuestion(const devrt_next_v0* next);

// The simulator's name of the operation that the calling thread does now.
// Unknown unless a witness is wanted.
OpId NextOp(OpId::Kind kind);

// The number of the calling thread's call stack, while stacks are wanted.
uint32_t TakeStack();
// Lets calls take stacks, or not.  Returns true if they took stacks before.
bool SetStacks(bool wanted);

// The calling thread's present call of the program, without a stack: for what
// only orders work.  `name` is a literal for a call to which the program gave
// no name, also not in `given`.
inline Caller LineOf(const char* name, const char* given = nullptr) {
  const devrt_call_site_v0* const site =
      g_layer.host->call_site(g_layer.host->host);
  if (site->label != nullptr) given = site->label;
  Caller caller;
  caller.name = given == nullptr ? name : given;
  caller.is_static = given == nullptr;
  caller.file = site->file;
  caller.line = site->line;
  if (ABSL_PREDICT_FALSE(g_layer.witnessed != nullptr)) {
    caller.op = NextOp(OpId::Kind::kNext);
  }
  return caller;
}

// Returns LineOf(name) with the number of the call's stream.
inline Caller LineOn(const char* name, devrt_stream stream,
                     const char* given = nullptr) {
  Caller caller = LineOf(name, given);
  if (g_layer.numbers != nullptr) {
    caller.stream_number = g_layer.numbers->number(g_layer.host->host, stream);
  }
  return caller;
}

// The caller of what uses, makes or ends memory: an operation of a finding.
inline Caller CallerOf(const char* name, const char* given = nullptr) {
  Caller caller = LineOf(name, given);
  if (ABSL_PREDICT_FALSE(g_layer.stacks != nullptr)) caller.stack = TakeStack();
  return caller;
}
inline Caller CallerOn(const char* name, devrt_stream stream,
                       const char* given = nullptr) {
  Caller caller = LineOn(name, stream, given);
  if (ABSL_PREDICT_FALSE(g_layer.stacks != nullptr)) caller.stack = TakeStack();
  return caller;
}

// Adds the result of the run on the simulator to the file of findings, if a
// witness is wanted.
void EndRun();

// The accesses of the host function that the calling thread enqueues next.  Its
// call takes them.
inline thread_local std::vector<MemoryAccess> t_host_func_accesses;

// Sets `numbers` and `own_queries` of g_layer.
void FindHostExtensions();

// Opens and closes pages of pinned memory after a change of what uses them.
void UpdatePages();

// nullptr, or the error that refuses a call with the finding `found`.
devrt_status Refusal(const std::string& found);
inline devrt_status Verdict(const std::string& found) {
  return ABSL_PREDICT_TRUE(found.empty()) ? nullptr : Refusal(found);
}

// Tells which streams of a backend record a graph.  What they get runs when
// another library launches the graph, which no call shows.
struct Captures {
  const devrt_capture_v0* table = nullptr;  // nullptr: the backend has none
  void* self = nullptr;
  DeviceKey device0 = 0;  // of the backend

  // Says once that such work is not seen.  The driver is asked for streams that
  // another library can capture only.
  bool Has(devrt_stream stream) const {
    return table != nullptr && MayHave(stream) && Ask(stream);
  }
  static bool MayHave(devrt_stream stream) {
    return g_layer.numbers == nullptr ||
           !DEVRT_HAS_FIELD(g_layer.numbers, devrt_stream_number_v0,
                            may_be_captured) ||
           g_layer.numbers->may_be_captured(g_layer.host->host, stream) != 0;
  }
  bool Ask(devrt_stream stream) const;
};

// The layer's own table of the extension `name`, whose functions take the
// backend's Captures; nullptr: the layer has no such table.
const void* OwnExtension(const char* name);

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_LAYER_STATE_H_
