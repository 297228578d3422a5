// SPDX-License-Identifier: Apache-2.0
//
// The functions of the fake libnccl.so.2: communicators and groups.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/fakes/nccl/entries.h"
#include "tests/fakes/nccl/inside.h"
#include "tests/fakes/nccl/world.h"

namespace devrt::fake::nccl {

namespace abi = collectives::nccl;

World& TheWorld() {
  static auto* const world = new World();
  return *world;
}

void Crash(const char* what) {
  std::fprintf(stderr, "fake NCCL: %s\n", what);
  std::abort();
}

namespace {

using Lock = std::unique_lock<std::mutex>;

thread_local int t_depth = 0;
thread_local Result t_error = abi::kSuccess;
thread_local std::vector<std::pair<CommunicatorPtr, Op>> t_ops;

// First of each call.  kSuccess if it may go on.
Result Enter(const char* name, const Lock&) {
  World& world = TheWorld();
  world.last_call = name;
  const bool fails = ++world.calls == world.knobs.fail_at;
  if (fails) world.last_error = "a failure that the test asked for";
  return fails ? world.knobs.fail_code : abi::kSuccess;
}

CommunicatorPtr Find(abi::Comm handle, const Lock&) {
  const auto found = TheWorld().live.find(handle);
  if (found == TheWorld().live.end()) Crash("a communicator that was freed");
  return found->second;
}

Result Fail(Result result, const char* text, const Lock&) {
  TheWorld().last_error = text;
  return result;
}

// NCCL changes the current context as it likes.
void Leave() {
  if (TheWorld().knobs.drops_context) (void)cuCtxSetCurrent(nullptr);
}

abi::Comm Publish(const CommunicatorPtr& comm, const Lock&) {
  const auto handle = reinterpret_cast<abi::Comm>(comm.get());
  TheWorld().live[handle] = comm;
  return handle;
}

CommunicatorPtr Join(const std::shared_ptr<Clique>& clique, int rank,
                     int device) {
  auto comm = std::make_shared<Communicator>();
  comm->clique = clique;
  comm->rank = rank;
  comm->device = device;
  comm->polls_in_progress = TheWorld().knobs.slow ? 2 : 0;
  clique->members[rank] = comm;
  clique->devices.insert(device);
  return comm;
}

bool MayShareDevices() {
  const char* const set = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return set != nullptr && std::strcmp(set, "1") == 0;
}

void RefuseSharedDevices(Clique* clique, const Lock& lock) {
  std::vector<CommunicatorPtr> all;
  for (const auto& [rank, member] : clique->members) {
    if (const CommunicatorPtr comm = member.lock()) all.push_back(comm);
  }
  std::set<int> devices;
  for (const CommunicatorPtr& comm : all) {
    if (devices.insert(comm->device).second || MayShareDevices()) continue;
    (void)Fail(abi::kInvalidUsage, "Duplicate GPU detected", lock);
    for (const CommunicatorPtr& one : all) one->async = abi::kInvalidUsage;
  }
}

// Ends what runs, and lets the others wait on.
void End(const CommunicatorPtr& comm, Lock* lock) {
  comm->shared->ended = true;
  TheWorld().changed.notify_all();
  // A host function that has not begun yet finds that it has ended.
  (void)lock;
}

bool IsInProgress(const CommunicatorPtr& comm) {
  const Clique& clique = *comm->clique;
  if (TheWorld().knobs.init_never || !clique.IsComplete()) return true;
  if (comm->is_making_child) return true;
  if (comm->finalized &&
      (comm->shared->running != 0 || clique.finalized < clique.ranks)) {
    return true;
  }
  return comm->polls_in_progress > 0 && --comm->polls_in_progress > 0;
}

// kInProgress or kSuccess of a call that may take time.
Result Later(const CommunicatorPtr& comm) {
  if (!TheWorld().knobs.slow || comm->blocks) return abi::kSuccess;
  comm->polls_in_progress = 2;
  return abi::kInProgress;
}

// Makes the children once all have said their wishes.
void MakeChildren(const CommunicatorPtr& parent, const Lock& lock) {
  Clique& old = *parent->clique;
  if (static_cast<int>(old.wishes.size()) < old.wished) return;
  std::map<int, std::vector<std::pair<int, int>>> by_color;
  for (const auto& [rank, wish] : old.wishes) {
    wish.parent->is_making_child = false;
    // NCCL writes, whether there is a child or not.
    if (*wish.place != nullptr)
      Crash("the place of a child is something else's");
    __atomic_store_n(wish.place, nullptr, __ATOMIC_RELEASE);
    if (wish.color >= 0) by_color[wish.color].emplace_back(wish.key, rank);
  }
  for (auto& [color, ranks] : by_color) {
    std::sort(ranks.begin(), ranks.end());
    auto clique = std::make_shared<Clique>();
    clique->ranks = static_cast<int>(ranks.size());
    int next = 0;
    for (const auto& [key, rank] : ranks) {
      const Clique::Wish& wish = old.wishes[rank];
      const CommunicatorPtr child = Join(clique, next++, wish.parent->device);
      child->blocks = wish.blocks;
      child->splits_share = wish.splits_share;
      if (wish.parent->splits_share) child->shared = wish.parent->shared;
      __atomic_store_n(wish.place, Publish(child, lock), __ATOMIC_RELEASE);
    }
  }
  old.wishes.clear();
}

Result Wish(abi::Comm handle, Clique::Wish wish, int ranks, const Lock& lock) {
  const CommunicatorPtr comm = Find(handle, lock);
  *wish.place = nullptr;
  wish.parent = comm;
  comm->clique->wished = ranks;
  comm->clique->wishes[comm->rank] = wish;
  comm->is_making_child = true;
  MakeChildren(comm, lock);
  return comm->is_making_child ? abi::kInProgress : Later(comm);
}

void CheckConfig(const Config* config, bool child_shares = false) {
  static const bool may_block =
      std::getenv("DEVRT_FAKE_NCCL_MAY_BLOCK") != nullptr;
  if (config == nullptr || config->magic != abi::kConfigMagic ||
      config->size < sizeof(Config) ||
      (config->blocking != 0 && !child_shares && !may_block)) {
    Crash("the configuration blocks, and nothing could end its calls");
  }
}

// Submits what a group has; all or nothing, as far as calls are wrong.
Result Submit(Lock* lock) {
  World& world = TheWorld();
  const auto ops = std::exchange(t_ops, {});
  const Result error = std::exchange(t_error, abi::kSuccess);
  if (error != abi::kSuccess) return error;
  if (ops.empty()) return abi::kSuccess;
  const bool breaks =
      world.knobs.async_code != 0 && world.groups == world.knobs.async_after;
  ++world.groups;
  Result result = abi::kSuccess;
  Parts parts;
  for (const auto& [comm, op] : ops) {
    if (breaks) comm->async = world.knobs.async_code;
    const auto is_of = [&wanted = comm](const auto& part) {
      return part.first == wanted;
    };
    auto part = std::find_if(parts.begin(), parts.end(), is_of);
    if (part == parts.end()) {
      part = parts.insert(part, {comm, {}});
      if (Later(comm) != abi::kSuccess) result = abi::kInProgress;
    }
    part->second.push_back(op);
  }
  if (world.knobs.does_nothing) return result;
  Inside inside(parts, lock);
  if (!inside.AreAlike()) {
    return Fail(abi::kInvalidArgument, "a group blocks in part", *lock);
  }
  if (const Result ended = inside.AwaitRanks()) return ended;
  lock->unlock();
  for (auto& [comm, list] : parts) {
    const Result launched = Launch(comm, std::move(list));
    if (launched != abi::kSuccess) return launched;
  }
  return result;
}

Result Free(abi::Comm handle, bool aborts, Lock* lock) {
  const CommunicatorPtr comm = Find(handle, *lock);
  if (comm->inside != 0) Crash("a communicator is freed, and a call is in it");
  if (aborts) End(comm, lock);
  if (aborts && TheWorld().knobs.abort_hangs) {
    TheWorld().changed.wait(*lock, [] { return TheWorld().let_go; });
  }
  comm->clique->wishes.erase(comm->rank);
  comm->freed = true;
  TheWorld().live.erase(handle);
  FreeMemory(comm->clique.get(), lock);
  return abi::kSuccess;
}

}  // namespace

Result Add(const char* name, abi::Comm handle, const Op& op) {
  Lock lock(TheWorld().mutex);
  Result result = Enter(name, lock);
  const CommunicatorPtr comm = Find(handle, lock);
  CUdevice device = 0;
  if (result == abi::kSuccess && !CurrentDevice(&device)) {
    result = Fail(abi::kUnhandledCudaError, "no context is current", lock);
  }
  if (result == abi::kSuccess &&
      !MayBeCurrent(device, *comm, op.stream, t_depth > 0)) {
    result = Fail(abi::kUnhandledCudaError, "another device is current", lock);
  }
  if (result == abi::kSuccess && (comm->shared->ended || comm->finalized)) {
    result = Fail(abi::kInvalidUsage, "the communicator has ended", lock);
  }
  if (result != abi::kSuccess) {
    if (t_depth > 0 && t_error == abi::kSuccess) t_error = result;
    return result;
  }
  t_ops.emplace_back(comm, op);
  if (t_depth == 0) result = Submit(&lock);
  Leave();
  return result;
}

}  // namespace devrt::fake::nccl

