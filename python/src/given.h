// SPDX-License-Identifier: Apache-2.0
//
// Given: the blocks that functions of the package gave to the program by their
// addresses.  Only these can be given back by address: memory of arrays has
// addresses, too, and is the arrays' own.
//
//   return GivenBlocks().Give(block);
//   GivenBlocks().TakeBack(pointer, [](void* block, CallSite site) {
//     return FreeMemory(block, site);
//   });
//
// Threads: those that hold the interpreter's lock.

#ifndef DEVRT_PYTHON_SRC_GIVEN_H_
#define DEVRT_PYTHON_SRC_GIVEN_H_

#include "absl/container/flat_hash_set.h"
#include "python/src/bindings.h"

namespace devrt::python {

class Given {
 public:
  // `giver`, `taker`: the functions, as messages name them.
  Given(const char* giver, const char* taker) : giver_(giver), taker_(taker) {}

  nb::int_ Give(void* block) {
    if (block != nullptr) blocks_.insert(block);
    return AddressToInt(block);
  }

  // free(block, site) without the lock; if that fails nothing has changed.
  // Throws InvalidArgumentError for live memory that was not given.
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

Given& GivenBlocks();  // of caching_allocator_alloc and the adapters
Given& GivenPinned();  // of pinned_alloc

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_GIVEN_H_
