// SPDX-License-Identifier: Apache-2.0
#include "collectives/host/host_table.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/host/host_member.h"
#include "collectives/host/staging.h"
#include "devrt/collectives/host_engine.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/outside_calls.h"
#include "runtime/registry/records.h"

namespace devrt::collectives {
namespace internal {
namespace {

using Clock = std::chrono::steady_clock;

// Communicators that failed while the engine worked for them, and the memory
// that the engine may still use.
struct Lost {
  std::vector<std::unique_ptr<HostCommunicator>> comms;
  std::vector<std::unique_ptr<Staging>> stagings;
};
struct AllLost {
  std::mutex mutex;
  std::list<Lost> lost;
};
AllLost& TheLost() {
  static auto* const lost = new AllLost;  // lives as long as the process
  return *lost;
}
void AddLost(Lost lost) {
  AllLost& all = TheLost();
  const std::lock_guard<std::mutex> guard(all.mutex);
  all.lost.push_back(std::move(lost));
}
absl::StatusOr<bool> AreLoaded(
    const std::vector<std::unique_ptr<Staging>>& stagings) {
  for (const auto& staging : stagings) {
    DEVRT_ASSIGN_OR_RETURN(const bool is_loaded, staging->IsLoaded());
    if (!is_loaded) return false;
  }
  return true;
}
// Frees what has ended meanwhile: a rank came late.
void FreeLost() {
  AllLost& all = TheLost();
  const std::lock_guard<std::mutex> guard(all.mutex);
  for (auto lost = all.lost.begin(); lost != all.lost.end();) {
    const bool is_over = AreLoaded(lost->stagings).value_or(false) &&
                         std::all_of(lost->comms.begin(), lost->comms.end(),
                                     [](const auto& comm) {
                                       return comm->Test().value_or(false);
                                     });
    lost = is_over ? all.lost.erase(lost) : std::next(lost);
  }
}

absl::Status CheckOperation(const Member& member,
                            const devrt_collective_v0& op) {
  if (!member.table().engine->Supports(op.op, op.dtype, op.reduction)) {
    return absl::UnimplementedError(absl::StrCat(
        member.table().name, " has no operation ", op.op, " with reduction ",
        op.reduction, " for the dtype ", op.dtype));
  }
  if (op.root_or_peer < 0 ||
      op.root_or_peer >= static_cast<int32_t>(member.ranks())) {
    return absl::InvalidArgumentError(
        absl::StrCat("root_or_peer is ", op.root_or_peer, ", expected 0 to ",
                     member.ranks() - 1));
  }
  return BytesOf(op, member.ranks(), member.rank()).status();
}

// The operations of one call of submit.
class Submission {
 public:
  Submission(const devrt_submission_v0* submissions, uint32_t count)
      : submissions_(submissions), count_(count) {}

  absl::Status Run() {
    start_ = Clock::now();
    DEVRT_RETURN_IF_ERROR(Check());
    DEVRT_RETURN_IF_ERROR(Load());
    absl::Status status = Await([this] { return AreLoaded(stagings_); },
                                "the earlier work of the stream has not ended");
    if (status.ok()) {
      status = Start();
      if (!status.ok() && started_ == 0 && IsRefusal(status)) return status;
    }
    if (status.ok()) {
      status = Await([this] { return Test(); },
                     "a rank did not come, or submitted something else");
    }
    if (!status.ok()) {
      Lose(status);
      return status;
    }
    for (const auto& staging : stagings_) {
      if (status.ok()) status = staging->Store();
    }
    // The other ranks count the operations, so this one cannot go on without.
    if (!status.ok()) Fail(status);
    return status;
  }

 private:
  static constexpr int kSpins = 1000;

  // The engine has found arguments that it does not take.
  static bool IsRefusal(const absl::Status& status) {
    return absl::IsInvalidArgument(status) || absl::IsUnimplemented(status);
  }

  absl::Status Check() {
    for (uint32_t i = 0; i < count_; ++i) {
      Member* const member = Member::Of(submissions_[i].comm);
      DEVRT_RETURN_IF_ERROR(member->CheckReady());
      for (uint32_t k = 0; k < submissions_[i].op_count; ++k) {
        DEVRT_RETURN_IF_ERROR(CheckOperation(*member, submissions_[i].ops[k]));
      }
      if (std::find(members_.begin(), members_.end(), member) ==
          members_.end()) {
        members_.push_back(member);
      }
    }
    return absl::OkStatus();
  }

