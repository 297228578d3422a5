// SPDX-License-Identifier: Apache-2.0
#include "cts/random/store.h"

namespace devrt::cts {

BlockStore::BlockStore(const Program& program) {
  for (const BlockInfo& info : program.blocks) {
    Block& block = blocks_.emplace_back();
    block.slices.resize(static_cast<size_t>(info.slices));
  }
}

void BlockStore::Allocate(int block) {
  Of(block).allocated = true;
  Of(block).alive = true;
}

std::optional<Epoch> BlockStore::Conflict(const Span& span, bool writes,
                                          const Clock& clock) const {
  const Block& block = Of(span.block);
  for (int i = span.first; i < span.first + span.count; ++i) {
    const Slice& slice = block.slices[static_cast<size_t>(i)];
    if (slice.writer.actor >= 0 && !clock.Has(slice.writer)) {
      return slice.writer;
    }
    if (!writes) continue;
    for (const Epoch reader : slice.readers) {
      if (!clock.Has(reader)) return reader;
    }
  }
  return std::nullopt;
}

bool BlockStore::IsDefined(const Span& span) const {
  for (int i = span.first; i < span.first + span.count; ++i) {
    if (!content(span.block, i).defined) return false;
  }
  return true;
}

std::vector<Content> BlockStore::Peek(const Span& span) const {
  std::vector<Content> contents;
  for (int i = span.first; i < span.first + span.count; ++i) {
    contents.push_back(content(span.block, i));
  }
  return contents;
}

std::vector<Content> BlockStore::Read(const Span& span, Epoch who) {
  for (int i = span.first; i < span.first + span.count; ++i) {
    Of(span.block).slices[static_cast<size_t>(i)].readers.push_back(who);
  }
  return Peek(span);
}

void BlockStore::Write(const Span& span, Epoch who,
                       const std::vector<Content>& contents) {
  for (int i = 0; i < span.count; ++i) {
    Slice& slice = Of(span.block).slices[static_cast<size_t>(span.first + i)];
    slice.content = contents[static_cast<size_t>(i)];
    slice.writer = who;
    slice.readers.clear();
  }
}

}  // namespace devrt::cts
