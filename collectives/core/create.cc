// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/create.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectives/bootstrap/rank_lists.h"
#include "collectives/core/rank_record.h"
#include "collectives/core/watch.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

uint64_t NewKey() {
  std::random_device source;
  return static_cast<uint64_t>(source()) << 32 | source();
}

// Two devices with one UUID on two machines are two devices, as simulated ones
// are.  The number of a process is part of it for the simulator's sake: each
// process has a machine of its own.
std::string HostText(Device device) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  if (!IsSimulated(device)) return boot;
  return absl::StrCat(boot, "/", getpid());
}

// Where DEVRT_COLLECTIVES_RECORD wants the records; "" for memory.
absl::StatusOr<std::string> RecordFolder() {
  const char* const folder = std::getenv("DEVRT_COLLECTIVES_RECORD");
  if (folder == nullptr) return std::string();
  if (*folder == '\0' || *folder == '/') return std::string(folder);
  return absl::InvalidArgumentError(absl::StrCat(
      "DEVRT_COLLECTIVES_RECORD=", folder, " is no absolute path"));
}

absl::Status CheckOptions(const Options& options) {
  if (options.init_timeout <= absl::ZeroDuration() ||
      options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Options::init_timeout is ", absl::FormatDuration(options.init_timeout),
        " and timeout ", absl::FormatDuration(options.timeout),
        ": both must be more than 0; no limit is absl::InfiniteDuration(), in "
        "Python None"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Comm>> NewComm(Device device,
                                              const Options& options) {
  DEVRT_RETURN_IF_ERROR(CheckOptions(options));
  DEVRT_ASSIGN_OR_RETURN(std::string record_folder, RecordFolder());
  DEVRT_ASSIGN_OR_RETURN(const Provider provider,
                         FindProvider(device, options.provider));
  auto comm = std::make_shared<Comm>(device, provider);
  comm->options = options;
  comm->record_folder = std::move(record_folder);
  devrt_collectives_info_v0 info{};
  info.struct_size = sizeof info;
  DEVRT_RETURN_IF_ERROR(
      comm->Take(provider.table->info(provider.self, &info), "info"));
  const auto text = [](const char* t) { return t == nullptr ? "" : t; };
  comm->info = {text(info.provider), text(info.text), text(info.path),
                FeaturesOf(provider.flags())};
  return comm;
}

// Returns true if submissions may wait for other ranks: the watch ends them at
// the timeout, and no other rank of the device waits for the order's lock.
bool MayWait(const Comm& comm) {
  const Options& options = comm.options;
  const Provider& provider = comm.provider;
  return provider.let_wait != nullptr && provider.can_wait(provider.self) &&
         options.watch && options.timeout != absl::InfiniteDuration() &&
         options.on_failure != OnFailure::kReport && !options.shared_device;
}

// What the rank tells the others.
absl::StatusOr<RankRecord> Describe(const Comm& comm) {
  RankRecord record;
  record.provider = comm.info.name;
  record.version = comm.info.version;
  record.flags = comm.provider.flags();
  record.host = HostText(comm.device);
  record.device = comm.device.name();
  DEVRT_ASSIGN_OR_RETURN(const DeviceProperties properties,
                         comm.device.Properties());
  record.uuid = properties.uuid_string();
  record.shared_device = comm.options.shared_device ? 1 : 0;
  record.allow_mixed_versions = comm.options.allow_mixed_versions ? 1 : 0;
  record.check_signatures = comm.options.check_signatures ? 1 : 0;
  record.may_wait = MayWait(comm) ? 1 : 0;
  record.has_record_folder = comm.record_folder.empty() ? 0 : 1;
  record.name = comm.options.name;
  return record;
}

// What only rank 0 tells.
absl::Status AddId(const Comm& comm, RankRecord* record) {
  std::string bytes(DEVRT_COLLECTIVES_MAX_ID, '\0');
  uint64_t size = bytes.size();
  DEVRT_RETURN_IF_ERROR(comm.Take(
      comm.provider.table->unique_id(comm.provider.self, bytes.data(), &size),
      "unique_id"));
  if (size == 0 || size > bytes.size()) {
    return absl::InternalError(
        absl::StrCat(comm.info.name, " made an id of ", size, " bytes"));
  }
  bytes.resize(size);
  record->unique_id = std::move(bytes);
  record->id = NextId();
  record->key = NewKey();
  return absl::OkStatus();
}

// Sets what the records say of the rank's place, and makes its recorder.
absl::Status Prepare(Comm* comm, int rank,
                     const std::vector<RankRecord>& records) {
  const RankRecord& root = records[0];
  comm->rank = rank;
  comm->size = static_cast<int>(records.size());
  comm->id = root.id;
  comm->key = root.key;
  comm->label = absl::StrCat(root.id);
  comm->provider.missing = MissingFlags(records);
  comm->info.features = FeaturesOf(comm->provider.flags());
  comm->some_rank_records = std::any_of(
      records.begin(), records.end(),
      [](const RankRecord& record) { return record.has_record_folder != 0; });
  return MakeRecorder(comm);
}

// Begins the rank's place.
absl::Status Begin(Comm* comm, const std::vector<RankRecord>& records) {
  const RankRecord& root = records[0];
  const std::string name = comm->Label();
  const devrt_comm_options_v0 options =
      EngineOptions(comm->options, name.c_str());
  DEVRT_RETURN_IF_ERROR(comm->Take(
      comm->provider.table->comm_begin(
          comm->provider.self, static_cast<uint32_t>(comm->device.index()),
          static_cast<uint32_t>(comm->size), static_cast<uint32_t>(comm->rank),
          root.unique_id.data(), root.unique_id.size(), &options,
          &comm->handle),
      "comm_begin"));
  const bool may_wait = std::all_of(
      records.begin(), records.end(),
      [](const RankRecord& record) { return record.may_wait != 0; });
  if (may_wait) comm->provider.let_wait(comm->handle);
  return absl::OkStatus();
}

// `status` as an error of the creation.
absl::Status OfCreation(const Options& options, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(
          "communicator",
          options.name.empty() ? "" : absl::StrCat(" \"", options.name, "\""),
          ": ", status.message()));
}

// The record with the rank's number, and with why it cannot take part.
RankRecord OfRank(const Bootstrap& bootstrap, RankRecord record,
                  const absl::Status& cause) {
  record.rank = static_cast<uint64_t>(bootstrap.rank());
  record.size = static_cast<uint64_t>(bootstrap.size());
  if (!cause.ok()) record.error = StatusText(cause);
  return record;
}

// The records of all ranks, by the first exchange.  `cause`: why this rank
// cannot take part, which the record tells the others.  Sets `seen` to the sum
// of what the exchange returned.
absl::StatusOr<std::vector<RankRecord>> Exchange(Bootstrap* bootstrap,
                                                 RankRecord record,
                                                 const absl::Status& cause,
                                                 absl::Time deadline,
                                                 uint64_t* seen) {
  DEVRT_ASSIGN_OR_RETURN(
      const std::vector<std::string> parts,
      bootstrap->AllGather(
          ToBytes(OfRank(*bootstrap, std::move(record), cause)), deadline));
  *seen = SumOf(parts);
  return ParseRecords(parts, bootstrap->size());
}

// The second exchange: a rank that failed behind the first one, as its
// recorder or the bytes for this rank alone can, tells the others, which would
// wait for the rank in the engine.  They would also wait for one that got
// another id than they.  A rank that the first exchange has refused comes, too:
// it may have got bytes that the others have not.
absl::Status Agree(Bootstrap* bootstrap, const absl::Status& own, uint64_t seen,
                   absl::Time deadline) {
  RankRecord record;
  record.seen = seen;
  const std::string mine = ToBytes(OfRank(*bootstrap, std::move(record), own));
  if (!own.ok()) {
    // CANCELLED: the program's own function has raised, or Ctrl-C has ended
    // it.  It is not called again.
    if (absl::IsCancelled(own) || absl::Now() >= deadline) return own;
    bootstrap->GiveUp(mine, deadline);
    return own;
  }
  DEVRT_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                         bootstrap->AllGather(mine, deadline));
  return CheckAgreement(parts, bootstrap->rank(), bootstrap->size(), seen);
}

