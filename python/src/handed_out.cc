// SPDX-License-Identifier: Apache-2.0
#include "python/src/handed_out.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/raw_memory.h"

namespace devrt::python {

// The free itself reports addresses that are not memory or are free already.
void HandedOut::CheckNotLive(const void* block) const {
  const absl::StatusOr<PointerInfo> info =
      WithoutLock([&] { return GetPointerInfo(block); });
  if (!info.ok() || (info->kind != PointerKind::kDevice &&
                     info->kind != PointerKind::kPinned)) {
    return;
  }
  Check(absl::InvalidArgumentError(absl::StrCat(
      taker_, ": 0x", absl::Hex(reinterpret_cast<uintptr_t>(block)),
      " lies in ", ToString(info->kind), " memory that ", giver_,
      " did not give, or that was given back before: expected an address that "
      "it returned, once; arrays give their memory back when they end")));
}

HandedOut& HandedOutBlocks() {
  static auto* const given =
      new HandedOut("caching_allocator_alloc", "caching_allocator_delete");
  return *given;
}

HandedOut& HandedOutPinned() {
  static auto* const given = new HandedOut("pinned_alloc", "pinned_delete");
  return *given;
}

}  // namespace devrt::python
