// SPDX-License-Identifier: Apache-2.0
//
// FromPmix of bootstrap.h.
//
// A rank publishes its bytes of an exchange under a key of that exchange, and
// asks for those of the others, without a fence (decision 37).  The launcher's
// server holds a request until the rank has published, or gives up after some
// seconds; then the rank asks again, until its own deadline.
//
// PMIx calls back on a thread of its own, maybe after the deadline.  So what it
// writes to belongs to the call, and to the exchange while that waits.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectives/bootstrap/pmix_abi.h"
#include "collectives/bootstrap/rank_lists.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives {
namespace {

namespace pmix = internal::pmix;

constexpr const char* kLibrary = "libpmix.so.2";
// Between two requests for bytes that a rank has not published.
constexpr absl::Duration kPause = absl::Milliseconds(20);
constexpr absl::Duration kShortest = absl::Milliseconds(5);

// The library, which is never unloaded.
absl::StatusOr<const pmix::Functions*> Load() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = dlerror();
    return absl::UnavailableError(absl::StrCat(
        kLibrary, " cannot be loaded: ", why == nullptr ? "no reason" : why));
  }
  static const auto* const functions = [library] {
    auto* const f = new pmix::Functions;
    const auto find = [library](const char* name, auto* function) {
      *function = reinterpret_cast<std::decay_t<decltype(*function)>>(
          dlsym(library, name));
    };
    find("PMIx_Init", &f->init);
    find("PMIx_Finalize", &f->finalize);
    find("PMIx_Put", &f->put);
    find("PMIx_Commit", &f->commit);
    find("PMIx_Get", &f->get);
    find("PMIx_Get_nb", &f->get_nb);
    find("PMIx_Error_string", &f->error_string);
    return f;
  }();
  if (functions->init == nullptr || functions->finalize == nullptr ||
      functions->put == nullptr || functions->commit == nullptr ||
      functions->get == nullptr || functions->get_nb == nullptr ||
      functions->error_string == nullptr) {
    return absl::UnavailableError(
        absl::StrCat(kLibrary, " lacks functions of PMIx"));
  }
  return functions;
}

// How the bytes of a rank begin in an exchange.
constexpr char kComes = 0;
constexpr char kGaveUp = 1;

// What the ranks have published in one exchange.
struct Exchange {
  explicit Exchange(int size) : parts(size), waits(size, false) {}
  std::vector<int> Missing() const {
    std::vector<int> missing;
    for (size_t rank = 0; rank < parts.size(); ++rank) {
      if (!parts[rank].has_value()) missing.push_back(static_cast<int>(rank));
    }
    return missing;
  }
  // A rank did: nobody shall wait for those that miss.
  bool AnyGaveUp() const {
    return std::any_of(parts.begin(), parts.end(), [](const auto& part) {
      return part.has_value() && !part->empty() && part->front() == kGaveUp;
    });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::optional<std::string>> parts;
  std::vector<bool> waits;  // a request runs
  pmix::Status error = pmix::kSuccess;
};

struct Request {
  std::shared_ptr<Exchange> exchange;
  int rank;
};

void Answer(pmix::Status status, pmix::Value* value, void* argument) {
  const std::unique_ptr<Request> request(static_cast<Request*>(argument));
  Exchange& exchange = *request->exchange;
  const std::lock_guard<std::mutex> lock(exchange.mutex);
  exchange.waits[request->rank] = false;
  if (status == pmix::kSuccess && value != nullptr &&
      value->type == pmix::kByteObject) {
    exchange.parts[request->rank].emplace(value->data.object.bytes,
                                          value->data.object.size);
  } else if (status != pmix::kSuccess && status != pmix::kTimeout &&
             status != pmix::kNotFound) {
    exchange.error = status;
  }
  exchange.changed.notify_all();
}

class PmixBootstrap final : public Bootstrap {
 public:
  PmixBootstrap(const pmix::Functions& functions, const pmix::Proc& self,
                int size, int number)
      : f_(functions), self_(self), size_(size), number_(number) {}