// Returns the time at which Create gives up.  The engine has time then to end
// what it has not connected: NCCL 2.28 takes a second.
absl::Time ConnectBy(const Comm& comm, absl::Time deadline) {
  if (comm.provider.Has(DEVRT_COLLECTIVES_OWN_DEADLINES)) return deadline;
  return deadline - std::min(absl::Seconds(1), comm.options.init_timeout / 10);
}

absl::StatusOr<std::shared_ptr<Comm>> TryCreateOne(Device device,
                                                   Bootstrap* bootstrap,
                                                   const Options& options,
                                                   CallSite site) {
  const int rank = bootstrap->rank();
  const int size = bootstrap->size();
  DEVRT_RETURN_IF_ERROR(CheckRank("the bootstrap", rank, size));
  const absl::Time deadline =
      absl::Now() + (CheckOptions(options).ok() ? options.init_timeout
                                                : Options().init_timeout);
  // A rank that cannot take part tells the others, which would wait for it.
  absl::StatusOr<std::shared_ptr<Comm>> comm = NewComm(device, options);
  absl::StatusOr<RankRecord> mine = RankRecord();
  if (comm.ok()) {
    mine = Describe(**comm);
  } else {
    mine = comm.status();
  }
  if (mine.ok() && rank == 0) {
    const absl::Status made = AddId(**comm, &*mine);
    if (!made.ok()) mine = made;
  }
  const absl::Status cause = mine.status();
  uint64_t seen = 0;
  const absl::StatusOr<std::vector<RankRecord>> records =
      Exchange(bootstrap, mine.ok() ? *std::move(mine) : RankRecord(), cause,
               deadline, &seen);
  if (!records.ok()) DEVRT_RETURN_IF_ERROR(cause);
  absl::Status prepared = cause.ok() ? records.status() : cause;
  if (prepared.ok()) prepared = CheckRecords(*records);
  if (prepared.ok()) prepared = Prepare(comm->get(), rank, *records);
  DEVRT_RETURN_IF_ERROR(Agree(bootstrap, prepared, seen, deadline));
  DEVRT_RETURN_IF_ERROR(Begin(comm->get(), *records));
  const absl::Time connected_by = ConnectBy(**comm, deadline);
  const absl::Status ready = AwaitReady({&*comm, 1}, connected_by);
  // The engine may have given up before, with a reason of its own.
  if (absl::IsDeadlineExceeded(ready) && absl::Now() >= connected_by) {
    return absl::DeadlineExceededError(absl::StrCat(
        "all ", size, " ranks exchanged their versions, and then ",
        (*comm)->info.name, " did not connect them within ",
        absl::FormatDuration(options.init_timeout - (deadline - connected_by)),
        ": a rank has died, or cannot be reached"));
  }
  DEVRT_RETURN_IF_ERROR(ready);
  // Before the watch looks at it.
  if (options.check_signatures) (*comm)->bootstrap = bootstrap;
  if (options.exchange_records) (*comm)->records_over = bootstrap;
  DEVRT_RETURN_IF_ERROR(Complete(*comm, site));
  return comm;
}

