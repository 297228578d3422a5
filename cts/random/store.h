// SPDX-License-Identifier: Apache-2.0
//
// The memory of a program in the model: the content of each slice, and its last
// accesses.
//
// A slice has one legal content as long as no access conflicts with an earlier
// one.  Then the order of the list is a possible order, and every other
// possible order gives an equal content.

#ifndef DEVRT_CTS_RANDOM_STORE_H_
#define DEVRT_CTS_RANDOM_STORE_H_

#include <optional>
#include <vector>

#include "cts/random/clock.h"
#include "cts/random/program.h"

namespace devrt::cts {

class BlockStore {
 public:
  explicit BlockStore(const Program& program);

  void Allocate(int block);
  void Free(int block) { Of(block).alive = false; }
  bool IsAlive(int block) const { return Of(block).alive; }
  bool WasAllocated(int block) const { return Of(block).allocated; }

  // An earlier access to `span` that is not in `clock`, and that has to come
  // before a read, or before a write.
  std::optional<Epoch> Conflict(const Span& span, bool writes,
                                const Clock& clock) const;
  bool IsDefined(const Span& span) const;
  std::vector<Content> Read(const Span& span, Epoch who);
  void Write(const Span& span, Epoch who, const std::vector<Content>& contents);
  // Reads without recording the access.
  std::vector<Content> Peek(const Span& span) const;
  const Content& content(int block, int slice) const {
    return Of(block).slices[static_cast<size_t>(slice)].content;
  }

 private:
  struct Slice {
    Content content;
    Epoch writer;
    std::vector<Epoch> readers;  // since the last write
  };
  struct Block {
    bool allocated = false;
    bool alive = false;
    std::vector<Slice> slices;
  };
  Block& Of(int block) { return blocks_[static_cast<size_t>(block)]; }
  const Block& Of(int block) const {
    return blocks_[static_cast<size_t>(block)];
  }

  std::vector<Block> blocks_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_STORE_H_
