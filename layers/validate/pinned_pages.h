// SPDX-License-Identifier: Apache-2.0
//
// Finds reads and writes of pinned memory that the program makes by a pointer
// while work uses the memory.  Only a simulator makes that possible: it closes
// the pages to the host and notes touches (devrt_pinned_guard.h).
//
// A page is closed while work that the host has not waited for writes it, and
// is read-only while such work reads it.  A block that shares its pages with
// others is not watched: the page would be closed for those as well.
//
// Threads: any.

#ifndef DEVRT_LAYERS_VALIDATE_PINNED_PAGES_H_
#define DEVRT_LAYERS_VALIDATE_PINNED_PAGES_H_

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_pinned_guard.h"
#include "layers/validate/layer_state.h"

namespace devrt::race {

class PinnedPages {
 public:
  // Enables the guard of the backend, if it has one.
  explicit PinnedPages(const devrt_next_v0* next);

  // Judges the touches since the last call.  Each call of the layer begins with
  // it, before the program's clocks advance.
  void JudgeTouches() {
    if (guard_ != nullptr && g_layer.validator->has_pinned()) Judge();
  }
  // Closes and opens pages after work was enqueued, or the host has waited.
  void Update() {
    if (guard_ != nullptr && g_layer.validator->has_pinned()) Apply();
  }

 private:
  void Judge();
  void Apply();

  const devrt_pinned_guard_v0* guard_ = nullptr;  // nullptr: not a simulator
  void* self_ = nullptr;
};

// Judges what the host has done with pinned memory since the last call.
inline void JudgeTouches() {
  PinnedPages* const pages = g_layer.pages.load(std::memory_order_acquire);
  if (pages != nullptr) pages->JudgeTouches();
}

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_PINNED_PAGES_H_