absl::StatusOr<std::vector<std::shared_ptr<Comm>>> TryCreateAll(
    absl::Span<const Device> devices, const Options& options, CallSite site) {
  if (devices.empty()) {
    return absl::InvalidArgumentError("CreateAll needs one device at least");
  }
  if (options.check_signatures) {
    return absl::UnimplementedError(
        "CreateAll has no check_signatures: the ranks compare their calls over "
        "a bootstrap, and each needs a thread; use Create");
  }
  const int size = static_cast<int>(devices.size());
  const absl::Time deadline = absl::Now() + options.init_timeout;
  std::vector<std::shared_ptr<Comm>> comms;
  std::vector<RankRecord> records;
  comms.reserve(devices.size());
  records.reserve(devices.size());
  for (const Device device : devices) {
    if (device.backend() != devices[0].backend()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "CreateAll has ", devices[0].name(), " and ", device.name(),
          ": the ranks of a communicator are of one backend"));
    }
    DEVRT_ASSIGN_OR_RETURN(std::shared_ptr<Comm> comm,
                           NewComm(device, options));
    DEVRT_ASSIGN_OR_RETURN(RankRecord record, Describe(*comm));
    if (records.empty()) {
      DEVRT_RETURN_IF_ERROR(AddId(*comm, &record));
    }
    comms.push_back(std::move(comm));
    records.push_back(std::move(record));
  }
  DEVRT_RETURN_IF_ERROR(CheckRecords(records));
  for (int i = 0; i < size; ++i) {
    DEVRT_RETURN_IF_ERROR(Prepare(comms[i].get(), i, records));
  }
  for (const std::shared_ptr<Comm>& comm : comms) {
    DEVRT_RETURN_IF_ERROR(Begin(comm.get(), records));
  }
  DEVRT_RETURN_IF_ERROR(AwaitReady(comms, deadline));
  for (const std::shared_ptr<Comm>& comm : comms) {
    DEVRT_RETURN_IF_ERROR(Complete(comm, site));
  }
  return comms;
}

}  // namespace