using namespace devrt::fake::nccl;  // NOLINT: NCCL's own names are global
namespace abi = devrt::collectives::nccl;

// ---- The fake itself --------------------------------------------------------

void fake_nccl_set(const fake_nccl_knobs* knobs) {
  const Lock lock(TheWorld().mutex);
  TheWorld().knobs = *knobs;
  TheWorld().calls = TheWorld().groups = 0;
  TheWorld().let_go = false;
  TheWorld().last_error.clear();
}

void fake_nccl_let_go(void) {
  const Lock lock(TheWorld().mutex);
  TheWorld().let_go = true;
  TheWorld().changed.notify_all();
}

unsigned long fake_nccl_calls(void) {
  const Lock lock(TheWorld().mutex);
  return TheWorld().calls;
}

const char* fake_nccl_last_call(void) {
  const Lock lock(TheWorld().mutex);
  return TheWorld().last_call;
}

unsigned long fake_nccl_groups(void) {
  const Lock lock(TheWorld().mutex);
  return TheWorld().groups;
}

int fake_nccl_live(void) {
  const Lock lock(TheWorld().mutex);
  return static_cast<int>(TheWorld().live.size());
}

int fake_nccl_open_groups(void) { return t_depth; }

// ---- Texts ------------------------------------------------------------------

