// SPDX-License-Identifier: Apache-2.0
//
// The rules of the layer `faults` in front of a simulator.  They are part of
// its replay tokens, and they count from the begin of each run.
//
// Threads: as the layer's extension, any.  Without the layer there is no rule.

#ifndef DEVRT_RUNTIME_REGISTRY_CALL_FAULTS_H_
#define DEVRT_RUNTIME_REGISTRY_CALL_FAULTS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// Returns `token`, which the simulator has made, with the rules behind it.
absl::StatusOr<std::string> WithCallFaults(const BackendRecord& backend,
                                           std::string token);

// A token in two parts.
struct SplitToken {
  std::string schedule;  // what the simulator reads
  std::string rules;     // of the layer
};
// FAILED_PRECONDITION unless the rules of the token are those of the program,
// or some of them in their order.
absl::StatusOr<SplitToken> SplitCallFaults(const BackendRecord& backend,
                                           std::string_view token);
// Lets the program's rules count from now on.
absl::Status RestartCallFaults(const BackendRecord& backend);
// Lets those of the program's rules count that a token has.
absl::Status FollowCallFaults(const BackendRecord& backend,
                              const std::string& rules);
// The program has set other rules.
void ForgetLeftFaults(const BackendRecord& backend);

// Called when a backend with its layers is open.  If it is a simulator, whose
// first machine repeats the token of DEVRT_SIM_REPLAY, the token's rules come
// into force.  FAILED_PRECONDITION if others are, by DEVRT_FAULTS, or if the
// layer is missing.
absl::Status FollowTokenOfEnvironment(const BackendRecord& backend);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_CALL_FAULTS_H_