  int rank() const override { return static_cast<int>(self_.rank); }
  int size() const override { return size_; }
  absl::StatusOr<std::vector<std::string>> AllGather(
      std::string mine, absl::Time deadline) override;
  // The server keeps the bytes, so nobody has to wait here.
  void GiveUp(std::string mine, absl::Time) override {
    if (!broken_.ok()) return;
    mine.insert(mine.begin(), kGaveUp);
    Publish(ExchangeKey(round_++), &mine).IgnoreError();  // others miss it
  }
  absl::Status Put(std::string_view name, std::string bytes) override {
    return Publish(PutKey(name), &bytes);
  }
  absl::StatusOr<std::optional<std::string>> Get(std::string_view name,
                                                 int rank,
                                                 absl::Time deadline) override;

 private:
  absl::Status Error(const char* call, pmix::Status status) const {
    return absl::InternalError(absl::StrCat(call, " failed with code ", status,
                                            ": ", f_.error_string(status)));
  }
  absl::Status Publish(const std::string& key, std::string* bytes) const;
  std::string ExchangeKey(int round) const {
    return absl::StrCat("devrt.", number_, ".", round);
  }
  std::string PutKey(std::string_view name) const {
    return absl::StrCat("devrt.", number_, ".put.",
                        absl::string_view(name.data(), name.size()));
  }
  absl::Status AskFor(const std::string& key, int rank,
                      const std::shared_ptr<Exchange>& exchange) const;
  // Asks for what is not there and was not asked for.
  absl::Status Ask(const std::string& key,
                   const std::shared_ptr<Exchange>& exchange) const;
  absl::StatusOr<std::vector<std::string>> Collect(const std::string& key,
                                                   std::string mine,
                                                   absl::Time deadline) const;

