// SPDX-License-Identifier: Apache-2.0
//
// Pools of pinned memory and staging buffers that are used again, or end, while
// a copy is in flight.

#include <cstdint>
#include <vector>

#include "tests/sim/reports/reports.h"

namespace devrt::testing {
namespace {

// Pinned blocks with an event each, which a copy records and a reuse asks.
class PinnedCache {
 public:
  // `by_range`: an address inside a block names the block.
  PinnedCache(Machine* m, bool by_range) : m_(m), by_range_(by_range) {}
  int64_t* Take() {
    for (Block& block : blocks_) {
      if (block.is_free &&
          (block.used == nullptr || Must(block.used->Query()))) {
        block.is_free = false;
        return block.begin;
      }
    }
    blocks_.push_back({m_->NewPinned(kCount)});
    return blocks_.back().begin;
  }
  void RecordUse(const int64_t* at, StreamRef s) {
    for (Block& block : blocks_) {
      if (at == block.begin ||
          (by_range_ && at > block.begin && at < block.begin + kCount)) {
        block.used = &m_->Record(s);
      }
    }
  }
  void Give(const int64_t* begin) {
    for (Block& block : blocks_) {
      if (block.begin == begin) block.is_free = true;
    }
  }

 private:
  static constexpr uint64_t kCount = 2;
  struct Block {
    int64_t* begin;
    const Event* used = nullptr;
    bool is_free = false;
  };
  Machine* const m_;
  const bool by_range_;
  std::vector<Block> blocks_;
};

// The allocator of pinned memory is told of a copy by the address of the data.
// It knows the beginnings of its blocks only, and ignores the copy of a slice.
// The block is given out again while the copy reads it.
absl::Status TheUseOfASliceIsNotRecorded(bool mended) {
  Machine m;
  PinnedCache cache(&m, mended);
  int64_t* const x = m.NewBlock();
  int64_t* const batch = cache.Take();
  int64_t* const slice = batch + 1;
  m.HostWrite(slice, 1);
  m.Copy(m.a, x, slice);
  cache.RecordUse(slice, m.a);
  cache.Give(batch);
  m.HostWrite(cache.Take() + 1, 2);  // the next batch
  m.Expect("the copied slice", m.Value(x), 1);
  return m.status();
}

// A pool of pinned slabs gives a slab to the next request at once.  A task on
// another stream downloads into it, while the upload of the first task reads.
absl::Status ASlabIsGivenOutInTheOrderOfTheHost(bool mended) {
  Machine m;
  int64_t* const bounds = m.NewBlock();
  int64_t* const other = m.NewBlock();
  m.Write(m.b, other, 2);
  int64_t* const slab = m.NewPinned();
  m.HostWrite(slab, 1);
  m.Copy(m.a, bounds, slab);
  // The slab is freed on stream a, and allocated on stream b.
  if (mended) m.Check(m.b.Wait(m.Record(m.a)));
  m.Copy(m.b, slab, other);
  m.Expect("the uploaded bounds", m.Value(bounds), 1);
  return m.status();
}

// The events that order the reuse of slabs come from one list for all devices.
// An event of one device cannot be recorded on a stream of another one.  The
// error is dropped, and the slab is given out without order.
absl::Status ASlabHasTheEventOfAnotherDevice(bool mended) {
  Machine m;
  int64_t* const far = m.NewBlock(m.e);
  int64_t* const other = m.NewBlock();
  m.Write(m.a, other, 2);
  int64_t* const slab = m.NewPinned();
  m.HostWrite(slab, 1);
  m.Copy(m.f, far, slab);
  // The slab is freed on the stream of the second device.
  Event of_d = Must(Event::Create(m.d));
  Event of_e = Must(Event::Create(m.e));
  Event& freed = mended ? of_e : of_d;
  freed.Record(m.f).IgnoreError();
  m.Check(m.a.Wait(freed));
  m.Copy(m.a, slab, other);
  m.Expect("the uploaded value", m.Value(far), 1);
  return m.status();
}

// A function fills a staging buffer, enqueues its upload and returns, which
// gives the buffer back to the pool.  That was right while the buffer was
// pageable memory.
absl::Status AStagingBufferEndsWithItsFunction(bool mended) {
  Machine m;
  PinnedCache pool(&m, true);
  const auto upload = [&](StreamRef s, int64_t value) {
    int64_t* const view = m.NewBlock();
    int64_t* const staging = pool.Take();
    m.HostWrite(staging, value);
    m.Copy(s, view, staging);
    if (mended) m.Check(s.Synchronize());
    pool.Give(staging);
    return view;
  };
  const int64_t* const first = upload(m.a, 1);
  const int64_t* const second = upload(m.b, 2);
  m.Expect("the first view", m.Value(first), 1);
  m.Expect("the second view", m.Value(second), 2);
  return m.status();
}

// A check clears its result in pinned memory by the stream, and waits only if
// there is something to check.  Else the memory is freed at once, and its next
// owner finds it cleared.
absl::Status AResultIsFreedBeforeItIsCleared(bool mended) {
  Machine m;
  PinnedCache host(&m, true);
  const std::vector<int64_t*> buffers;  // nothing to check
  int64_t* const result = host.Take();
  if (!mended || !buffers.empty()) m.Write(m.a, result, 0);
  if (!buffers.empty()) m.Check(m.a.Synchronize());
  host.Give(result);
  int64_t* const next = host.Take();
  m.HostWrite(next, 3);
  m.Expect("the next owner's value", m.Value(next), 3);
  return m.status();
}

// A scheduler builds its arguments in one host buffer for all steps.  It begins
// the next step while the transfer of the last one still reads the buffer.
absl::Status ABufferOfAllStepsIsFilledTooEarly(bool mended) {
  Machine m;
  int64_t* const buffer = m.NewPinned();
  std::vector<const int64_t*> seen;
  for (int64_t step = 1; step <= 2; ++step) {
    int64_t* const arguments =
        mended && step > 1 ? m.NewPinned() : buffer;  // a copy for each step
    m.HostWrite(arguments, step);
    int64_t* const x = m.NewBlock();
    m.Copy(m.a, x, arguments);
    seen.push_back(m.Read(m.a, x));
  }
  m.Expect("the arguments of the first step", m.Value(seen[0]), 1);
  m.Expect("the arguments of the second step", m.Value(seen[1]), 2);
  return m.status();
}

}  // namespace

std::vector<Report> HostBufferReports() {
  return {
      {"TheUseOfASliceIsNotRecorded", "pytorch/pytorch#68749",
       "host-access-in-flight", TheUseOfASliceIsNotRecorded},
      {"ASlabIsGivenOutInTheOrderOfTheHost", "NVIDIA/cuCascade#158",
       "write-after-read", ASlabIsGivenOutInTheOrderOfTheHost},
      {"ASlabHasTheEventOfAnotherDevice", "NVIDIA/cuCascade#189",
       "write-after-read", ASlabHasTheEventOfAnotherDevice},
      {"AStagingBufferEndsWithItsFunction", "NVIDIA/cudf#22284",
       "host-access-in-flight", AStagingBufferEndsWithItsFunction},
      {"AResultIsFreedBeforeItIsCleared", "openxla/xla#47040",
       "host-access-in-flight", AResultIsFreedBeforeItIsCleared},
      {"ABufferOfAllStepsIsFilledTooEarly", "sgl-project/sglang-jax#1503",
       "host-access-in-flight", ABufferOfAllStepsIsFilledTooEarly},
  };
}

}  // namespace devrt::testing
