// SPDX-License-Identifier: Apache-2.0
//
// The layer `faults` in front of one backend.

#ifndef DEVRT_SIM_FAULT_TABLE_H_
#define DEVRT_SIM_FAULT_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/runtime/backend.h"
#include "runtime/registry/records.h"

namespace devrt::sim {

// A call or an operation that can fail.
struct FaultPoint {
  std::string call;
  uint64_t index = 0;  // among those of its name, from 1
  uint64_t place = 0;  // among all operations, from 1; 0 for a call
  std::string file;
  int line = 0;
  int32_t device = -1;  // of a call; -1: it names none
  uint32_t forms = 0;   // DEVRT_FAULT_*; 0 for an operation
  // devrt made the call to free what it keeps, when the body had returned.
  bool is_behind_body = false;
};

class FaultTable {
 public:
  // FAILED_PRECONDITION if the layer is not in front of the backend.
  static absl::StatusOr<FaultTable> Find(Backend backend);

  Backend backend() const { return backend_; }
  const std::vector<internal::DeviceRecord*>& devices() const;

  absl::Status Set(std::string_view rules) const;
  absl::Status Record(bool on) const;
  absl::StatusOr<std::vector<FaultPoint>> Points() const;
  // How many calls failed by rules.
  absl::StatusOr<uint64_t> Fired() const;
  // How many objects of each kind are alive, in the order of kNames.
  static constexpr const char* kNames[] = {"stream",
                                           "event",
                                           "block",
                                           "pinned block",
                                           "range",
                                           "flag",
                                           "virtual memory object"};
  absl::StatusOr<std::vector<int64_t>> Live() const;

 private:
  FaultTable(Backend backend, const devrt_faults_v0* table, void* self)
      : backend_(backend), table_(table), self_(self) {}
  absl::Status Checked(devrt_status status) const;

  Backend backend_;
  const devrt_faults_v0* table_;
  void* self_;
};

}  // namespace devrt::sim

#endif  // DEVRT_SIM_FAULT_TABLE_H_
