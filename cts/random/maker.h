// SPDX-License-Identifier: Apache-2.0
//
// A program that is being made: its tables and its model.  The generator
// chooses the steps, and the maker offers them to the model one by one.

#ifndef DEVRT_CTS_RANDOM_MAKER_H_
#define DEVRT_CTS_RANDOM_MAKER_H_

#include <memory>
#include <vector>

#include "cts/random/dice.h"
#include "cts/random/generator.h"
#include "cts/random/model.h"
#include "cts/random/program.h"

namespace devrt::cts {

class Maker {
 public:
  Maker(uint64_t seed, const ProgramShape& shape);

  Dice& dice() { return dice_; }
  const Program& program() const { return program_; }
  const Model& model() const { return *model_; }
  const Limits& limits() const { return shape_.limits; }
  int size() const { return static_cast<int>(program_.steps.size()); }
  int thread() const { return thread_; }
  void set_thread(int thread) { thread_ = thread; }
  Program Finish() && { return std::move(program_); }

  // ---- Objects.  A step makes an object that does not exist; -1: none.

  // A stream of `device`, or of any device.
  int AStream(int device = -1);
  int AnEvent(int device);
  // An event that was recorded: on the stream of `like`, if it is given, and
  // with timing if `timed`.
  int ARecordedEvent(int like = -1, bool timed = false);
  // Makes the object if that is possible.  True if the object is alive.
  bool HasBlock(int block);
  // Random slices with content, of a block for which `where` returns true.
  template <typename Where>
  Span ADefinedSpan(Where where);
  // Random slices of such a block, with content or without.
  template <typename Where>
  Span ASpan(Where where);
  Content AValue(bool may_rise);

  // ---- Steps of thread().  Return true if the model accepted the step.

  bool Offer(Step step);
  // Inserts waits before the step if it conflicts with unordered work.
  bool OfferOrdered(const Step& step);

 private:
  void MakeTables();
  void AddStreams();
  void AddBlocks();
  bool OrderInStream(Epoch before, int stream);
  bool OrderOnHost(Epoch before);
  bool WaitFor(int event, int stream);
  void WaitForOthers(int stream);
  bool Record(int event, int stream);
  // True if the object is alive, or was made now.
  bool HasStream(int stream);
  bool HasEvent(int event);
  int EventWith(Epoch epoch);
  bool IsUsable(int stream) const;

  const ProgramShape shape_;
  Dice dice_;
  Program program_;
  std::unique_ptr<Model> model_;
  int thread_ = 0;
  int value_ = 0;
  int default_percent_ = 0, per_thread_percent_ = 0;
};

template <typename Where>
Span Maker::ASpan(Where where) {
  std::vector<int> blocks;
  for (size_t i = 0; i < program_.blocks.size(); ++i) {
    if (where(program_.blocks[i])) blocks.push_back(static_cast<int>(i));
  }
  if (blocks.empty()) return {};
  Span span;
  span.block = dice_.Of(blocks);
  if (!HasBlock(span.block)) return {};
  const int slices = program_.blocks[static_cast<size_t>(span.block)].slices;
  span.first = dice_.Below(slices);
  span.count = dice_.Between(1, slices - span.first);
  return span;
}

template <typename Where>
Span Maker::ADefinedSpan(Where where) {
  struct Place {
    int block, slice;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < program_.blocks.size(); ++i) {
    const int block = static_cast<int>(i);
    if (!where(program_.blocks[i]) || !model_->store().IsAlive(block)) continue;
    for (int slice = 0; slice < program_.blocks[i].slices; ++slice) {
      if (model_->store().content(block, slice).defined) {
        places.push_back({block, slice});
      }
    }
  }
  if (places.empty()) return {};
  const Place at = dice_.Of(places);
  Span span = {at.block, at.slice, 1};
  const int slices = program_.blocks[static_cast<size_t>(at.block)].slices;
  while (span.first + span.count < slices && dice_.Percent(50) &&
         model_->store().content(at.block, at.slice + span.count).defined) {
    ++span.count;
  }
  return span;
}

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_MAKER_H_
