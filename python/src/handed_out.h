// SPDX-License-Identifier: Apache-2.0
//
// Memory blocks that functions of the package returned to the program as
// addresses.  Only these may be freed by address: an array's memory has an
// address too, but belongs to the array.
//
//   return HandedOutBlocks().HandOut(block);
//   HandedOutBlocks().TakeBack(pointer, [](void* block, CallSite site) {
//     return FreeMemory(block, site);
//   });
//
// Needs the GIL.

#ifndef DEVRT_PYTHON_SRC_HANDED_OUT_H_
#define DEVRT_PYTHON_SRC_HANDED_OUT_H_

#include "absl/container/flat_hash_set.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"

namespace devrt::python {

class HandedOut {
 public:
  // `giver` and `taker` are the names of the two functions, for messages.
  HandedOut(const char* giver, const char* taker)
      : giver_(giver), taker_(taker) {}

  nb::int_ HandOut(void* block) {
    if (block != nullptr) blocks_.insert(block);
    return AddressToInt(block);
  }

  // Calls free(block, site) without the GIL.  If that fails, the block stays
  // registered.  Throws InvalidArgumentError for live memory that Give did not
  // return.
  template <typename Free>
  void TakeBack(nb::handle pointer, const Free& free) {
    void* const block = AddressOf(pointer, "pointer");
    const bool given = blocks_.erase(block) != 0;
    if (!given) CheckNotLive(block);
    const SiteHere site;
    const absl::Status status = WithoutLock([&] { return free(block, site); });
    if (given && !status.ok()) blocks_.insert(block);
    Check(status);
  }

 private:
  void CheckNotLive(const void* block) const;

  const char* const giver_;
  const char* const taker_;
  absl::flat_hash_set<void*> blocks_;
};

HandedOut& HandedOutBlocks();  // of caching_allocator_alloc and the adapters
HandedOut& HandedOutPinned();  // of pinned_alloc

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_HANDED_OUT_H_