  const pmix::Functions& f_;
  const pmix::Proc self_;
  const int size_;
  const int number_;  // of the process's bootstraps
  int round_ = 0;
  absl::Status broken_;  // the error after which the ranks may be out of step
};

absl::Status PmixBootstrap::Publish(const std::string& key,
                                    std::string* bytes) const {
  pmix::Value value = {};
  value.type = pmix::kByteObject;
  value.data.object = {bytes->data(), bytes->size()};
  pmix::Status status = f_.put(pmix::kGlobal, key.c_str(), &value);
  if (status != pmix::kSuccess) return Error("PMIx_Put", status);
  status = f_.commit();
  return status == pmix::kSuccess ? absl::OkStatus()
                                  : Error("PMIx_Commit", status);
}

absl::Status PmixBootstrap::AskFor(
    const std::string& key, int rank,
    const std::shared_ptr<Exchange>& exchange) const {
  {
    const std::lock_guard<std::mutex> lock(exchange->mutex);
    if (exchange->waits[rank] || exchange->parts[rank].has_value()) {
      return absl::OkStatus();
    }
    exchange->waits[rank] = true;
  }
  pmix::Proc proc = self_;
  proc.rank = static_cast<uint32_t>(rank);
  auto request = std::make_unique<Request>(Request{exchange, rank});
  const pmix::Status status =
      f_.get_nb(&proc, key.c_str(), nullptr, 0, &Answer, request.get());
  if (status != pmix::kSuccess) return Error("PMIx_Get_nb", status);
  (void)request.release();  // Answer's
  return absl::OkStatus();
}

absl::Status PmixBootstrap::Ask(
    const std::string& key, const std::shared_ptr<Exchange>& exchange) const {
  for (int rank = 0; rank < size_; ++rank) {
    DEVRT_RETURN_IF_ERROR(AskFor(key, rank, exchange));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> PmixBootstrap::Get(
    std::string_view name, int rank, absl::Time deadline) {
  const std::string key = PutKey(name);
  const auto exchange = std::make_shared<Exchange>(size_);
  for (;;) {
    DEVRT_RETURN_IF_ERROR(AskFor(key, rank, exchange));
    std::unique_lock<std::mutex> lock(exchange->mutex);
    // An answer takes its time also where the deadline is over.
    const absl::Time next = std::max(absl::Now() + kShortest,
                                     std::min(deadline, absl::Now() + kPause));
    exchange->changed.wait_until(lock, absl::ToChronoTime(next), [&] {
      return exchange->parts[rank].has_value() ||
             exchange->error != pmix::kSuccess;
    });
    if (exchange->error != pmix::kSuccess) {
      return Error("PMIx_Get_nb", exchange->error);
    }
    if (exchange->parts[rank].has_value() || absl::Now() >= deadline) {
      return exchange->parts[rank];
    }
  }
}

absl::StatusOr<std::vector<std::string>> PmixBootstrap::Collect(
    const std::string& key, std::string mine, absl::Time deadline) const {
  const absl::Time begin = absl::Now();
  mine.insert(mine.begin(), kComes);
  DEVRT_RETURN_IF_ERROR(Publish(key, &mine));
  const auto exchange = std::make_shared<Exchange>(size_);
  exchange->parts[rank()] = std::move(mine);
  std::vector<int> missing;
  bool gave_up = false;
  do {
    DEVRT_RETURN_IF_ERROR(Ask(key, exchange));
    std::unique_lock<std::mutex> lock(exchange->mutex);
    const absl::Time next = std::min(deadline, absl::Now() + kPause);
    exchange->changed.wait_until(lock, absl::ToChronoTime(next),
                                 [&exchange, &missing, &gave_up] {
                                   missing = exchange->Missing();
                                   gave_up = exchange->AnyGaveUp();
                                   return missing.empty() || gave_up ||
                                          exchange->error != pmix::kSuccess;
                                 });
    if (exchange->error != pmix::kSuccess) {
      return Error("PMIx_Get_nb", exchange->error);
    }
  } while (!missing.empty() && !gave_up && absl::Now() < deadline);
  if (!missing.empty() && !gave_up) {
    return internal::MissingRanksError(size_, missing, absl::Now() - begin);
  }
  std::vector<std::string> all;
  const std::lock_guard<std::mutex> lock(exchange->mutex);
  for (const auto& part : exchange->parts) {
    const bool is_there = part.has_value() && !part->empty();
    all.push_back(is_there ? part->substr(1) : std::string());
  }
  return all;
}

absl::StatusOr<std::vector<std::string>> PmixBootstrap::AllGather(
    std::string mine, absl::Time deadline) {
  if (!broken_.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the bootstrap of rank ", rank(),
        " failed before, and the ranks may be out of step: make another one (",
        broken_.message(), ")"));
  }
  const std::string key = ExchangeKey(round_++);
  auto all = Collect(key, std::move(mine), deadline);
  if (!all.ok()) broken_ = all.status();
  return all;
}

// This process in its job.
struct Client {
  const pmix::Functions* f = nullptr;
  pmix::Proc self = {};
  int size = 0;
};

absl::Status Failed(const pmix::Functions& f, const char* call,
                    pmix::Status status) {
  return absl::UnavailableError(absl::StrCat("FromPmix: ", call,
                                             " failed with code ", status, ": ",
                                             f.error_string(status)));
}

// PMIx does not begin again in a process where it has ended, neither here nor
// in MPI_Init.  So it ends with the process, and there it has to: the launcher
// ends the whole job if a process ends without.
absl::StatusOr<Client> Begin() {
  Client client;
  DEVRT_ASSIGN_OR_RETURN(client.f, Load());
  pmix::Status status = client.f->init(&client.self, nullptr, 0);
  if (status != pmix::kSuccess) return Failed(*client.f, "PMIx_Init", status);
  static const pmix::Functions* functions = nullptr;
  static pid_t process = 0;
  functions = client.f;
  process = getpid();
  std::atexit([] {
    if (getpid() == process) (void)functions->finalize(nullptr, 0);
  });
  pmix::Proc job = client.self;
  job.rank = pmix::kWildcard;
  pmix::Value* value = nullptr;
  status = client.f->get(&job, pmix::kJobSize, nullptr, 0, &value);
  if (status != pmix::kSuccess || value == nullptr ||
      value->type != pmix::kUint32) {
    return Failed(*client.f, "PMIx_Get of the job's size", status);
  }
  client.size = static_cast<int>(value->data.uint32);
  std::free(value);
  return client;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bootstrap>> FromPmix() {
  // Without a launcher PMIx may make a job of one process.
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) continue;
    return absl::NotFoundError(absl::StrCat(
        "FromPmix: no launcher with PMIx has started this process: ", name,
        " is not set (Open MPI's mpiexec, PRRTE's prun, Slurm's srun "
        "--mpi=pmix)"));
  }
  static const auto* const client = new absl::StatusOr<Client>(Begin());
  DEVRT_RETURN_IF_ERROR(client->status());
  static std::atomic<int> last{0};
  return std::make_unique<PmixBootstrap>(
      *(*client)->f, (*client)->self, (*client)->size, last.fetch_add(1) + 1);
}

}  // namespace devrt::collectives
