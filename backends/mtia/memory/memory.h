// SPDX-License-Identifier: Apache-2.0
//
// The memories of the simulated machine: one window per device, one for pinned
// host memory, and the table of registered host ranges.
//
// A window is a memfd mapped twice: without access at the public address,
// which is what callers hold, and read-write at a private alias, which is what
// operations use.  A host dereference of a device pointer always faults.
// Pinned memory is mapped once, read-write.
//
// Thread-safe.  Knows nothing of streams: callers order frees themselves.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_MEMORY_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/mtia/config/config.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

class BlockTable;
class Parts;

enum class Space { kHost, kDevice, kPinned, kRegistered };

// What a pointer is.  For kHost only `local` (the pointer itself) means
// anything.
struct Resolved {
  Space space = Space::kHost;
  uint32_t device = 0;  // owner; for pinned, the device it is attributed to
  std::byte* local = nullptr;    // where operations may touch it
  std::byte* base = nullptr;     // public base of the allocation
  uint64_t size = 0;             // of the allocation, as asked for
  uint64_t own = 0;              // the same, without mapped neighbours
  uint64_t offset = 0;           // of the pointer in the allocation
  uint64_t id = 0;               // of the allocation, never reused
  bool ordered = false;          // it is a stream-ordered one,
  bool unborn = false;           // whose ALLOC has not run,
  uint64_t closed = UINT64_MAX;  // and whose free was called behind that
                                 // submission
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

  // Makes what Reset(config) will need; nothing else changes.  False, with
  // `*error` set, if the system refuses; Reset will not fail after true.
  bool Prepare(const Config& config, std::string* error);
  // Forgets all blocks, registrations, peers and counts, and takes `config`;
  // [load].  Cheap, and pointer values begin afresh: the mappings stay, unless
  // `config` needs windows of another size or number.  False, with `*error`
  // set when it is given, if the system refuses those; then nothing changed
  // but that all memory is forgotten.
  bool Reset(const Config& config, std::string* error = nullptr);

  // ---- device memory ------------------------------------------------------
  // First fit at `granularity`; RESOURCE_EXHAUSTED changes nothing.
  // `fragmented` requests fail although the free bytes suffice; the text says
  // which of the two it was (total, free, largest hole).
  // `alignment` is 0 or a power of two; above 1 GiB it is UNIMPLEMENTED.
  devrt_status Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     const devrt_call_site_v0& site, void** ptr);
  // NULL is fine.  INVALID_ARGUMENT for double, interior and foreign pointers,
  // naming the sites of allocation and of the first free.
  devrt_status Free(uint32_t device, void* ptr, const devrt_call_site_v0& site);
  void Info(uint32_t device, uint64_t* free_bytes, uint64_t* total) const;

  // ---- stream-ordered device memory: see BlockTable -------------------------
  devrt_status AllocOrdered(uint32_t device, uint64_t size, uint64_t alignment,
                            uint64_t stream, const devrt_call_site_v0& site,
                            void** ptr, uint64_t* id);
  void BeginOrdered(const void* ptr, uint64_t id);
  devrt_status CloseOrdered(uint32_t device, void* ptr, uint64_t stream,
                            uint64_t last, const devrt_call_site_v0& site,
                            uint64_t* id);
  bool EndOrdered(const void* ptr, uint64_t id, bool paint);

  // ---- virtual memory -----------------------------------------------------
  // The blocks of a device; nullptr if there is no such device.
  BlockTable* BlocksOf(uint32_t device);
  // The same for the device whose window `ptr` is in, and where in it.
  BlockTable* BlocksAt(const void* ptr, uint64_t* offset);

  // ---- devrt.suballocation ------------------------------------------------
  // The parts of the device whose memory `ptr` is, and where in it.
  Parts* PartsAt(const void* ptr, uint64_t* offset);
  // Whether submission `op` may touch [ptr, ptr + size) for what allocators
  // said of it; else false, with `*why` set.
  bool CheckParts(const void* ptr, uint64_t size, uint64_t op,
                  std::string* why) const;

  // ---- pinned and registered host memory -----------------------------------
  // Pinned blocks begin at page boundaries.
  devrt_status HostAlloc(uint32_t device, uint64_t size, uint64_t alignment,
                         const devrt_call_site_v0& site, void** ptr);
  devrt_status HostFree(void* ptr, const devrt_call_site_v0& site);
  // C70.  Memory of ours, empty, wrapping and unmapped ranges are
  // INVALID_ARGUMENT.
  devrt_status Register(uint32_t device, void* ptr, uint64_t size,
                        const devrt_call_site_v0& site);
  devrt_status Unregister(void* ptr);

  // ---- looking
  // --------------------------------------------------------------- What `ptr`
  // is.  A freed, never allocated or null pointer inside a window is kHost with
  // local == nullptr, so that nobody can touch it.
  Resolved Find(const void* ptr) const;
  // "16 bytes into block #3 of mtia:0 (...)", "plain host memory"; for
  // messages.
  std::string Describe(const void* ptr) const;
  // The local address of [ptr, ptr + size) when all of it lies in one live
  // allocation that `device` may access (its own, a peer's that
  // `may_access_peer(device, owner)` allows, pinned, registered); else
  // nullptr and `*why` says what is wrong with which bytes.  Plain host memory
  // is never accessible here.  Nothing is wrong with 0 bytes, wherever.
  // `op` is the submission that asks: it is to be one of those that may touch
  // the memory; 0: nobody's, the block lives or not.
  std::byte* Local(uint32_t device, const void* ptr, uint64_t size,
                   std::string* why, uint64_t op = 0) const;

  // ---- peers
  // -------------------------------------------------------------------
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
