// SPDX-License-Identifier: Apache-2.0
//
// libdevrt_torch.so: devrt's memory for PyTorch's pluggable allocator.
//
//   a = torch.cuda.memory.CUDAPluggableAllocator(
//       "libdevrt_torch.so", "devrt_torch_alloc", "devrt_torch_free")
//   a.allocator().set_record_stream_fn(address of devrt_torch_record_stream)
//
// and so on for each function below; docs/how-to/pytorch-allocator.md has the
// table.
//
// PyTorch does not check an allocator that replaces its own for a null pointer,
// so devrt_torch_alloc throws.  It is the only place where an exception leaves
// devrt (E20); PyTorch turns it into a RuntimeError with its text.  A MemPool
// checks: devrt_torch_pool_alloc returns null.
//
// It uses the C functions of devrt_memory.h only.  They take the device as an
// argument, and leave the current device as it is.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"  // the codes
#include "devrt/memory/devrt_memory.h"

// CUDA's name of a stream, which PyTorch's functions take.
struct CUstream_st;

namespace {

// c10::MempoolId_t, and the function that tells which streams a pool serves.
using PoolId = std::pair<unsigned long long, unsigned long long>;
using TakesStream = std::function<bool(CUstream_st*)>;

// The text of this thread's last error of devrt, copied without an allocation.
template <class Base>
class Failure final : public Base {
 public:
  Failure() {
    std::snprintf(text_, sizeof text_, "%s", devrt_memory_last_error_v0());
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[1024];
};
using OutOfMemory = Failure<std::bad_alloc>;
using Refused = Failure<std::exception>;

void ThrowUnlessOk(int32_t code) {
  if (code != 0) throw Refused();
}

// The name of a device, such as "cuda:0".  Tests build this file for a backend
// that needs no GPU.
struct DeviceName {
  explicit DeviceName(int device) {
#ifdef DEVRT_TORCH_BACKEND
    std::snprintf(text, sizeof text, "%s:%d", DEVRT_TORCH_BACKEND, device);
#else
    std::snprintf(text, sizeof text, "cuda:%d", device);
#endif
  }
  char text[32];
};

// The devices that PyTorch has asked for memory, one bit for each.
constexpr int kMostDevices = 64;
std::atomic<uint64_t> g_devices{0};

void NoteDevice(int device) {
  if (device >= 0 && device < kMostDevices) {
    g_devices.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
  }
}

template <class Call>
void ForEachDevice(const Call& call) {
  const uint64_t devices = g_devices.load(std::memory_order_relaxed);
  for (int device = 0; device < kMostDevices; ++device) {
    if ((devices >> device & 1) != 0) call(DeviceName(device).text);
  }
}

int32_t Allocate(size_t size, int device, void* stream, void** block) {
  NoteDevice(device);
  return devrt_memory_alloc_v0(DeviceName(device).text, size, stream, block);
}

struct Memory {
  explicit Memory(int device) {
    ThrowUnlessOk(devrt_memory_pool_create_v0(DeviceName(device).text, &pool));
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { (void)devrt_memory_pool_release_v0(pool); }

  devrt_memory_pool_v0* pool = nullptr;
};

// PyTorch's pools for the memory of captures, by their numbers.  Each begin
// adds a use of a pool.  A pool lives as long as it has a use, or a graph that
// uses its memory.
//
// devrt is called without a lock.  It may run code of the program that waits
// for Python's lock, and the holder of that one may wait for the lock here.
class Pools {
 public:
  static Pools& Get() {
    static Pools* const pools = new Pools;  // used after the end of main
    return *pools;
  }

  void Begin(int device, PoolId id, TakesStream takes) {
    NoteDevice(device);
    const std::shared_ptr<Memory> memory = MemoryOf({device, id});
    const std::lock_guard<std::mutex> lock(mutex_);
    Pool& pool = pools_[{device, id}];
    pool.memory = memory;
    ++pool.uses;
    routes_.push_back({device, memory, id, std::move(takes)});
    any_routes_.store(true);
  }
  void End(int device, PoolId id) {
    std::shared_ptr<Memory> ended;  // destroyed without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
      if (route->device != device || route->id != id) continue;
      ended = std::move(route->memory);
      routes_.erase(std::next(route).base());
      break;
    }
    any_routes_.store(!routes_.empty());
  }
  void Release(int device, PoolId id) {
    std::shared_ptr<Memory> released;  // destroyed without the lock
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto pool = pools_.find({device, id});
    if (pool == pools_.end() || --pool->second.uses > 0) return;
    released = std::move(pool->second.memory);
    pools_.erase(pool);
  }

  // The newest pool that serves the stream; nullptr if there is none.
  std::shared_ptr<Memory> Find(int device, void* stream) {
    if (!any_routes_.load()) return nullptr;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto route = routes_.rbegin(); route != routes_.rend(); ++route) {
      if (route->device == device &&
          route->takes(static_cast<CUstream_st*>(stream))) {
        return route->memory;
      }
    }
    return nullptr;
  }

  // Serves the MemPools of a device while a stream is captured; never released.
  std::shared_ptr<Memory> ForMemPools(int device) {
    constexpr PoolId kMemPools(~0ULL, ~0ULL);  // PyTorch uses no such number
    const std::shared_ptr<Memory> memory = MemoryOf({device, kMemPools});
    const std::lock_guard<std::mutex> lock(mutex_);
    pools_[{device, kMemPools}] = {memory, 1};
    return memory;
  }

