// SPDX-License-Identifier: Apache-2.0
#include "cts/collectives.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

using Table = devrt_collectives_v0;

}  // namespace

// ---- CollectiveTable

CollectiveTable::CollectiveTable(Test& t) : t_(t) {
  const Extension found =
      t.NeedExtension(DEVRT_COLLECTIVES_EXTENSION, sizeof(Table));
  table_ = static_cast<const Table*>(found.table);
  self_ = found.self;
}

void CollectiveTable::Need(uint32_t flag, std::string_view name) const {
  if (!Has(flag)) {
    t_.Unsupported(absl::StrCat("devrt.collectives/0 has no ",
                                absl::string_view(name.data(), name.size())));
  }
}

bool CollectiveTable::Supports(uint32_t op, uint32_t dtype,
                               uint32_t reduction) const {
  uint32_t yes = 2;
  t_.Require(Call<&Table::supports>(op, dtype, reduction, &yes), "supports");
  t_.Require(yes < 2, "supports answers 0 or 1");
  return yes != 0;
}

std::vector<uint32_t> CollectiveTable::Devices(size_t most) const {
  const std::vector<uint32_t>& all = t_.devices();
  const bool shared = Has(DEVRT_COLLECTIVES_SHARED_DEVICE);
  if (!shared && all.size() < 2) {
    t_.Skip("it needs two devices, since ranks cannot share one");
  }
  std::vector<uint32_t> chosen;
  const size_t count = shared ? most : std::min(most, all.size());
  for (size_t i = 0; i < count; ++i) chosen.push_back(all[i % all.size()]);
  return chosen;
}

std::string CollectiveTable::NewId() const {
  char bytes[DEVRT_COLLECTIVES_MAX_ID];
  uint64_t size = sizeof bytes;
  t_.Require(Call<&Table::unique_id>(static_cast<void*>(bytes), &size),
             "unique_id");
  t_.Require(size != 0 && size <= sizeof bytes, "an id has 1 to 256 bytes");
  return std::string(bytes, size);
}

Result CollectiveTable::Poll(devrt_comm comm, uint32_t* state) const {
  const Result result = Call<&Table::comm_poll>(comm, state);
  if (result.ok()) {
    t_.Require(*state == DEVRT_COMM_PENDING || *state == DEVRT_COMM_READY,
               "comm_poll answers PENDING or READY");
  }
  return result;
}

Result CollectiveTable::Begin(uint32_t device, uint32_t ranks, uint32_t rank,
                              const std::string& id, uint64_t timeout_ns,
                              devrt_comm* comm) const {
  const bool shared = Has(DEVRT_COLLECTIVES_SHARED_DEVICE);
  const devrt_comm_options_v0 options = {sizeof options, shared ? 1u : 0u,
                                         timeout_ns, "cts"};
  return Call<&Table::comm_begin>(device, ranks, rank,
                                  static_cast<const void*>(id.data()),
                                  uint64_t{id.size()}, &options, comm);
}

// ---- Ranks

Ranks::Ranks(const CollectiveTable& table, const std::vector<uint32_t>& devices,
             uint64_t timeout_ns)
    : table_(table), comms_(devices.size(), nullptr) {
  const std::string id = table.NewId();
  for (uint32_t r = 0; r < devices.size(); ++r) {
    const Result begun =
        table.Begin(devices[r], static_cast<uint32_t>(devices.size()), r, id,
                    timeout_ns, &comms_[r]);
    table.t().Require(begun, "comm_begin");
    streams_.emplace_back(table.t(), devices[r]);
  }
  WaitUntilReady();
}

Ranks::Ranks(const CollectiveTable& table, const std::vector<uint32_t>& devices,
             std::vector<devrt_comm> comms)
    : table_(table), comms_(std::move(comms)) {
  for (const uint32_t device : devices) {
    streams_.emplace_back(table.t(), device);
  }
  WaitUntilReady();
}

Ranks::~Ranks() {
  for (size_t r = 0; r < comms_.size(); ++r) Destroy(r);
}

void Ranks::WaitUntilReady() const {
  for (const devrt_comm comm : comms_) {
    Result result;
    const bool ready = table_.t().Eventually([&] {
      uint32_t state = DEVRT_COMM_PENDING;
      result = table_.Poll(comm, &state);
      return !result.ok() || state == DEVRT_COMM_READY;
    });
    table_.t().Require(result, "comm_poll of a new communicator");
    table_.t().Require(ready, "a communicator is READY when all have begun");
  }
}

void Ranks::Destroy(size_t rank) {
  const devrt_comm comm = std::exchange(comms_[rank], nullptr);
  if (comm == nullptr) return;
  table_.t().Ok(table_.Call<&Table::comm_destroy>(comm), "comm_destroy");
}

Result Ranks::Submit(size_t rank, const CollectiveOps& ops) const {
  return Submit(rank, ops, streams_[rank]);
}

Result Ranks::Submit(size_t rank, const CollectiveOps& ops,
                     const RawStream& stream) const {
  const devrt_submission_v0 submission = {
      sizeof submission, static_cast<uint32_t>(ops.size()),
      comms_[rank],      stream.handle(),
      ops.data(),        nullptr};
  return table_.Call<&Table::submit>(&submission, 1u);
}

Result Ranks::SubmitAll(const std::vector<CollectiveOps>& ops) const {
  std::vector<devrt_submission_v0> all;
  for (size_t r = 0; r < size(); ++r) {
    all.push_back({sizeof(devrt_submission_v0),
                   static_cast<uint32_t>(ops[r].size()), comms_[r],
                   streams_[r].handle(), ops[r].data(), nullptr});
  }
  const devrt_submission_v0* const first = all.data();
  return table_.Call<&Table::submit>(first, static_cast<uint32_t>(all.size()));
}

void Ranks::Sync() const {
  for (const RawStream& stream : streams_) stream.Sync();
}

bool Ranks::IsReady(size_t rank, std::string_view what, Site site) const {
  uint32_t state = DEVRT_COMM_PENDING;
  Test& t = table_.t();
  return t.Ok(table_.Poll(comms_[rank], &state), what, site) &&
         t.Equal(state, DEVRT_COMM_READY, what, site);
}

bool Ranks::HasFailed(size_t rank, devrt_code code, std::string_view what,
                      Site site) const {
  Result result;
  table_.t().Eventually([&] {
    uint32_t state = DEVRT_COMM_PENDING;
    result = table_.Poll(comms_[rank], &state);
    return !result.ok();
  });
  return table_.t().Code(result, code, what, "", site);
}

}  // namespace devrt::cts
