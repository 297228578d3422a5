// SPDX-License-Identifier: Apache-2.0
//
// Communicators of devrt.collectives/0 for tests.
//
//   const CollectiveTable table(t);
//   const Ranks ranks(table, table.Devices(4));
//   t.Require(ranks.Submit(0, {op}), "all_reduce");
//
// All ranks are in this process.  Declare Ranks after the memory that they use:
// freeing memory waits for the device, and the end of a communicator ends its
// operations.
//
// Threads: as for the calls of the table.

#ifndef DEVRT_CTS_COLLECTIVES_H_
#define DEVRT_CTS_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cts/objects.h"
#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::cts {

using CollectiveOps = std::vector<devrt_collective_v0>;

// The table; without it the test is unsupported.
class CollectiveTable {
 public:
  explicit CollectiveTable(Test& t);

  Test& t() const { return t_; }
  bool Has(uint32_t flag) const { return (table_->flags & flag) == flag; }
  // Ends the test as unsupported if the engine lacks the flag.
  void Need(uint32_t flag, std::string_view name) const;
  bool Supports(uint32_t op, uint32_t dtype, uint32_t reduction) const;
  // A device for each of `most` ranks.  Ranks share devices if the engine can
  // do that; else each has its own, and there may be fewer.  Skips the test
  // where there are not two.
  std::vector<uint32_t> Devices(size_t most) const;
  std::string NewId() const;

  template <auto kSlot, typename... Args>
  Result Call(Args... args) const {
    return t_.machine().ToResult((table_->*kSlot)(self_, args...));
  }
  // comm_poll: the state, or the error of a communicator that has failed.
  Result Poll(devrt_comm comm, uint32_t* state) const;
  Result Begin(uint32_t device, uint32_t ranks, uint32_t rank,
               const std::string& id, uint64_t timeout_ns,
               devrt_comm* comm) const;

 private:
  Test& t_;
  const devrt_collectives_v0* table_ = nullptr;
  void* self_ = nullptr;
};

// A communicator: a place and a stream for each rank.
class Ranks {
 public:
  // Waits until it is ready.  `timeout_ns` counts with OWN_DEADLINES only.
  Ranks(const CollectiveTable& table, const std::vector<uint32_t>& devices,
        uint64_t timeout_ns = 0);
  // Takes the places of a communicator that is being made: `comms` by its
  // ranks.  Waits until they are ready.
  Ranks(const CollectiveTable& table, const std::vector<uint32_t>& devices,
        std::vector<devrt_comm> comms);
  Ranks(const Ranks&) = delete;
  ~Ranks();

  const CollectiveTable& table() const { return table_; }
  size_t size() const { return comms_.size(); }
  devrt_comm comm(size_t rank) const { return comms_[rank]; }
  const RawStream& stream(size_t rank) const { return streams_[rank]; }

  // One rank's operations, as a group, on its stream or on another one.
  Result Submit(size_t rank, const CollectiveOps& ops) const;
  Result Submit(size_t rank, const CollectiveOps& ops,
                const RawStream& stream) const;
  // The operations of all ranks, as one group.
  Result SubmitAll(const std::vector<CollectiveOps>& ops) const;
  void Sync() const;

  // Expects that comm_poll says READY, or an error with this code.
  bool IsReady(size_t rank, std::string_view what,
               Site site = Site::Here()) const;
  bool HasFailed(size_t rank, devrt_code code, std::string_view what,
                 Site site = Site::Here()) const;
  void Destroy(size_t rank);

 private:
  void WaitUntilReady() const;

  const CollectiveTable& table_;
  std::vector<devrt_comm> comms_;  // NULL: destroyed
  std::vector<RawStream> streams_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_COLLECTIVES_H_
