// SPDX-License-Identifier: Apache-2.0
//
// The communicators of the fake, and how their operations meet.  One mutex
// guards everything, and one condition tells of every change.

#ifndef DEVRT_TESTS_FAKES_NCCL_WORLD_H_
#define DEVRT_TESTS_FAKES_NCCL_WORLD_H_

#include <cuda.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collectives/nccl/abi.h"
#include "tests/fakes/nccl/knobs.h"

namespace devrt::fake::nccl {

using collectives::nccl::Config;
using collectives::nccl::DataType;
using collectives::nccl::Reduction;
using collectives::nccl::Result;

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kSend,
  kRecv,
};

// Pinned memory, which lives as long as the process: its copies may be late.
struct Buffer {
  char* data = nullptr;
  size_t size = 0;
};

// One operation of one rank.  `in` and `out` are its buffers on the host.
struct Op {
  Kind kind;
  const void* src;
  void* dst;
  size_t count;
  DataType type;
  Reduction reduction;
  int root;  // or the peer
  CUstream stream;
  Buffer in = {};
  Buffer out = {};
};

struct Clique;

// What a communicator shares with its children, if its configuration says so.
struct Shared {
  bool ended = false;  // operations end, and calls: aborted or revoked
  int running = 0;     // operations that are not complete
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  std::shared_ptr<Shared> shared = std::make_shared<Shared>();
  bool blocks = false;        // its calls return when they are done
  bool splits_share = false;  // its children share
  int inside = 0;             // calls that submit to it
  unsigned long groups = 0;   // submitted
  int rank = 0;
  int device = 0;
  CUcontext context = nullptr;
  bool freed = false;      // the handle is dead
  bool finalized = false;  // ncclCommFinalize was called
  int polls_in_progress = 0;
  bool is_making_child = false;
  Result async = 0;
  unsigned long next = 0;  // number of the next collective
};
using CommunicatorPtr = std::shared_ptr<Communicator>;

// The ranks of one communicator.
struct Clique {
  int ranks = 0;
  std::map<int, std::weak_ptr<Communicator>> members;  // all that have come
  int finalized = 0;
  int freed = 0;  // ranks that have given their handles back
  std::set<int> devices;
  std::map<int, unsigned long> groups;  // that each rank has submitted
  // The n-th collective, by rank, and how many have taken its result.
  std::map<unsigned long, std::map<int, Op*>> meetings;
  std::set<unsigned long> done;
  // From rank to rank, in order.
  std::map<std::pair<int, int>, std::deque<Op*>> sent;
  std::set<const Op*> received;
  // A split or a shrink under way, by rank of this clique.
  struct Wish {
    int color, key;
    collectives::nccl::Comm* place;
    bool blocks, splits_share;
    CommunicatorPtr parent = nullptr;
  };
  std::map<int, Wish> wishes;
  int wished = 0;  // how many ranks make wishes

  bool IsComplete() const { return static_cast<int>(members.size()) == ranks; }
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  fake_nccl_knobs knobs = {};
  bool let_go = false;
  unsigned long calls = 0;
  unsigned long groups = 0;
  int differing = 0;
  const char* last_call = "";
  std::string last_error;
  std::map<std::string, std::shared_ptr<Clique>> cliques;  // by id
  std::map<collectives::nccl::Comm, CommunicatorPtr> live;
  unsigned long ids = 0;
};
World& TheWorld();

// Ends the process with a message: a caller's mistake that crashes NCCL.
[[noreturn]] void Crash(const char* what);

// The device that is current for the caller: of HIP's runtime if the process
// has it, which keeps no context current; else of the driver.  False for none.
bool CurrentDevice(CUdevice* device);
// False if an operation needs another device than the current one.  In a group
// NCCL finds the devices by itself, but not for a rank that is alone, nor for a
// default stream: it asks whether the one of the current device captures.
bool MayBeCurrent(CUdevice device, const Communicator& comm, CUstream stream,
                  bool in_group);
// Makes the device's context current for a scope, as NCCL does for each
// communicator of a group.
class DeviceScope {
 public:
  explicit DeviceScope(CUdevice device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;

 private:
  const CUdevice device_;
  CUcontext before_ = nullptr;
};

// Submits the operations of one communicator on their streams, in order.
Result Launch(const CommunicatorPtr& comm, std::vector<Op> ops);

// The last rank of a process frees the memory of all of its ranks, and each
// device gives memory back behind all of its work.  `lock` is of the world's
// mutex, and held.
void FreeMemory(Clique* clique, std::unique_lock<std::mutex>* lock);

// The bytes of an element.
size_t SizeOf(DataType type);
// The parts of `count` elements that an operation reads and writes on a rank.
size_t PartsRead(const Op& op, int ranks, int rank);
size_t PartsWritten(const Op& op, int ranks, int rank);
// Fills the outputs of a collective from the inputs of all ranks.
void Compute(const std::map<int, Op*>& ranks);

}  // namespace devrt::fake::nccl

#endif  // DEVRT_TESTS_FAKES_NCCL_WORLD_H_
