// SPDX-License-Identifier: Apache-2.0
//
// The operations of a group on a stream: copies to the host, a host function in
// which the ranks meet, and copies back.
#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "tests/fakes/nccl/world.h"

namespace devrt::fake::nccl {
namespace {

// What one host function does.
struct Work {
  CommunicatorPtr comm;
  std::vector<Op> ops;
};

bool IsPointToPoint(const Op& op) {
  return op.kind == Kind::kSend || op.kind == Kind::kRecv;
}

bool AreAlike(const std::map<int, Op*>& ranks) {
  const Op& first = *ranks.begin()->second;
  return std::all_of(ranks.begin(), ranks.end(), [&first](const auto& member) {
    const Op& op = *member.second;
    return op.kind == first.kind && op.count == first.count &&
           op.type == first.type && op.reduction == first.reduction &&
           op.root == first.root;
  });
}

// Waits until all ranks are at this collective, and the last one computes.
// Collectives that differ never end, as in NCCL.
void Meet(const CommunicatorPtr& comm, Op* op,
          std::unique_lock<std::mutex>* lock) {
  Clique& clique = *comm->clique;
  const unsigned long number = comm->next++;
  auto& meeting = clique.meetings[number];
  meeting[comm->rank] = op;
  const bool has_all = static_cast<int>(meeting.size()) == clique.ranks;
  if (has_all && !AreAlike(meeting)) {
    ++TheWorld().differing;
  } else if (has_all) {
    Compute(meeting);
    clique.done.insert(number);
    clique.meetings.erase(number);
    TheWorld().changed.notify_all();
    return;
  }
  TheWorld().changed.wait(*lock, [&] {
    return comm->shared->ended || clique.done.count(number) != 0;
  });
}

// True when the receive has its data, or the send was received.
bool Progress(const Communicator& comm, Op* op) {
  Clique& clique = *comm.clique;
  if (op->kind == Kind::kSend) return clique.received.erase(op) != 0;
  auto& sent = clique.sent[{op->root, comm.rank}];
  if (sent.empty()) return false;
  Op* const from = sent.front();
  sent.pop_front();
  std::memcpy(op->out.data, from->in.data,
              std::min(op->out.size, from->in.size));
  clique.received.insert(from);
  TheWorld().changed.notify_all();
  return true;
}

void Exchange(const CommunicatorPtr& comm, std::vector<Op*> open,
              std::unique_lock<std::mutex>* lock) {
  for (Op* const op : open) {
    if (op->kind != Kind::kSend) continue;
    comm->clique->sent[{comm->rank, op->root}].push_back(op);
  }
  TheWorld().changed.notify_all();
  TheWorld().changed.wait(*lock, [&] {
    if (comm->shared->ended) return true;
    for (size_t i = 0; i < open.size();) {
      if (Progress(*comm, open[i])) {
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
        i = 0;
      } else {
        ++i;
      }
    }
    return open.empty();
  });
}

void CUDA_CB Run(CUstream, CUresult, void* arg) {
  Work* const work = static_cast<Work*>(arg);
  World& world = TheWorld();
  std::unique_lock<std::mutex> lock(world.mutex);
  std::vector<Op*> pairs;
  for (Op& op : work->ops) {
    if (work->comm->shared->ended) break;
    if (IsPointToPoint(op)) {
      pairs.push_back(&op);
    } else {
      Meet(work->comm, &op, &lock);
    }
  }
  if (!pairs.empty()) Exchange(work->comm, std::move(pairs), &lock);
  --work->comm->shared->running;
  world.changed.notify_all();
}

bool Allocate(size_t bytes, Buffer* buffer) {
  buffer->size = bytes;
  return bytes == 0 ||
         cuMemHostAlloc(reinterpret_cast<void**>(&buffer->data), bytes,
                        CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS;
}

// Other ranks may read the operations of a rank that has ended.
Work* Keep(Work work) {
  static auto* const kept = new std::deque<Work>();
  const std::lock_guard<std::mutex> lock(TheWorld().mutex);
  return &kept->emplace_back(std::move(work));
}

bool Wait(CUstream stream, CUstream other) {
  CUevent event = nullptr;
  return cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
         cuEventRecord(event, other) == CUDA_SUCCESS &&
         cuStreamWaitEvent(stream, event, 0) == CUDA_SUCCESS &&
         cuEventDestroy(event) == CUDA_SUCCESS;
}

Result LaunchOn(CUstream stream, const CommunicatorPtr& comm,
                std::vector<Op> ops) {
  const int ranks = comm->clique->ranks;
  for (Op& op : ops) {
    const size_t part = op.count * SizeOf(op.type);
    if (!Allocate(PartsRead(op, ranks, comm->rank) * part, &op.in) ||
        !Allocate(PartsWritten(op, ranks, comm->rank) * part, &op.out)) {
      return collectives::nccl::kUnhandledCudaError;
    }
    if (op.in.size != 0 &&
        cuMemcpyDtoHAsync(op.in.data, reinterpret_cast<CUdeviceptr>(op.src),
                          op.in.size, stream) != CUDA_SUCCESS) {
      return collectives::nccl::kUnhandledCudaError;
    }
  }
  {
    const std::lock_guard<std::mutex> lock(TheWorld().mutex);
    ++comm->shared->running;
  }
  Work* const work = Keep({comm, ops});
  if (cuStreamAddCallback(stream, &Run, work, 0) != CUDA_SUCCESS) {
    return collectives::nccl::kUnhandledCudaError;
  }
  for (const Op& op : ops) {
    if (op.out.size != 0 &&
        cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(op.dst), op.out.data,
                          op.out.size, stream) != CUDA_SUCCESS) {
      return collectives::nccl::kUnhandledCudaError;
    }
  }
  return collectives::nccl::kSuccess;
}

}  // namespace

void FreeMemory(Clique* clique, std::unique_lock<std::mutex>* lock) {
  if (++clique->freed < clique->ranks) return;
  lock->unlock();
  for (const int device : clique->devices) {
    const DeviceScope scope(device);
    (void)cuCtxSynchronize();
  }
  lock->lock();
}

// As NCCL's: the group begins when the earlier work of all its streams has
// ended, and their later work waits for the group.
Result Launch(const CommunicatorPtr& comm, std::vector<Op> ops) {
  const DeviceScope scope(comm->device);
  const CUstream stream = ops[0].stream;
  std::set<CUstream> others;
  for (const Op& op : ops) others.insert(op.stream);
  others.erase(stream);
  for (const CUstream other : others) {
    if (!Wait(stream, other)) return collectives::nccl::kUnhandledCudaError;
  }
  const Result result = LaunchOn(stream, comm, std::move(ops));
  for (const CUstream other : others) {
    if (!Wait(other, stream)) return collectives::nccl::kUnhandledCudaError;
  }
  return result;
}

}  // namespace devrt::fake::nccl

int fake_nccl_differing(void) {
  auto& world = devrt::fake::nccl::TheWorld();
  const std::lock_guard<std::mutex> lock(world.mutex);
  return world.differing;
}
