// SPDX-License-Identifier: Apache-2.0
//
// FromMpi: a bootstrap over MPI, for ranks that mpiexec or a batch system has
// started.
//
//   #include <mpi.h>
//   #include "devrt/collectives/mpi_bootstrap.h"
//
//   MPI_Init(&argc, &argv);
//   {
//     DEVRT_ASSIGN_OR_RETURN(auto bootstrap,
//                            devrt::collectives::FromMpi(MPI_COMM_WORLD));
//     auto rank = devrt::collectives::Communicator::Create(device, *bootstrap);
//     ...
//   }
//   MPI_Finalize();
//
// The program compiles this header with its own mpi.h, because MPI libraries
// have no common ABI.  No library of devrt needs MPI.
//
// Rank 0 collects the bytes and sends the answer to all others.  It gives up at
// its deadline and tells the others which ranks did not come; they wait a
// second longer for that answer.  If a rank gives up, rank 0 answers at once.
// These answers wait in MPI for ranks that come later.  After an error the
// ranks may be out of step, and each further call is FAILED_PRECONDITION.
//
// Ownership: the bootstrap has a duplicate of the communicator, and frees it
// unless MPI_Finalize was called before.  After an error, or where a rank gave
// up, it stays: MPI would give its messages that nobody has received to the
// next communicator with its number.  Threads: one at a time, which must be
// allowed to call MPI.

#ifndef DEVRT_COLLECTIVES_MPI_MPI_BOOTSTRAP_H_
#define DEVRT_COLLECTIVES_MPI_MPI_BOOTSTRAP_H_

#include <mpi.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {

