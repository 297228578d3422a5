// SPDX-License-Identifier: Apache-2.0
//
// A binary heap of streams.  The first is the stream whose head has the
// earliest next step; of two, the one with the older head.  A stream knows its
// place (StreamCore::heap_index), so that any stream can be removed.

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_STREAM_HEAP_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_STREAM_HEAP_H_

#include <cstdint>
#include <vector>

#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

class StreamHeap {
 public:
  bool empty() const { return items_.empty(); }
  StreamCore* top() const { return items_.front().stream; }

  void Push(StreamCore* s) {
    items_.push_back({s->when, s->head->id, s});
    Up(items_.size() - 1);
  }

  void Remove(StreamCore* s) {
    const size_t at = s->heap_index - 1;
    s->heap_index = 0;
    const Item last = items_.back();
    items_.pop_back();
    if (at == items_.size()) return;
    items_[at] = last;
    last.stream->heap_index = static_cast<uint32_t>(at + 1);
    Down(at);
    Up(last.stream->heap_index - 1);
  }

 private:
  struct Item {
    VTime when;
    uint64_t id;
    StreamCore* stream;
    bool operator<(const Item& o) const {
      return when != o.when ? when < o.when : id < o.id;
    }
  };

  void Set(size_t at, const Item& item) {
    items_[at] = item;
    item.stream->heap_index = static_cast<uint32_t>(at + 1);
  }
  void Up(size_t at) {
    const Item item = items_[at];
    for (; at > 0 && item < items_[(at - 1) / 2]; at = (at - 1) / 2) {
      Set(at, items_[(at - 1) / 2]);
    }
    Set(at, item);
  }
  void Down(size_t at) {
    const Item item = items_[at];
    for (;;) {
      size_t child = 2 * at + 1;
      if (child >= items_.size()) break;
      if (child + 1 < items_.size() && items_[child + 1] < items_[child]) {
        ++child;
      }
      if (!(items_[child] < item)) break;
      Set(at, items_[child]);
      at = child;
    }
    Set(at, item);
  }

  std::vector<Item> items_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_STREAM_HEAP_H_
