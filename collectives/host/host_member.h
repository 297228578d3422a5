// SPDX-License-Identifier: Apache-2.0
//
// Member: the place of one rank, behind a devrt_comm of an engine on host
// memory, and the engine's table.
//
//   Member* const member = Member::Of(comm);
//   DEVRT_RETURN_IF_ERROR(member->CheckReady());
//   member->comm()->Start(op);
//
// Ownership: comm_begin makes a member, and comm_destroy deletes it.
// Threads: any, but one at a time uses comm().

#ifndef DEVRT_COLLECTIVES_HOST_HOST_MEMBER_H_
#define DEVRT_COLLECTIVES_HOST_HOST_MEMBER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_plugin_util.h"
#include "devrt/collectives/host_engine.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/status.h"
#include "runtime/plugins/host_table.h"

namespace devrt::collectives::internal {

// The table's `self`: an engine, for the devices of one backend.
struct HostTable {
  HostTable(HostEngine* of, Backend on)
      : engine(of), backend(on), name(of->name()), version(of->version()) {}

  HostEngine* const engine;
  const Backend backend;
  const std::string name, version;
};

inline devrt_status Refuse(const absl::Status& status) {
  return status.ok() ? nullptr
                     : plugin::Error(
                           devrt::internal::HostTable(),
                           static_cast<devrt_code>(status.code()), 0,
                           {status.message().data(), status.message().size()});
}

// The place of one rank, behind a devrt_comm.
class Member {
 public:
  Member(const HostTable* table, Device device,
         const devrt_comm_options_v0* options,
         std::unique_ptr<HostCommunicator> comm)
      : table_(table),
        device_(device),
        name_(options != nullptr && options->name != nullptr ? options->name
                                                             : ""),
        timeout_ns_(options != nullptr ? options->timeout_ns : 0),
        comm_(std::move(comm)) {}

  static Member* Of(devrt_comm comm) { return reinterpret_cast<Member*>(comm); }
  devrt_comm handle() { return reinterpret_cast<devrt_comm>(this); }

  const HostTable& table() const { return *table_; }
  Device device() const { return device_; }
  uint32_t ranks() const { return place_.ranks; }
  uint32_t rank() const { return place_.rank; }
  HostCommunicator* comm() const { return comm_.get(); }
  uint64_t timeout_ns() const { return timeout_ns_; }

  // Asks the engine while the communicator is PENDING; one thread at a time
  // does, and the others are told that it is PENDING.
  absl::StatusOr<bool> Poll() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (!failure_.ok()) return failure_;
      if (is_ready_) return true;
      if (std::exchange(is_polled_, true)) return false;
    }
    absl::StatusOr<bool> ready =
        is_finishing_ ? comm_->Finish() : comm_->IsReady();
    const std::lock_guard<std::mutex> lock(mutex_);
    is_polled_ = false;
    if (!failure_.ok()) return failure_;
    if (!ready.ok()) {
      failure_ = ready.status();
    } else if (*ready) {
      place_ = comm_->place();
      is_ready_ = true;
    }
    return ready;
  }
  // OK if operations may be submitted.
  absl::Status CheckReady() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) {
      return absl::AbortedError(
          absl::StrCat(Text(), " has failed before: ", failure_.message()));
    }
    if (is_finishing_) {
      return absl::FailedPreconditionError(
          absl::StrCat(Text(), " was finished"));
    }
    if (is_ready_) return absl::OkStatus();
    return absl::FailedPreconditionError(
        absl::StrCat(Text(), " is PENDING: poll until it is READY"));
  }
  // PENDING until every rank has come to its end.  Every operation is complete
  // when submit returns.
  absl::Status Finish() {
    DEVRT_RETURN_IF_ERROR(CheckReady());
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_finishing_ = true;
      is_ready_ = false;
    }
    return Poll().status();
  }
  // Fails it, unless it has failed before.
  void Fail(absl::Status why) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (failure_.ok()) failure_ = std::move(why);
  }
  bool HasFailed() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !failure_.ok();
  }
  // The engine still works for it: it outlives the member.
  std::unique_ptr<HostCommunicator> Take() { return std::move(comm_); }

  // `communicator "grads" (rank 0 of 2, mtia:0)`
  std::string Text() const {
    return absl::StrCat(
        "communicator ", name_.empty() ? "" : absl::StrCat("\"", name_, "\" "),
        "(rank ", place_.rank, " of ", place_.ranks, ", ", device_.name(), ")");
  }

 private:
  const HostTable* const table_;
  const Device device_;
  const std::string name_;
  const uint64_t timeout_ns_;
  std::unique_ptr<HostCommunicator> comm_;
  HostPlace place_;  // set before it is ready
  mutable std::mutex mutex_;
  bool is_ready_ = false;  // guarded by mutex_, as the next ones
  bool is_polled_ = false;
  std::atomic<bool> is_finishing_{false};
  absl::Status failure_;
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_HOST_HOST_MEMBER_H_
