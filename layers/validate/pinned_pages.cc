// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/pinned_pages.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "layers/validate/simulated_run.h"

namespace devrt::race {
namespace {

// The touch opened the page, so the host may have read all of it.
void ObservePage(const void* touched) {
  SimulatedRun* const run = g_layer.witnessed;
  if (run == nullptr) return;
  const BlockInfo block = g_layer.validator->BlockAt(touched);
  const auto size = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t page = reinterpret_cast<uint64_t>(touched) / size * size;
  const uint64_t begin = std::max(page, block.begin);
  const uint64_t end = std::min(page + size, block.end);
  run->Observe(reinterpret_cast<const void*>(begin), end - begin);
}

void Drop(devrt_status error) {
  g_layer.host->error_destroy(g_layer.host->host, error);
}

}  // namespace

PinnedPages::PinnedPages(const devrt_next_v0* next) {
  const auto* const guard = static_cast<const devrt_pinned_guard_v0*>(
      next->extension(next, DEVRT_PINNED_GUARD_EXTENSION, &self_));
  if (guard == nullptr) return;
  if (devrt_status error = guard->enable(self_)) {
    Drop(error);
    return;
  }
  guard_ = guard;
  g_layer.pages = this;
}

void PinnedPages::Judge() {
  constexpr uint32_t kAtOnce = 16;
  devrt_host_touch_v0 touches[kAtOnce];
  uint32_t taken = 0;
  bool any = false;
  do {
    Drop(guard_->take_touches(self_, touches, kAtOnce, &taken));
    for (uint32_t i = 0; i < taken; ++i) {
      const bool writes = touches[i].mode == DEVRT_ACCESS_WRITE;
      const std::vector<CodePlace> code =
          g_layer.places->At(touches[i].instruction);
      const std::string place = code.empty() ? "" : code[0].Text();
      Caller caller;
      caller.name = writes ? "host write" : "host read";
      caller.place = place.c_str();
      caller.op = NextOp(OpId::Kind::kNext);
      g_layer.validator->UseByPointer(caller, touches[i].address,
                                      writes ? Mode::kWrite : Mode::kRead);
      if (!writes) ObservePage(touches[i].address);
      any = true;
    }
  } while (taken == kAtOnce);
  if (any) Apply();
}

void PinnedPages::Apply() {
  g_layer.validator->ForEachPageChange(
      [&](const Validator::PageChange& change) {
        Drop(guard_->protect(self_, reinterpret_cast<void*>(change.begin),
                             change.end - change.begin, change.access));
      });
}

}  // namespace devrt::race