 private:
  using Key = std::pair<int, PoolId>;
  struct Pool {
    std::shared_ptr<Memory> memory;
    int uses = 0;
  };
  struct Route {
    int device;
    std::shared_ptr<Memory> memory;
    PoolId id;
    TakesStream takes;
  };

  // The pool of that number; makes one if there is none.
  std::shared_ptr<Memory> MemoryOf(const Key& key) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const auto pool = pools_.find(key);
      if (pool != pools_.end()) return pool->second.memory;
    }
    // If two threads make one at once, that of the first stays.
    const auto made = std::make_shared<Memory>(key.first);
    const std::lock_guard<std::mutex> lock(mutex_);
    Pool& pool = pools_[key];
    if (pool.memory == nullptr) pool.memory = made;
    return pool.memory;
  }

  std::mutex mutex_;
  std::map<Key, Pool> pools_;
  std::vector<Route> routes_;  // between begin and end
  std::atomic<bool> any_routes_{false};
};

}  // namespace

extern "C" {

DEVRT_MEMORY_EXPORT void* devrt_torch_alloc(size_t size, int device,
                                            void* stream);
DEVRT_MEMORY_EXPORT void devrt_torch_free(void* ptr, size_t size, int device,
                                          void* stream);
DEVRT_MEMORY_EXPORT void* devrt_torch_pool_alloc(size_t size, int device,
                                                 void* stream);
DEVRT_MEMORY_EXPORT void devrt_torch_record_stream(void* ptr,
                                                   CUstream_st* stream);
DEVRT_MEMORY_EXPORT void devrt_torch_empty_cache();
DEVRT_MEMORY_EXPORT void devrt_torch_set_memory_fraction(double fraction,
                                                         int device);
DEVRT_MEMORY_EXPORT void* devrt_torch_base_allocation(void* ptr, size_t* size);
DEVRT_MEMORY_EXPORT void devrt_torch_begin_allocate_to_pool(int device,
                                                            PoolId id,
                                                            TakesStream takes);
DEVRT_MEMORY_EXPORT void devrt_torch_end_allocate_to_pool(int device,
                                                          PoolId id);
DEVRT_MEMORY_EXPORT void devrt_torch_release_pool(int device, PoolId id);

void* devrt_torch_alloc(size_t size, int device, void* stream) {
  void* block = nullptr;
  const std::shared_ptr<Memory> pool = Pools::Get().Find(device, stream);
  const int32_t code = pool != nullptr ? devrt_memory_pool_alloc_v0(
                                             pool->pool, size, stream, &block)
                                       : Allocate(size, device, stream, &block);
  if (code != 0) throw OutOfMemory();
  return block;
}

// Frees in the order of the stream that the block was allocated on.  PyTorch
// passes that stream too; it may have been destroyed behind a call of
// devrt_memory_stream_ends.
void devrt_torch_free(void* ptr, size_t, int, void*) {
  if (devrt_memory_free_v0(ptr) == 0) return;
  std::fprintf(stderr, "devrt_torch_free: %s\n", devrt_memory_last_error_v0());
}

// PyTorch searches its pool itself, and keeps the pool's memory as long as its
// graphs.  So it expects memory during a capture, too.
void* devrt_torch_pool_alloc(size_t size, int device, void* stream) {
  void* block = nullptr;
  const int32_t code = Allocate(size, device, stream, &block);
  if (code != DEVRT_FAILED_PRECONDITION) return block;
  try {
    const std::shared_ptr<Memory> pool = Pools::Get().ForMemPools(device);
    (void)devrt_memory_pool_alloc_v0(pool->pool, size, stream, &block);
  } catch (const std::exception&) {  // no pool: null means no room
  }
  return block;
}

// Does nothing for empty tensors, nor for memory of other allocators, as
// PyTorch's own allocator does.  Every device has default streams with the
// handles null, 1 and 2, so the use is noted for each device.
void devrt_torch_record_stream(void* ptr, CUstream_st* stream) {
  void* base = nullptr;
  uint64_t size = 0;
  if (ptr == nullptr || devrt_memory_base_v0(ptr, &base, &size) != 0) return;
  ThrowUnlessOk(devrt_memory_record_stream_v0(ptr, nullptr, stream));
  if (reinterpret_cast<uintptr_t>(stream) > 2) return;
  ForEachDevice([&](const char* device) {
    ThrowUnlessOk(devrt_memory_record_stream_v0(ptr, device, stream));
  });
}

void devrt_torch_empty_cache() {
  ForEachDevice([](const char* device) {
    ThrowUnlessOk(devrt_memory_empty_cache_v0(device));
  });
}

void devrt_torch_set_memory_fraction(double fraction, int device) {
  ThrowUnlessOk(
      devrt_memory_set_fraction_v0(DeviceName(device).text, fraction));
}

void* devrt_torch_base_allocation(void* ptr, size_t* size) {
  void* base = nullptr;
  uint64_t bytes = 0;
  ThrowUnlessOk(devrt_memory_base_v0(ptr, &base, &bytes));
  if (size != nullptr) *size = bytes;
  return base;
}

void devrt_torch_begin_allocate_to_pool(int device, PoolId id,
                                        TakesStream takes) {
  Pools::Get().Begin(device, id, std::move(takes));
}

void devrt_torch_end_allocate_to_pool(int device, PoolId id) {
  Pools::Get().End(device, id);
}

void devrt_torch_release_pool(int device, PoolId id) {
  Pools::Get().Release(device, id);
}
}