Result ncclGetVersion(int* version) {
  const char* const text = std::getenv("DEVRT_FAKE_NCCL_VERSION");
  *version = text != nullptr ? std::atoi(text) : 23203;
  return abi::kSuccess;
}

const char* ncclGetErrorString(Result result) {
  return result == abi::kRemoteError ? "remote process exited" : "some error";
}

const char* ncclGetLastError(abi::Comm) {
  static thread_local std::string text;
  const Lock lock(TheWorld().mutex);
  text = TheWorld().last_error;
  return text.c_str();
}

// ---- Communicators ----------------------------------------------------------

Result ncclGetUniqueId(abi::UniqueId* id) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclGetUniqueId", lock)) return error;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "fake %lu", ++TheWorld().ids);
  return abi::kSuccess;
}

Result ncclCommInitRankConfig(abi::Comm* comm, int ranks, abi::UniqueId id,
                              int rank, Config* config) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommInitRankConfig", lock)) return error;
  CheckConfig(config);
  CUdevice device = 0;
  if (!CurrentDevice(&device)) {
    return Fail(abi::kUnhandledCudaError, "no context is current", lock);
  }
  auto& clique = TheWorld().cliques[id.bytes];
  if (clique == nullptr) clique = std::make_shared<Clique>();
  clique->ranks = ranks;
  *comm = Publish(Join(clique, rank, device), lock);
  if (clique->IsComplete()) {
    RefuseSharedDevices(clique.get(), lock);
    TheWorld().cliques.erase(id.bytes);
  }
  Leave();
  return abi::kInProgress;
}