namespace internal {

// OK, or INTERNAL with the text of MPI's error.
inline absl::Status MpiStatus(const char* call, int code) {
  if (code == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int size = 0;
  if (MPI_Error_string(code, text, &size) != MPI_SUCCESS) size = 0;
  return absl::InternalError(absl::StrCat(call, " failed with code ", code,
                                          ": ", std::string(text, size)));
}

// The bootstrap of one rank.
class MpiBootstrap final : public Bootstrap {
 public:
  static absl::StatusOr<std::unique_ptr<Bootstrap>> Create(MPI_Comm parent) {
    std::unique_ptr<MpiBootstrap> made(new MpiBootstrap);
    DEVRT_RETURN_IF_ERROR(
        MpiStatus("MPI_Comm_dup", MPI_Comm_dup(parent, &made->comm_)));
    // Else an error of MPI ends the process.
    MPI_Comm_set_errhandler(made->comm_, MPI_ERRORS_RETURN);
    MPI_Comm_rank(made->comm_, &made->rank_);
    MPI_Comm_size(made->comm_, &made->size_);
    return made;
  }

  MpiBootstrap(const MpiBootstrap&) = delete;
  MpiBootstrap& operator=(const MpiBootstrap&) = delete;
  ~MpiBootstrap() override {
    if (getpid() != process_) return;  // a forked child may not call MPI
    int is_final = 0;
    MPI_Finalized(&is_final);
    if (is_final != 0 || comm_ == MPI_COMM_NULL) return;
    // Sends that nobody has received; MPI may still read their bytes.
    for (Sending& sending : sendings_) {
      int done = 0;
      MPI_Test(&sending.request, &done, MPI_STATUS_IGNORE);
      if (done != 0) continue;
      static_cast<void>(sending.bytes.release());
      may_free_ = false;
    }
    if (may_free_) MPI_Comm_free(&comm_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override {
    if (!broken_.ok()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the bootstrap of rank ", rank_,
          " failed before, and the ranks may be out of step: make another one "
          "(",
          broken_.message(), ")"));
    }
    ++round_;
    absl::StatusOr<std::vector<std::string>> all =
        rank_ == 0 ? Collect(std::move(mine), deadline)
                   : Ask(std::move(mine), deadline);
    if (!all.ok()) {
      broken_ = all.status();
      may_free_ = false;
    }
    return all;
  }

  // MPI keeps the message, so that nobody has to wait here.
  void GiveUp(std::string mine, absl::Time) override {
    if (!broken_.ok()) return;
    ++round_;
    may_free_ = false;
    if (rank_ == 0) {
      std::vector<std::string> all(size_);
      all[0] = std::move(mine);
      AnswerAll(kGaveUp, PartsOf(all), {});
    } else {
      Send(0, Tagged(kGaveUp, mine)).IgnoreError();
    }
  }

 private:
  // A message whose bytes MPI reads until the request is complete.
  struct Sending {
    MPI_Request request = MPI_REQUEST_NULL;
    std::unique_ptr<std::string> bytes;
  };
  // How much longer than rank 0 the others wait.
  static constexpr absl::Duration kGrace = absl::Seconds(1);
  static constexpr int kTag = 1;
  // How a message begins; an error has its code there.
  static constexpr uint64_t kComes = 0;
  static constexpr uint64_t kGaveUp = 1000;

  MpiBootstrap() = default;

  // Of rank 0: the bytes of all ranks, which it sends to all.
  absl::StatusOr<std::vector<std::string>> Collect(std::string mine,
                                                   absl::Time deadline) {
    const absl::Time start = absl::Now();
    std::vector<std::string> all(size_);
    std::vector<bool> came(size_);
    all[0] = std::move(mine);
    came[0] = true;
    absl::Status status;
    for (int missing = size_ - 1; missing > 0 && status.ok();) {
      absl::StatusOr<Message> message = Receive(MPI_ANY_SOURCE, deadline);
      if (!message.ok()) {
        status = message.status();
        break;
      }
      all[message->from] = std::move(message->text);
      if (message->kind == kGaveUp) {
        may_free_ = false;
        for (int i = 0; i < size_; ++i) {
          if (i != message->from) all[i].clear();
        }
        AnswerAll(kGaveUp, PartsOf(all), came);
        return all;
      }
      came[message->from] = true;
      --missing;
    }
    if (absl::IsDeadlineExceeded(status)) {
      status = absl::DeadlineExceededError(MissingText(came, start));
    }
    if (!status.ok()) {
      AnswerAll(static_cast<uint64_t>(status.code()), status.message(), came);
      return status;
    }
    const std::string answer = Tagged(kComes, PartsOf(all));
    for (int to = 1; to < size_; ++to) DEVRT_RETURN_IF_ERROR(Send(to, answer));
    // The program's next call may be none of MPI, and long messages need one.
    do {
      Forget();
    } while (!sendings_.empty() && absl::Now() < deadline);
    return all;
  }

  // Of rank 0, when it does not wait for all: the answer for all other ranks.
  // Those that came get it first, since MPI may refuse it for one that has
  // died.
  void AnswerAll(uint64_t kind, absl::string_view text,
                 std::vector<bool> came) {
    came.resize(size_);
    const std::string answer =
        Tagged(kind, std::string_view(text.data(), text.size()));
    for (const bool first : {true, false}) {
      for (int to = 1; to < size_; ++to) {
        if (came[to] == first) Send(to, answer).IgnoreError();
      }
    }
  }

  // Of the other ranks.
  absl::StatusOr<std::vector<std::string>> Ask(std::string mine,
                                               absl::Time deadline) {
    DEVRT_RETURN_IF_ERROR(Send(0, Tagged(kComes, mine)));
    absl::StatusOr<Message> answer = Receive(0, deadline + kGrace);
    if (absl::IsDeadlineExceeded(answer.status())) {
      return absl::DeadlineExceededError(
          absl::StrCat("rank 0 of ", size_, " did not answer rank ", rank_,
                       " until the deadline"));
    }
    if (!answer.ok()) return answer.status();
    if (answer->kind != kComes && answer->kind != kGaveUp) {
      return absl::Status(static_cast<absl::StatusCode>(answer->kind),
                          answer->text);
    }
    if (answer->kind == kGaveUp) may_free_ = false;
    std::string_view rest = answer->text;
    std::vector<std::string> all;
    for (int i = 0; i < size_; ++i) {
      uint64_t bytes = 0;
      if (!Take(&rest, &bytes) || bytes > rest.size()) return Damaged();
      all.emplace_back(rest.substr(0, bytes));
      rest.remove_prefix(bytes);
    }
    if (!rest.empty()) return Damaged();
    return all;
  }

  struct Message {
    int from = 0;
    uint64_t kind = kComes;
    std::string text;
  };

  // Sends the text, which is kept until MPI has read it.
  absl::Status Send(int to, std::string_view text) {
    Forget();
    auto bytes = std::make_unique<std::string>(text);
    if (bytes->size() > INT32_MAX) {
      return absl::InvalidArgumentError(
          absl::StrCat("the message for rank ", to, " has ", bytes->size(),
                       " bytes; MPI sends at most ", INT32_MAX));
    }
    Sending sending;
    DEVRT_RETURN_IF_ERROR(MpiStatus(
        "MPI_Isend", MPI_Isend(bytes->data(), static_cast<int>(bytes->size()),
                               MPI_BYTE, to, kTag, comm_, &sending.request)));
    sending.bytes = std::move(bytes);
    sendings_.push_back(std::move(sending));
    return absl::OkStatus();
  }

  // Waits for a rank's message of this exchange.  Where a rank gave up,
  // messages of an earlier one may be left, of which nobody needs the answer.
  absl::StatusOr<Message> Receive(int from, absl::Time deadline) {
    for (;;) {
      const absl::StatusOr<Message> message = ReceiveAny(from, deadline);
      DEVRT_RETURN_IF_ERROR(message.status());
      std::string_view rest = message->text;
      uint64_t kind = 0, round = 0;
      if (!Take(&rest, &kind) || !Take(&rest, &round) || round > round_) {
        return Damaged();
      }
      if (round < round_) continue;
      return Message{message->from, kind, std::string(rest)};
    }
  }

  absl::StatusOr<Message> ReceiveAny(int from, absl::Time deadline) {
    MPI_Message handle;
    MPI_Status about;
    int is_there = 0;
    for (int tries = 0;; ++tries) {
      DEVRT_RETURN_IF_ERROR(MpiStatus(
          "MPI_Improbe",
          MPI_Improbe(from, kTag, comm_, &is_there, &handle, &about)));
      if (is_there != 0) break;
      if (absl::Now() >= deadline) return absl::DeadlineExceededError("");
      if (tries > 1000) absl::SleepFor(absl::Microseconds(200));
    }
    int count = 0;
    MPI_Get_count(&about, MPI_BYTE, &count);
    std::string bytes(count, '\0');
    DEVRT_RETURN_IF_ERROR(
        MpiStatus("MPI_Mrecv",
                  MPI_Mrecv(bytes.data(), count, MPI_BYTE, &handle, &about)));
    return Message{about.MPI_SOURCE, kComes, std::move(bytes)};
  }

  // Ends the sends that are complete.
  void Forget() {
    for (auto it = sendings_.begin(); it != sendings_.end();) {
      int done = 0;
      MPI_Test(&it->request, &done, MPI_STATUS_IGNORE);
      it = done != 0 ? sendings_.erase(it) : std::next(it);
    }
  }

  std::string MissingText(const std::vector<bool>& came,
                          absl::Time start) const {
    std::vector<int> missing;
    for (int i = 0; i < size_; ++i) {
      if (!came[i]) missing.push_back(i);
    }
    return absl::StrCat(size_ - static_cast<int>(missing.size()), " of ", size_,
                        " ranks came within ",
                        absl::FormatDuration(absl::Now() - start), "; missing ",
                        absl::StrJoin(missing, ", "));
  }
  absl::Status Damaged() const {
    return absl::DataLossError(
        absl::StrCat("rank ", rank_, " got a message that no bootstrap sends"));
  }
  std::string Tagged(uint64_t kind, std::string_view text) const {
    std::string bytes;
    Append(kind, &bytes);
    Append(round_, &bytes);
    return bytes.append(text);
  }
  static std::string PartsOf(const std::vector<std::string>& all) {
    std::string bytes;
    for (const std::string& text : all) {
      Append(text.size(), &bytes);
      bytes += text;
    }
    return bytes;
  }
  // Ranks of one MPI job have one byte order.
  static void Append(uint64_t number, std::string* bytes) {
    bytes->append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  static bool Take(std::string_view* bytes, uint64_t* number) {
    if (bytes->size() < sizeof *number) return false;
    std::memcpy(number, bytes->data(), sizeof *number);
    bytes->remove_prefix(sizeof *number);
    return true;
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  uint64_t round_ = 0;  // the number of the exchange
  std::list<Sending> sendings_;
  const pid_t process_ = getpid();
  bool may_free_ = true;  // no message is left in comm_
  absl::Status broken_;   // the error after which the ranks may be out of step
};

}  // namespace internal

// A bootstrap of the ranks of `comm`.  Collective.  FAILED_PRECONDITION before
// MPI_Init and after MPI_Finalize; INTERNAL with MPI's text for its errors, but
// an error of MPI_Comm_dup goes to the error handler of `comm`.
inline absl::StatusOr<std::unique_ptr<Bootstrap>> FromMpi(MPI_Comm comm) {
  int is_ready = 0;
  int is_final = 0;
  MPI_Initialized(&is_ready);
  MPI_Finalized(&is_final);
  if (is_ready == 0 || is_final != 0) {
    return absl::FailedPreconditionError(
        is_final != 0 ? "FromMpi: MPI_Finalize was called before"
                      : "FromMpi: call MPI_Init first");
  }
  return internal::MpiBootstrap::Create(comm);
}

}  // namespace devrt::collectives

#endif  // DEVRT_COLLECTIVES_MPI_MPI_BOOTSTRAP_H_
