// SPDX-License-Identifier: Apache-2.0
//
// Findings as text and as JSON, with ids that stay over runs and builds.
//
//   race-7f3a21c4 [read-after-write] 4096 bytes at block 12 + 0
//     (device memory of mtia:0, 4096 bytes, allocated at train.cc:40)
//     earlier  write  "scale"  stream 1 of mtia:0  train.cc:52
//     later    read   "sum"    stream 2 of mtia:0  train.cc:57
//     nothing orders them: stream 2 comes after stream 1 up to train.cc:48
//     near miss: stream 2 waits at train.cc:55 for an event that was recorded
//       on stream 1 at train.cc:50 before the earlier operation
//     to mend it: record an event on stream 1 after train.cc:52, and let
//       stream 2 wait for it before train.cc:57
//
// With call stacks each operation is followed by the functions that led to it:
//
//     earlier  write  "scale"  stream 1 of mtia:0  train.cc:52
//       in step, train.cc:52
//       called by epoch, train.cc:80
//       called by main, train.cc:101
//
// On hardware the text ends with the command that looks for the mistake on the
// simulator, where a run that repeats a wrong value can be found:
//
//     to repeat it: DEVRT_BACKENDS=mtia devrt check --witness -- ./train 3
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_REPORT_H_
#define DEVRT_LAYERS_VALIDATE_REPORT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "layers/validate/call_stacks.h"
#include "layers/validate/detector.h"
#include "layers/validate/op_id.h"
#include "layers/validate/texts.h"

namespace devrt::race {

// Names for reports, which the detector does not know.
class Names {
 public:
  virtual ~Names() = default;
  virtual std::string ActorName(Actor actor) const = 0;  // "stream 1 of cuda:0"
  virtual std::string DeviceName(uint32_t device) const = 0;  // "mtia:0"
  // The host thread that made the calls whose name has this number, such as
  // "host thread 2"; empty: not told.
  virtual std::string ThreadOf(uint32_t name) const = 0;
  virtual const std::string& Text(uint32_t number) const = 0;
  // The call stack of the calls whose site has this number; no frames: unknown.
  virtual CallStack StackOf(uint32_t /*site*/) const { return {}; }
  // True if the actor is a stream of a device that is no simulator.
  virtual bool IsOnHardware(Actor /*actor*/) const { return false; }
  // The operation as a simulator names it.
  virtual OpId OpOf(const Operation& /*operation*/) const { return {}; }
};

// "read-after-write" and others: the words of reports and of suppressions.
std::string_view KindName(FindingKind kind);

// "race-7f3a21c4": a hash of the kind and of the two places, in either order,
// without folders, addresses and call stacks.  So the id is one for all runs,
// builds and checkouts.
std::string FindingId(const Finding& finding, const Names& names);

// The id of a finding that `text` tells from all others.
std::string HashedId(std::string_view text);
// The part of a place that stays over checkouts and builds: the file without
// its folders, and of "program+0x1234 (main)" no offset.
std::string StablePlace(const std::string& site);

// The lines of the stack, and its members of an operation in JSON; none for a
// stack that is unknown.
std::string StackLines(const CallStack& stack);
void AddStack(const CallStack& stack, nlohmann::json* operation);

std::string FindingText(const Finding& finding, const Names& names);
// One line of JSON without a newline.
std::string FindingJson(const Finding& finding, const Names& names);

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_REPORT_H_
