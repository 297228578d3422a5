// SPDX-License-Identifier: Apache-2.0
//
// libdevrt_torch.so: devrt's memory for PyTorch's pluggable allocator.
//
//   torch.cuda.memory.CUDAPluggableAllocator(
//       "libdevrt_torch.so", "devrt_torch_alloc", "devrt_torch_free")
//
// The host does not look for a null pointer from an allocator that replaces its
// own, hence devrt_torch_alloc throws: the only exception that leaves devrt
// (interop.md, rule 20).  It is caught by the host and becomes a RuntimeError
// with its text.  A MemPool does look: devrt_torch_pool_alloc answers null.
//
// Stands on the C functions of devrt_memory.h, nothing else.  These need no
// current device: the device is in the call, and what is current stays so.

#include <cstdint>
#include <cstdio>
#include <new>

#include "devrt/memory/devrt_memory.h"

namespace {

// A bad_alloc with a text of its own; copied without allocating.
class OutOfMemory final : public std::bad_alloc {
 public:
  explicit OutOfMemory(const char* text) {
    std::snprintf(text_, sizeof text_, "%s", text);
  }
  const char* what() const noexcept override { return text_; }

 private:
  char text_[1024];
};

// "cuda:0"; tests build it for a backend that needs no GPU.
void NameDevice(int device, char* name, size_t size) {
#ifdef DEVRT_TORCH_BACKEND
  std::snprintf(name, size, "%s:%d", DEVRT_TORCH_BACKEND, device);
#else
  std::snprintf(name, size, "cuda:%d", device);
#endif
}

void* Allocate(size_t size, int device, void* stream) {
  char name[32];
  NameDevice(device, name, sizeof name);
  void* block = nullptr;
  return devrt_memory_alloc_v0(name, size, stream, &block) == 0 ? block
                                                                : nullptr;
}

}  // namespace

extern "C" {

DEVRT_MEMORY_EXPORT void* devrt_torch_alloc(size_t size, int device,
                                            void* stream);
DEVRT_MEMORY_EXPORT void devrt_torch_free(void* ptr, size_t size, int device,
                                          void* stream);
DEVRT_MEMORY_EXPORT void* devrt_torch_pool_alloc(size_t size, int device,
                                                 void* stream);

void* devrt_torch_alloc(size_t size, int device, void* stream) {
  void* const block = Allocate(size, device, stream);
  if (block == nullptr && size != 0) {
    throw OutOfMemory(devrt_memory_last_error_v0());
  }
  return block;
}

// In the order of the stream that the block was allocated on, which is the one
// that the host passes; that one may be destroyed by now.
void devrt_torch_free(void* ptr, size_t, int, void*) {
  if (devrt_memory_free_v0(ptr) == 0) return;
  std::fprintf(stderr, "devrt_torch_free: %s\n", devrt_memory_last_error_v0());
}

void* devrt_torch_pool_alloc(size_t size, int device, void* stream) {
  return Allocate(size, device, stream);
}
}
