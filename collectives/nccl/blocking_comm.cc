// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/blocking_comm.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"

namespace devrt::collectives::nccl {
namespace {

constexpr const char* kSplit = "ncclCommSplit";
constexpr const char* kAsk = "ncclCommGetAsyncError";

Comm Load(const Comm& place) {
  return __atomic_load_n(&place, __ATOMIC_ACQUIRE);
}
Comm Take(Comm* place) {
  return __atomic_exchange_n(place, nullptr, __ATOMIC_ACQ_REL);
}

// DEVRT_NCCL_BLOCKING is not "off".  Another value than "on" is logged once.
bool IsWanted() {
  const char* const wanted = std::getenv("DEVRT_NCCL_BLOCKING");
  if (wanted == nullptr || *wanted == '\0') return true;
  if (std::strcmp(wanted, "off") == 0) return false;
  static std::atomic<bool> is_logged{false};
  if (std::strcmp(wanted, "on") != 0 && !is_logged.exchange(true)) {
    DEVRT_LOG(kWarning, absl::StrCat("DEVRT_NCCL_BLOCKING is \"", wanted,
                                     "\", expected on or off: it stays on"));
  }
  return true;
}

}  // namespace

bool BlockingComm::IsPossible(const Library& library) {
  // Without a shared flag nothing ends a call.
  return IsWanted() && library.flavor->calls_may_block &&
         library.functions.comm_split != nullptr &&
         std::getenv("NCCL_COMM_SPLIT_SHARE_RESOURCES") == nullptr &&
         std::getenv("NCCL_COMM_BLOCKING") == nullptr;
}

Result BlockingComm::Split(Comm parent, uint32_t rank, const char* name,
                           bool blocks, Comm* place, const char** symbol) {
  Config config;
  config.blocking = blocks ? 1 : 0;
  // It is the parent's that counts for a child.
  config.split_share = blocks ? 0 : 1;
  if (name[0] != '\0') config.comm_name = name;
  *symbol = kSplit;
  const Result result =
      functions_.comm_split(parent, 0, static_cast<int>(rank), place, &config);
  return result == kSuccess ? kInProgress : result;
}

Result BlockingComm::Make(Comm parent, uint32_t rank, const char* name,
                          const char** symbol) {
  const MutexLock lock(&mutex_);
  if (step_ == kMade) return kSuccess;
  if (step_ == kNothing) {
    step_ = kKeeper;
    return Split(parent, rank, name, /*blocks=*/false, &keeper_, symbol);
  }
  const auto ask = [this, symbol](Comm comm) {
    *symbol = kAsk;
    if (comm == nullptr) return kInProgress;
    Result answer = kSuccess;
    const Result result = functions_.comm_get_async_error(comm, &answer);
    return result != kSuccess ? result : answer;
  };
  const Comm keeper = Load(keeper_);
  Result result = ask(keeper);
  if (result != kSuccess) return result;
  if (step_ == kKeeper) {
    step_ = kCalls;
    return Split(keeper, rank, name, /*blocks=*/true, &calls_, symbol);
  }
  result = ask(calls());
  if (result == kSuccess) step_ = kMade;
  return result;
}

Result BlockingComm::EndCalls() {
  const MutexLock ending(&ending_);
  Comm keeper = nullptr;
  {
    const MutexLock lock(&mutex_);
    keeper = Take(&keeper_);
    if (keeper == nullptr) return first_error_;
  }
  // Without the lock of Make: it may take long, or never return.
  const Result result = functions_.comm_abort(keeper);
  if (result == kSuccess || result == kInProgress) return kSuccess;
  const MutexLock lock(&mutex_);
  if (first_error_ == kSuccess) first_error_ = result;
  return result;
}

Result BlockingComm::Finalize() {
  const MutexLock lock(&mutex_);
  return Load(keeper_) == nullptr ? kInvalidUsage
                                  : functions_.comm_finalize(keeper_);
}

Result BlockingComm::AskFinish(Result* answer) {
  const MutexLock lock(&mutex_);
  return Load(keeper_) == nullptr
             ? kInvalidUsage
             : functions_.comm_get_async_error(keeper_, answer);
}

Result BlockingComm::Free(Result (*end)(Comm comm)) {
  Comm comms[2];
  Result first = kSuccess;
  {
    const MutexLock lock(&mutex_);
    comms[0] = Take(&calls_);
    comms[1] = Take(&keeper_);
    first = first_error_;
    first_error_ = kSuccess;
  }
  for (const Comm comm : comms) {
    if (comm == nullptr) continue;
    const Result result = end(comm);
    if (result == kSuccess || result == kInProgress) continue;
    if (end != functions_.comm_abort) (void)functions_.comm_abort(comm);
    if (first == kSuccess) first = result;
  }
  return first;
}

}  // namespace devrt::collectives::nccl