  // Begins to copy the inputs.
  absl::Status Load() {
    for (uint32_t i = 0; i < count_; ++i) {
      const devrt_submission_v0& part = submissions_[i];
      Member* const member = Member::Of(part.comm);
      auto staging = std::make_unique<Staging>(member->device());
      for (uint32_t k = 0; k < part.op_count; ++k) {
        DEVRT_ASSIGN_OR_RETURN(const devrt_collective_v0 op,
                               staging->Add(part.stream, part.ops[k],
                                            member->ranks(), member->rank()));
        ops_.push_back({member, op});
      }
      DEVRT_RETURN_IF_ERROR(staging->Load());
      stagings_.push_back(std::move(staging));
    }
    return absl::OkStatus();
  }

  absl::Status Start() {
    for (const auto& [member, op] : ops_) {
      DEVRT_RETURN_IF_ERROR(member->comm()->Start(op));
      ++started_;
    }
    return absl::OkStatus();
  }

  // Returns true if the engine has ended all operations.
  absl::StatusOr<bool> Test() const {
    bool are_done = true;
    for (Member* const member : members_) {
      DEVRT_ASSIGN_OR_RETURN(const bool is_done, member->comm()->Test());
      are_done = are_done && is_done;
    }
    return are_done;
  }

  // Waits until is_done() is true, the time is over, or a communicator was
  // aborted.  `why`: what may keep it from being true.
  template <typename IsDone>
  absl::Status Await(IsDone is_done, absl::string_view why) const {
    for (int turn = 0;; ++turn) {
      for (const Member* const member : members_) {
        if (member->HasFailed()) return member->CheckReady();
      }
      DEVRT_ASSIGN_OR_RETURN(const bool is_over, is_done());
      if (is_over) return absl::OkStatus();
      const auto waited = Clock::now() - start_;
      for (const Member* const member : members_) {
        if (member->timeout_ns() == 0 ||
            waited <= std::chrono::nanoseconds(member->timeout_ns())) {
          continue;
        }
        return absl::DeadlineExceededError(absl::StrCat(
            member->Text(), ": ", member->table().name,
            " has not ended the operations within ",
            std::chrono::duration_cast<std::chrono::milliseconds>(waited)
                .count(),
            " ms: ", why));
      }
      if (turn > kSpins) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  void Fail(const absl::Status& why) {
    for (Member* const member : members_) member->Fail(why);
  }
  // Fails the communicators.  The engine may go on with what was started, and
  // the stream with the copies.
  void Lose(const absl::Status& why) {
    Fail(why);
    Lost lost;
    for (Member* const member : members_) {
      if (started_ != 0) lost.comms.push_back(member->Take());
    }
    lost.stagings = std::move(stagings_);
    AddLost(std::move(lost));
  }

  const devrt_submission_v0* const submissions_;
  const uint32_t count_;
  std::vector<Member*> members_;  // each once
  std::vector<std::unique_ptr<Staging>> stagings_;
  std::vector<std::pair<Member*, devrt_collective_v0>> ops_;
  size_t started_ = 0;  // of ops_
  Clock::time_point start_;
};

HostTable* TableOf(void* self) { return static_cast<HostTable*>(self); }

devrt_status Info(void* self, devrt_collectives_info_v0* info) {
  const HostTable* const table = TableOf(self);
  devrt_collectives_info_v0 filled = {};
  filled.struct_size = info->struct_size;
  filled.provider = table->name.c_str();
  filled.text = table->version.c_str();
  filled.path = "";
  std::memcpy(info, &filled,
              std::min<size_t>(info->struct_size, sizeof filled));
  return nullptr;
}

devrt_status Supports(void* self, uint32_t op, uint32_t dtype,
                      uint32_t reduction, uint32_t* yes) {
  *yes = TableOf(self)->engine->Supports(op, dtype, reduction) ? 1 : 0;
  return nullptr;
}

// The engine connects the ranks: the id says nothing, and must not be empty.
devrt_status UniqueId(void*, void* bytes, uint64_t* size) {
  if (*size < 1) {
    return Refuse(absl::InvalidArgumentError("size is 0, expected 1 or more"));
  }
  *static_cast<char*>(bytes) = 0;
  *size = 1;
  return nullptr;
}

devrt_status CommBegin(void* self, uint32_t device, uint32_t ranks,
                       uint32_t rank, const void*, uint64_t,
                       const devrt_comm_options_v0* options, devrt_comm* comm) {
  FreeLost();
  HostTable* const table = TableOf(self);
  absl::StatusOr<std::unique_ptr<HostCommunicator>> made =
      table->engine->Begin(ranks, rank);
  if (!made.ok()) return Refuse(made.status());
  *comm = (new Member(table, table->backend.devices()[device], options,
                      *std::move(made)))
              ->handle();
  return nullptr;
}

devrt_status CommPoll(void*, devrt_comm comm, uint32_t* state) {
  const absl::StatusOr<bool> ready = Member::Of(comm)->Poll();
  if (!ready.ok()) return Refuse(ready.status());
  *state = *ready ? DEVRT_COMM_READY : DEVRT_COMM_PENDING;
  return nullptr;
}

devrt_status Submit(void*, const devrt_submission_v0* submissions,
                    uint32_t count) {
  return Refuse(Submission(submissions, count).Run());
}

devrt_status CommAbort(void*, devrt_comm comm) {
  Member::Of(comm)->Fail(absl::AbortedError("the communicator was aborted"));
  return nullptr;
}

devrt_status CommSplit(void*, devrt_comm comm, int32_t color, int32_t key,
                       const devrt_comm_options_v0* options,
                       devrt_comm* child) {
  Member* const parent = Member::Of(comm);
  absl::Status status = parent->CheckReady();
  if (!status.ok()) return Refuse(status);
  auto made = parent->comm()->Split(color, key);
  if (!made.ok()) return Refuse(made.status());
  *child = nullptr;
  if (*made == nullptr) return nullptr;
  *child = (new Member(&parent->table(), parent->device(), options,
                       *std::move(made)))
               ->handle();
  return nullptr;
}

devrt_status CommFinish(void*, devrt_comm comm) {
  return Refuse(Member::Of(comm)->Finish());
}

devrt_status CommDestroy(void*, devrt_comm comm) {
  delete Member::Of(comm);
  FreeLost();
  return nullptr;
}

devrt_status Refused(const char* what) {
  return Refuse(absl::UnimplementedError(
      absl::StrCat("an engine on host memory has no ", what)));
}
devrt_status CommRevoke(void*, devrt_comm) { return Refused("revoke"); }
devrt_status CommShrink(void*, devrt_comm, const uint32_t*, uint32_t, uint32_t,
                        devrt_comm*) {
  return Refused("shrink");
}
devrt_status BufferRegister(void*, devrt_comm, void*, uint64_t, void**) {
  return Refused("registration");
}
devrt_status BufferDeregister(void*, devrt_comm, void*) {
  return Refused("registration");
}

constexpr devrt_collectives_v0 kTable = {
    sizeof(devrt_collectives_v0),
    // Submissions of two communicators wait on threads of their own.
    DEVRT_COLLECTIVES_ABORT | DEVRT_COLLECTIVES_SPLIT |
        DEVRT_COLLECTIVES_SHARED_DEVICE | DEVRT_COLLECTIVES_ORDERS_ITSELF |
        DEVRT_COLLECTIVES_OWN_DEADLINES,
    &Info,
    &Supports,
    &UniqueId,
    &CommBegin,
    &CommPoll,
    &Submit,
    &CommRevoke,
    &CommAbort,
    &CommSplit,
    &CommShrink,
    &CommFinish,
    &CommDestroy,
    &BufferRegister,
    &BufferDeregister,
};

// The engines of the process, and their tables, by name and backend.
struct Engines {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<HostEngine>, std::less<>> engines;
  std::map<std::pair<std::string, std::string>, std::unique_ptr<HostTable>>
      tables;
};
Engines& AllEngines() {
  static auto* const engines = new Engines;  // lives as long as the process
  return *engines;
}

}  // namespace

std::optional<Provider> FindHostProvider(const Backend& backend,
                                         std::string_view name) {
  Engines& all = AllEngines();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto engine = all.engines.find(name);
  if (engine == all.engines.end()) return std::nullopt;
  std::unique_ptr<HostTable>& table =
      all.tables[{std::string(name), backend.name()}];
  if (table == nullptr) {
    table = std::make_unique<HostTable>(engine->second.get(), backend);
  }
  return Provider{table.get(), &kTable};
}

}  // namespace internal

absl::Status RegisterEngine(std::unique_ptr<HostEngine> engine) {
  if (engine == nullptr) {
    return absl::InvalidArgumentError("RegisterEngine: the engine is nullptr");
  }
  const std::string name = engine->name();
  if (name.empty()) {
    return absl::InvalidArgumentError(
        "RegisterEngine: the engine's name is empty");
  }
  internal::Engines& all = internal::AllEngines();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!all.engines.try_emplace(name, std::move(engine)).second) {
    return absl::AlreadyExistsError(absl::StrCat(
        "RegisterEngine: this process has an engine \"", name, "\" already"));
  }
  return absl::OkStatus();
}

}  // namespace devrt::collectives