Result ncclCommGetAsyncError(abi::Comm handle, Result* error) {
  const Lock lock(TheWorld().mutex);
  const CommunicatorPtr comm = Find(handle, lock);
  if (const Result failed = Enter("ncclCommGetAsyncError", lock)) return failed;
  *error = comm->async != abi::kSuccess ? comm->async
           : IsInProgress(comm)         ? abi::kInProgress
                                        : abi::kSuccess;
  return abi::kSuccess;
}

Result ncclCommCount(abi::Comm handle, int* ranks) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommCount", lock)) return error;
  *ranks = Find(handle, lock)->clique->ranks;
  return abi::kSuccess;
}

Result ncclCommUserRank(abi::Comm handle, int* rank) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommUserRank", lock)) return error;
  *rank = Find(handle, lock)->rank;
  return abi::kSuccess;
}

Result ncclCommSplit(abi::Comm handle, int color, int key, abi::Comm* child,
                     Config* config) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommSplit", lock)) return error;
  const CommunicatorPtr comm = Find(handle, lock);
  CheckConfig(config, comm->splits_share);
  const bool blocks = config->blocking == 1;
  return Wish(handle, {color, key, child, blocks, config->split_share == 1},
              comm->clique->ranks, lock);
}

Result ncclCommShrink(abi::Comm handle, int*, int count, abi::Comm* child,
                      Config* config, int flags) {
  Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommShrink", lock)) return error;
  CheckConfig(config);
  const CommunicatorPtr comm = Find(handle, lock);
  if (flags == abi::kShrinkAbort) {
    End(comm, &lock);
    comm->async = abi::kSuccess;
  }
  return Wish(handle, {0, comm->rank, child, false, false},
              comm->clique->ranks - count, lock);
}

Result ncclCommRevoke(abi::Comm handle, int) {
  Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommRevoke", lock)) return error;
  const CommunicatorPtr comm = Find(handle, lock);
  End(comm, &lock);
  return Later(comm);
}

Result ncclCommFinalize(abi::Comm handle) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommFinalize", lock)) return error;
  const CommunicatorPtr comm = Find(handle, lock);
  if (comm->blocks) Crash("the end of a communicator that blocks");
  if (comm->shared->ended || comm->finalized) {
    return Fail(abi::kInvalidUsage, "the communicator has ended", lock);
  }
  comm->finalized = true;
  ++comm->clique->finalized;
  Leave();
  return abi::kInProgress;
}

Result ncclCommDestroy(abi::Comm handle) {
  Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommDestroy", lock)) return error;
  return Free(handle, false, &lock);
}

// Frees even when it fails.
Result ncclCommAbort(abi::Comm handle) {
  Lock lock(TheWorld().mutex);
  const Result error = Enter("ncclCommAbort", lock);
  (void)Free(handle, true, &lock);
  Leave();
  return error;
}

Result ncclCommRegister(abi::Comm handle, void* ptr, size_t,
                        void** registered) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommRegister", lock)) return error;
  (void)Find(handle, lock);
  *registered = ptr;
  return abi::kSuccess;
}

Result ncclCommDeregister(abi::Comm handle, void*) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclCommDeregister", lock)) return error;
  (void)Find(handle, lock);
  return abi::kSuccess;
}

// ---- Groups -----------------------------------------------------------------

Result ncclGroupStart(void) {
  const Lock lock(TheWorld().mutex);
  if (const Result error = Enter("ncclGroupStart", lock)) return error;
  ++t_depth;
  return abi::kSuccess;
}

Result ncclGroupEnd(void) {
  Lock lock(TheWorld().mutex);
  const Result error = Enter("ncclGroupEnd", lock);
  if (t_depth == 0) Crash("a group ends that did not begin");
  --t_depth;
  if (error != abi::kSuccess) {
    t_ops.clear();
    t_error = abi::kSuccess;
    return error;
  }
  const Result result = t_depth == 0 ? Submit(&lock) : abi::kSuccess;
  Leave();
  return result;
}
