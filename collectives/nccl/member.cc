// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/member.h"

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/errors.h"

namespace devrt::collectives::nccl {
namespace {

constexpr std::chrono::seconds kMostWaitForUsers{5};
constexpr std::chrono::microseconds kPause{50};

}  // namespace

Member::Member(const Library& library, devrt::internal::DeviceGate* device,
               uint32_t ranks, uint32_t rank, const char* name, Member* parent)
    : library_(library),
      device_(device),
      ranks_(ranks),
      rank_(rank),
      name_(name != nullptr ? name : ""),
      parent_(parent) {
  if (parent == nullptr) return;
  if (parent->waits()) LetWait();
  shares_device_ = parent->shares_device();
}

void Member::LetWait() {
  blocking_ = std::make_unique<BlockingComm>(library_.functions);
}

std::string Member::Describe() const {
  const std::string place =
      ranks() == 0 ? "" : absl::StrCat("rank ", rank(), " of ", ranks(), ", ");
  return absl::StrCat("communicator \"", name_, "\" (", place,
                      library_.flavor->backend, ":", device_->ordinal, ")");
}

Config Member::config() const {
  Config config;
  if (!name_.empty()) config.comm_name = name_.c_str();
  return config;
}

// The order of the two accesses, and of those in BeginAbort, is that of
// sequential consistency: one of the two threads sees the other.
Member::Use::Use(Member* member) : member_(member) {
  member->users_.fetch_add(1);
  if (__builtin_expect(member->aborting_.load(), 0)) {
    member->users_.fetch_sub(1);
    member_ = nullptr;
  }
}

devrt_status Member::Failed() const {
  const MutexLock lock(&mutex_);
  return Refuse(DEVRT_ABORTED,
                absl::StrCat(Describe(), " failed: ", symbol_,
                             symbol_[0] != '\0' ? ": " : "", text_));
}

devrt_status Member::WhyNotReady() const {
  switch (state_.load(std::memory_order_acquire)) {
    case kFailed:
      return Failed();
    case kRevoked:
      return Refuse(DEVRT_ABORTED, absl::StrCat(Describe(), " was revoked"));
    case kEnded:
      return Refuse(DEVRT_FAILED_PRECONDITION,
                    absl::StrCat(Describe(), " has ended"));
    default:
      if (revoked_) {
        return Refuse(DEVRT_ABORTED, absl::StrCat(Describe(), " was revoked"));
      }
      return Refuse(
          DEVRT_FAILED_PRECONDITION,
          absl::StrCat(Describe(), " is pending: poll it until it is ready"));
  }
}

devrt_status Member::CheckParent() {
  return state_.load(std::memory_order_acquire) == kRevoked ? nullptr
                                                            : CheckReady();
}

void Member::Fail(Result result, const char* symbol, std::string text) {
  const MutexLock lock(&mutex_);
  if (state_.load() == kFailed) return;  // the first reason stays
  failure_ = result;
  symbol_ = symbol;
  text_ = std::move(text);
  state_.store(kFailed, std::memory_order_release);
}

devrt_status Member::Report(Result result, const char* symbol) const {
  return NativeError(result, symbol, TextOf(library_, result, native()),
                     ordinal());
}

devrt_status Member::Take(Result result, const char* symbol) {
  if (__builtin_expect(result == kSuccess, 1)) return nullptr;
  if (result == kInProgress) {
    BecomePending();
    return nullptr;
  }
  std::string text = TextOf(library_, result, native());
  const devrt_status error = NativeError(result, symbol, text, ordinal());
  Fail(result, symbol, std::move(text));
  return error;
}

devrt_status Member::TakeCall(Result result, const char* symbol) {
  if (result == kInProgress) return Take(result, symbol);
  if (!waits() || result == kInvalidArgument || result == kInvalidUsage) {
    return Report(result, symbol);
  }
  if (aborting_ || revoked_) {
    return Refuse(
        DEVRT_CANCELLED,
        absl::StrCat(symbol, " of ", Describe(), " was ended: it was ",
                     revoked_ ? "revoked" : "aborted"));
  }
  return Take(result, symbol);
}

devrt_status Member::TakeGroup(Result result) {
  constexpr const char* kSymbol = "ncclGroupEnd";
  return waits() ? TakeCall(result, kSymbol) : Take(result, kSymbol);
}

// A failure that another thread's poll has seen stays.
void Member::BecomePending() {
  for (uint32_t from : {kReady, kRevoked}) {
    if (state_.compare_exchange_strong(from, kPending)) return;
  }
}

void Member::NoteFinishing() {
  finishing_ = true;
  BecomePending();
}

void Member::NoteRevoked() {
  revoked_ = true;
  BecomePending();
}

bool Member::IsBeingMade() const {
  return parent_ != nullptr && native() == nullptr &&
         state_.load() != kFailed && !parent_->abort_done_;
}

devrt_status Member::FindRank() {
  if (ranks() != 0) return nullptr;
  int ranks = 0, rank = 0;
  const Functions& f = library_.functions;
  Result result = f.comm_count(native(), &ranks);
  if (result != kSuccess) return Take(result, "ncclCommCount");
  result = f.comm_user_rank(native(), &rank);
  if (result != kSuccess) return Take(result, "ncclCommUserRank");
  rank_.store(static_cast<uint32_t>(rank), std::memory_order_relaxed);
  ranks_.store(static_cast<uint32_t>(ranks), std::memory_order_relaxed);
  return nullptr;
}

devrt_status Member::Settle() {
  if (devrt_status error = FindRank()) return error;
  if (IsMaking() && !revoked_) {
    const char* symbol = "";
    const Result result =
        blocking_->Make(native(), rank(), name_.c_str(), &symbol);
    if (result != kSuccess) return Take(result, symbol);
  }
  uint32_t pending = kPending;
  (void)state_.compare_exchange_strong(pending, finishing_ ? kEnded
                                                : revoked_ ? kRevoked
                                                           : kReady);
  return nullptr;
}

Result Member::Ask(Member* asked, Result* answer) {
  const Functions& f = library_.functions;
  if (asked != this || !waits()) {
    return f.comm_get_async_error(asked->native(), answer);
  }
  if (finishing_) return blocking_->AskFinish(answer);
  if (IsPending()) {
    const Result result = f.comm_get_async_error(native(), answer);
    if (result != kSuccess || *answer != kSuccess) return result;
  }
  if (revoked_ || IsMaking()) return kSuccess;
  return f.comm_get_async_error(calls(), answer);
}

devrt_status Member::Poll(uint32_t* state) {
  *state = DEVRT_COMM_PENDING;
  if (state_.load() == kFailed) {
    const MutexLock lock(&mutex_);
    return failure_ == kSuccess
               ? Refuse(DEVRT_ABORTED,
                        absl::StrCat(Describe(), " failed: ", text_))
               : NativeError(failure_, symbol_, text_, ordinal());
  }
  // The library writes the child's handle while the parent is in progress.
  Member* const asked =
      native() != nullptr || parent_ == nullptr ? this : parent_;
  const Use use(asked);
  std::optional<Use> own;
  if (asked != this) own.emplace(this);
  if (!use || (own.has_value() && !*own)) {
    return Refuse(DEVRT_ABORTED, absl::StrCat(Describe(), " was aborted"));
  }
  Result answer = kSuccess;
  const Result result = Ask(asked, &answer);
  constexpr const char* kSymbol = "ncclCommGetAsyncError";
  if (result != kSuccess) return Take(result, kSymbol);
  if (answer == kInProgress) return nullptr;
  if (answer != kSuccess) return Take(answer, kSymbol);
  if (asked != this) return nullptr;  // the handle is there at the next poll
  if (devrt_status error = Settle()) return error;
  if (state_.load() != kPending) *state = DEVRT_COMM_READY;
  return nullptr;
}

Result Member::Finalize() {
  return waits() ? blocking_->Finalize()
                 : library_.functions.comm_finalize(native());
}

Result Member::Abort() {
  const Functions& f = library_.functions;
  const auto abort = [](BlockingComm* comm) {
    return comm != nullptr ? comm->Abort() : kSuccess;
  };
  Result results[3] = {};
  results[0] = abort(blocking_.get());
  if (native() != nullptr) results[1] = f.comm_abort(native());
  // What the native one was making is there now, or will never be.
  results[2] = abort(blocking_.get());
  for (const Result result : results) {
    if (result != kSuccess && result != kInProgress) return result;
  }
  return kSuccess;
}

Result Member::Destroy() {
  const Functions& f = library_.functions;
  const Result first = waits() ? blocking_->Destroy() : kSuccess;
  const Result result = f.comm_destroy(native());
  if (result == kSuccess || result == kInProgress) return first;
  (void)f.comm_abort(native());
  return first != kSuccess ? first : result;
}

Member::Aborting Member::BeginEnd(const char* why) {
  if (aborting_.exchange(true)) {
    return abort_done_ ? Aborting::kDone : Aborting::kRuns;
  }
  if (state_.load() != kEnded) (void)EndCalls();
  // No call waits any more, so a user leaves soon.  One that does not hangs in
  // the library, which the abort is to end.
  const auto end = std::chrono::steady_clock::now() + kMostWaitForUsers;
  while (users_.load() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kPause);
  }
  Fail(kSuccess, "", why);
  return Aborting::kMine;
}

}  // namespace devrt::collectives::nccl