devrt_comm_options_v0 EngineOptions(const Options& options, const char* label) {
  devrt_comm_options_v0 engine{};
  engine.struct_size = sizeof engine;
  engine.shared_device = options.shared_device ? 1 : 0;
  engine.timeout_ns =
      options.timeout == absl::InfiniteDuration()
          ? 0
          : static_cast<uint64_t>(absl::ToInt64Nanoseconds(options.timeout));
  engine.name = label;
  return engine;
}

absl::Status MakeRecorder(Comm* comm) {
  Ring::Identity identity;
  identity.key = comm->key;
  identity.id = comm->id;
  identity.rank = static_cast<uint32_t>(comm->rank);
  identity.size = static_cast<uint32_t>(comm->size);
  identity.label = comm->Label();
  DEVRT_ASSIGN_OR_RETURN(comm->ring, Ring::Make(identity, comm->record_folder));
  return absl::OkStatus();
}

absl::Status Complete(const std::shared_ptr<Comm>& comm, CallSite site) {
  // An operation that has ended when submit returns needs no order.
  comm->needs_order = comm->provider.Has(DEVRT_COLLECTIVES_STREAM_ORDERED) &&
                      !comm->provider.Has(DEVRT_COLLECTIVES_ORDERS_ITSELF |
                                          DEVRT_COLLECTIVES_KEEPS_ORDER);
  comm->takes_part =
      comm->needs_order && comm->options.order_across_communicators;
  DEVRT_ASSIGN_OR_RETURN(Event life, Event::Create(comm->device, {}, site));
  comm->life.emplace(std::move(life));
  AddToProcess(comm);
  if (comm->options.watch) WatchComm(comm);
  return absl::OkStatus();
}

absl::Status AwaitReady(absl::Span<const std::shared_ptr<Comm>> comms,
                        absl::Time deadline) {
  size_t ready = 0;
  for (uint32_t turn = 0;; ++turn) {
    for (size_t i = ready; i < comms.size(); ++i) {
      const Comm& comm = *comms[i];
      uint32_t state = DEVRT_COMM_PENDING;
      DEVRT_RETURN_IF_ERROR(
          comm.Take(comm.provider.table->comm_poll(comm.provider.self,
                                                   comm.handle, &state),
                    "comm_poll"));
      if (state == DEVRT_COMM_READY && i == ready) ++ready;
      // One rank is made further by the polls of the others, if they may wait.
      if (state == DEVRT_COMM_PENDING && comm.provider.let_wait == nullptr) {
        break;
      }
    }
    if (ready == comms.size()) return absl::OkStatus();
    if (absl::Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat(comms[ready]->Text(), " is not ready"));
    }
    PauseBetweenPolls(comms[ready]->provider, turn);
  }
}

absl::StatusOr<std::shared_ptr<Comm>> CreateOne(Device device,
                                                Bootstrap* bootstrap,
                                                const Options& options,
                                                CallSite site) {
  auto made = TryCreateOne(device, bootstrap, options, site);
  if (!made.ok()) return OfCreation(options, made.status());
  return made;
}

absl::StatusOr<std::vector<std::shared_ptr<Comm>>> CreateAll(
    absl::Span<const Device> devices, const Options& options, CallSite site) {
  auto made = TryCreateAll(devices, options, site);
  if (!made.ok()) return OfCreation(options, made.status());
  return made;
}

}  // namespace devrt::collectives::internal
