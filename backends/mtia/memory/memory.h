// SPDX-License-Identifier: Apache-2.0
//
// The memories of the simulated machine: a window of addresses for each device,
// one for pinned host memory, and the table of registered host ranges.
//
// A device's window is a memfd mapped twice: without access at the addresses
// that the program holds, and read-write at local addresses, which operations
// use.  So a host dereference of a device pointer always faults.  Pinned memory
// is mapped once, read-write; with a guard it is mapped twice, too.
//
// Thread-safe.  Memory knows no streams: the caller orders a free behind work.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_MEMORY_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/mtia/config/config.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class ChunkTable;
class PinnedGuard;
class Suballocations;

enum class Space { kHost, kDevice, kPinned, kRegistered };

// What a pointer points to.  For kHost only `local` is set, to the pointer.
struct Resolved {
  Space space = Space::kHost;
  uint32_t device = 0;  // owner; for pinned, the device it is attributed to
  std::byte* local = nullptr;  // where operations may touch it
  std::byte* base = nullptr;   // public base of the allocation
  // Bytes that can be used from `base` on: up to the end of the last mapping,
  // if further mappings follow without a gap.
  uint64_t size = 0;
  uint64_t own = 0;     // bytes of the allocation or mapping alone
  uint64_t offset = 0;  // of the pointer in the allocation
  uint64_t id = 0;      // of the allocation, never reused
  // Stream-ordered allocations only.
  bool ordered = false;
  bool is_pending = false;       // its allocation has not run
  uint64_t closed = UINT64_MAX;  // newest submission when its free was called
};

class Memory {
 public:
  // Maps the windows.  Returns nullptr and sets `*error` when the system
  // refuses.  Windows stay mapped until the object dies.
  static std::unique_ptr<Memory> Create(const Config& config,
                                        std::string* error);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  // Maps what Reset(config) will need, and changes nothing else.  Returns
  // false, with `*error` set, if the system refuses.  After true Reset does not
  // fail.
  bool Prepare(const Config& config, std::string* error);
  // Forgets all blocks, registrations, peers and counts, and takes `config`. A
  // program that is run again then gets equal addresses.  The mappings stay
  // unless `config` needs windows of another size or number.  If the system
  // refuses those, returns false, with `*error` set if it is given; all memory
  // is forgotten then, and nothing else has changed.
  bool Reset(const Config& config, std::string* error = nullptr);

  // ---- device memory ------------------------------------------------------
  // Takes the lowest place that fits, in steps of `granularity`.  `alignment`
  // is 0 or a power of two; above 1 GiB it is UNIMPLEMENTED.
  // RESOURCE_EXHAUSTED if bytes are missing or no hole is large enough; the
  // text says which.
  devrt_status Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  // NULL is allowed.  INVALID_ARGUMENT for freed, interior and foreign
  // pointers; the text names the call sites of the allocation and of the first
  // free.
  devrt_status Free(uint32_t device, void* ptr, const devrt_call_site_v0& site);
  void Info(uint32_t device, uint64_t* free_bytes, uint64_t* total) const;

  // ---- stream-ordered device memory: see OrderedBlocks ----------------------
  devrt_status AllocOrdered(uint32_t device, uint64_t size, uint64_t alignment,
                            uint64_t stream, const devrt_call_site_v0& site,
                            void** ptr, uint64_t* id);
  void BeginOrdered(const void* ptr, uint64_t id);
  devrt_status CloseOrdered(uint32_t device, void* ptr, uint64_t stream,
                            uint64_t last, const devrt_call_site_v0& site,
                            uint64_t* id);
  bool EndOrdered(const void* ptr, uint64_t id, bool paint);

  // ---- virtual memory -----------------------------------------------------
  // The chunks of `device`, or nullptr if there is no such device.
  ChunkTable* ChunksOf(uint32_t device);
  // The chunks of the device in whose window `ptr` is, and the offset in that
  // window; nullptr if `ptr` is in none.
  ChunkTable* ChunksAt(const void* ptr, uint64_t* offset);

  // ---- devrt.suballocation ------------------------------------------------
  // The suballocations of the device in whose window `ptr` is, and the offset
  // in that window; nullptr if it is in none.
  Suballocations* SuballocationsAt(const void* ptr, uint64_t* offset);
  // Returns true if submission `op` may touch [ptr, ptr + size) by what
  // allocators have reported; else false, with `*why` set.
  bool CheckSuballocations(const void* ptr, uint64_t size, uint64_t op,
                           std::string* why) const;

  // ---- pinned and registered host memory -----------------------------------
  // Pinned blocks begin at page boundaries.
  devrt_status HostAlloc(uint32_t device, uint64_t size, uint64_t alignment,
                         const devrt_call_site_v0& site, void** ptr);
  devrt_status HostFree(void* ptr, const devrt_call_site_v0& site);
  // INVALID_ARGUMENT for simulated memory and for empty, wrapping and unmapped
  // ranges (C70).
  devrt_status Register(uint32_t device, void* ptr, uint64_t size,
                        const devrt_call_site_v0& site);
  devrt_status Unregister(void* ptr);

  // The guard of pinned memory; nullptr unless it was enabled before the memory
  // was made.
  PinnedGuard* pinned_guard() const;

  // ---- look-up -----------------------------------------------------------
  // What `ptr` points to.  For a freed, never allocated or null pointer inside
  // a window it is kHost with local == nullptr, so that no operation touches
  // it.
  Resolved Find(const void* ptr) const;
  // "16 bytes into block #3 of mtia:0 (...)", "plain host memory"; for
  // messages.
  std::string Describe(const void* ptr) const;
  // The local address of [ptr, ptr + size), if all of it lies in one live
  // allocation that `device` may access: its own, that of an enabled peer,
  // pinned or registered memory.  Else nullptr, and `*why` says what is wrong
  // with which bytes.  Plain host memory is never accessible.  0 bytes are
  // accessible anywhere.  `op` is the submission that touches the memory; 0 if
  // none does, and then only the life of the block counts.
  std::byte* Local(uint32_t device, const void* ptr, uint64_t size,
                   std::string* why, uint64_t op = 0) const;

  // ---- peers ---------------------------------------------------------------
  bool CanAccessPeer(uint32_t device, uint32_t peer) const;  // topology
  devrt_status EnablePeer(uint32_t device, uint32_t peer);   // C76
  devrt_status DisablePeer(uint32_t device, uint32_t peer);
  bool PeerEnabled(uint32_t device, uint32_t peer) const;

  // Counts for devrt.sim/1 stats.
  uint64_t live_blocks() const;
  uint64_t live_pinned() const;
  uint64_t live_registered() const;

  // Dereferences of device memory by the host since the last reset.
  uint64_t host_accesses() const;

  // host_access=continue: closes the pages opened by the fault handler.
  // Called at the start of every API call; costs one load when none is open.
  void CloseOpenedPages();

 private:
  Memory();
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<Impl> prepared_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_MEMORY_H_
