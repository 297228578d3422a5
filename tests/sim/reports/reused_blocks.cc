// SPDX-License-Identifier: Apache-2.0
//
// Pools that give a block of device memory to its next owner too early.

#include <cstdint>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/sim/reports/reports.h"

namespace devrt::testing {
namespace {

// A list of free blocks that knows no streams, as many pools have.
class Blocks {
 public:
  explicit Blocks(Machine* m) : m_(m) {}
  int64_t* Take() {
    if (free_.empty()) return m_->NewBlock();
    int64_t* const block = free_.back();
    free_.pop_back();
    return block;
  }
  void Give(int64_t* block) { free_.push_back(block); }

 private:
  Machine* const m_;
  std::vector<int64_t*> free_;
};

// A list of free blocks for each stream has one event, which is recorded at
// each free.  A stream that needs a larger block takes over the lists of the
// others, and waits for their events.  Its own event was recorded before that
// wait, or never.  A third stream that steals from the merged list waits for
// this event alone.
absl::Status AMergedListKeepsItsOldEvent(bool mended) {
  Machine m;
  struct List {
    Event freed;
    std::vector<int64_t*> blocks;
  };
  const auto new_list = [&] { return List{Must(Event::Create(m.d)), {}}; };
  List of_a = new_list(), of_b = new_list();

  int64_t* const x = m.NewBlock();
  m.Write(m.a, x, 1);
  of_a.blocks.push_back(x);
  m.Check(of_a.freed.Record(m.a));

  // Stream b merges.
  m.Check(m.b.Wait(of_a.freed));
  of_b.blocks = std::exchange(of_a.blocks, {});
  if (mended) m.Check(of_b.freed.Record(m.b));

  // Stream c steals.
  m.Check(m.c.Wait(of_b.freed));
  m.Write(m.c, of_b.blocks.back(), 2);
  m.Expect("the new owner's value", m.Value(x), 2);
  return m.status();
}

// A pool gives a stream the blocks that were freed on its handle, without a
// wait.  The driver gives the handle of a destroyed stream to a new one, while
// the old one still has work.
absl::Status ANewStreamHasTheHandleOfABusyOne(bool mended) {
  Machine m;
  int64_t* const x = m.NewBlock();
  {
    const Stream old = Must(Stream::Create(m.d));
    Must(old.Native());  // so that no Stream gets the native stream
    m.Write(old, x, 1);
    // The block is freed; the pool is told of the end of the stream.
    if (mended) m.Check(old.Synchronize());
  }
  const Stream fresh = Must(Stream::Create(m.d));  // with the same handle
  m.Write(fresh, x, 2);
  m.Expect("the new owner's value", m.Value(x), 2);
  return m.status();
}

// A pool takes a block back without a wait if the stream has the number of the
// stream that freed it.  Each host thread has its own default stream, and all
// of these streams have one number.
absl::Status ThreadsHaveStreamsOfOneNumber(bool mended) {
  Machine m;
  struct Freed {
    int thread;
    Event* event;
  };
  int64_t* const x = m.NewBlock();
  Freed freed = {};
  sync::Thread first([&] {
    const StreamRef own = Must(PerThreadDefaultStream(m.d));
    m.Write(own, x, 1);
    freed = {1, &m.Record(own)};
  });
  first.join();
  sync::Thread second([&] {
    const StreamRef own = Must(PerThreadDefaultStream(m.d));
    // The numbers of the two streams are equal, those of the threads are not.
    if (mended && freed.thread != 2) m.Check(own.Wait(*freed.event));
    m.Write(own, x, 2);
  });
  second.join();
  m.Expect("the new owner's value", m.Value(x), 2);
  return m.status();
}

// A free puts the block into the cache under the lock, and records the block's
// event after the lock.  In between, another thread finds the block there with
// an event that is complete.
absl::Status ABlockIsCachedBeforeItsEventIsRecorded(bool mended) {
  Machine m;
  sync::Mutex mutex;
  const Event freed = Must(Event::Create(m.d));
  bool is_cached = false;
  bool is_taken = false;
  int64_t* const x = m.NewBlock();
  const auto free = [&] {
    m.Write(m.a, x, 1);
    {
      const std::lock_guard<sync::Mutex> lock(mutex);
      is_cached = true;
      if (mended) m.Check(freed.Record(m.a));
    }
    if (mended) return;
    m.Yield();
    m.Check(freed.Record(m.a));
  };
  const auto take = [&] {
    const std::lock_guard<sync::Mutex> lock(mutex);
    is_taken = is_cached && Must(freed.Query());
    if (is_taken) m.Write(m.b, x, 2);
  };
  m.InTwoThreads(free, take);
  m.Expect("the value", m.Value(x), is_taken ? 2 : 1);
  return m.status();
}

// A tensor of stream a is reduced on the stream of the collectives, as work of
// stream b, and b waits for the end.  The tensor is kept alive only until that
// wait is enqueued.  The block then goes back to stream a, which waits for
// nothing.
absl::Status ATensorEndsAtTheWaitOfAnotherStream(bool mended) {
  Machine m;
  int64_t* const tensor = m.NewBlock();
  m.Write(m.a, tensor, 1);
  m.Check(m.b.Wait(m.a));
  m.Check(m.c.Wait(m.b));
  m.Double(m.c, tensor);
  Event& reduced = m.Record(m.c);
  m.Check(m.b.Wait(reduced));
  // The tensor ends.
  if (mended) m.Check(m.a.Wait(reduced));
  m.Write(m.a, tensor, 7);  // its block's next owner
  const int64_t* const seen = m.Read(m.a, tensor);
  m.Expect("the next tensor", m.Value(seen), 7);
  return m.status();
}

// An allocator notes the handle of an external stream that uses a block, and
// records an event on it when the block is freed.  Until then the stream is
// destroyed, and the driver gives its handle to a new stream.
absl::Status AnEventIsRecordedOnTheSuccessorOfAStream(bool mended) {
  Machine m;
  int64_t* const x = m.NewBlock();
  m.Write(m.a, x, 1);
  const Event* used = nullptr;
  const int64_t* seen = nullptr;
  {
    const Stream external = Must(Stream::Create(m.d));
    Must(external.Native());  // so that no Stream gets the native stream
    m.Check(external.Wait(m.a));
    seen = m.Read(external, x);
    if (mended) used = &m.Record(external);
  }
  const Stream successor = Must(Stream::Create(m.d));  // with the same handle
  // The block is freed.
  if (!mended) used = &m.Record(successor);
  m.Check(m.a.Wait(*used));
  m.Write(m.a, x, 2);  // the next owner
  m.Expect("the value that the external stream read", m.Value(seen), 1);
  return m.status();
}

// A cache of events hands out the last one of its list, but takes it from a
// copy of the list.  So two collectives in flight have one event, and who waits
// for the first waits for the second only.
absl::Status ACacheHandsOutOneEventTwice(bool mended) {
  Machine m;
  std::vector<Event> events;
  for (int i = 0; i < 2; ++i) events.push_back(Must(Event::Create(m.d)));
  size_t left = events.size();
  const auto take = [&]() -> Event& {
    Event& event = events[left - 1];
    if (mended) --left;
    return event;
  };
  int64_t* const x = m.NewBlock();
  int64_t* const y = m.NewBlock();
  m.Write(m.b, x, 1);
  const Event& first = take();
  m.Check(first.Record(m.b));
  m.Write(m.c, y, 1);
  m.Check(take().Record(m.c));
  m.Check(m.a.Wait(first));
  const int64_t* const seen = m.Read(m.a, x);
  m.Expect("the result of the first", m.Value(seen), 1);
  return m.status();
}

// The arena hands a block on in the order of the host.  One stream copies to
// the host, another one computes: the copy of a block that was freed runs
// behind the kernel of its next owner.
absl::Status TheArenaHasACopyStreamAndAComputeStream(bool mended) {
  Machine m;
  Blocks arena(&m);
  const StreamRef copies = mended ? m.a : m.b;
  int64_t* const host = m.NewPinned();
  int64_t* const shape = arena.Take();
  m.Write(m.a, shape, 1);
  m.Check(copies.Wait(m.Record(m.a)));
  m.Copy(copies, host, shape);
  arena.Give(shape);
  m.Write(m.a, arena.Take(), 2);
  m.Expect("the copied shape", m.Value(host), 1);
  return m.status();
}

// A buffer goes back to the pool when the host has no reference, while the
// kernels that use it are enqueued only.  The autotuner takes it as scratch on
// another stream and clears it.
absl::Status TheAutotunerClearsABufferOfTheComputeStream(bool mended) {
  Machine m;
  Blocks pool(&m);
  int64_t* const gradient = pool.Take();
  m.Write(m.a, gradient, 1);
  const int64_t* const seen = m.Read(m.a, gradient);
  // The last reference ends.
  if (!mended || Must(m.Record(m.a).Query())) pool.Give(gradient);
  int64_t* const scratch = pool.Take();
  m.Check(FillAsync(m.b, scratch, 0, Machine::kBytes));
  m.Expect("the gradient", m.Value(seen), 1);
  return m.status();
}

// Workspaces are kept by stream, so two graphs that were captured on one stream
// have one.  The end of the second graph gives the workspace away, and the
// first graph still has the address.
absl::Status TwoGraphsOfAStreamShareAWorkspace(bool mended) {
  Machine m;
  Blocks pool(&m);
  std::map<int, int64_t*> workspaces;  // by stream, or by graph
  const auto capture = [&](int graph) {
    int64_t*& workspace = workspaces[mended ? graph : 0];
    if (workspace == nullptr) workspace = pool.Take();
    return workspace;
  };
  int64_t* const workspace = capture(1);
  pool.Give(capture(2));  // the second graph is captured, and ends
  int64_t* const data = pool.Take();
  m.Write(m.b, data, 9);
  const int64_t* const loaded = m.Read(m.b, data);
  // The first graph is launched.
  m.Write(m.a, workspace, 5);
  const int64_t* const result = m.Read(m.a, workspace);
  m.Expect("the graph's result", m.Value(result), 5);
  m.Expect("the data", m.Value(loaded), 9);
  return m.status();
}

// The pool keeps a list of blocks for each stream.  A chunk of stream a that a
// kernel of stream b uses goes back to the list of a at once: a chunk cannot
// say which other streams use it.
absl::Status AChunkCannotNameAnotherStream(bool mended) {
  Machine m;
  Blocks chunks_of_a(&m);
  int64_t* const chunk = chunks_of_a.Take();
  m.Write(m.a, chunk, 1);
  m.Check(m.b.Wait(m.a));
  const int64_t* const seen = m.Read(m.b, chunk);
  if (mended) m.Check(m.a.Wait(m.b));
  chunks_of_a.Give(chunk);
  m.Write(m.a, chunks_of_a.Take(), 2);
  m.Expect("the value that the kernel read", m.Value(seen), 1);
  return m.status();
}

}  // namespace

std::vector<Report> ReusedBlockReports() {
  return {
      {"AMergedListKeepsItsOldEvent", "rapidsai/rmm#2489", "write-after-write",
       AMergedListKeepsItsOldEvent},
      {"ANewStreamHasTheHandleOfABusyOne", "rapidsai/rmm#649",
       "write-after-write", ANewStreamHasTheHandleOfABusyOne},
      {"ThreadsHaveStreamsOfOneNumber", "NVIDIA/cccl#878", "write-after-write",
       ThreadsHaveStreamsOfOneNumber},
      {"ABlockIsCachedBeforeItsEventIsRecorded", "NVIDIA/cub#156", nullptr,
       ABlockIsCachedBeforeItsEventIsRecorded},
      {"ATensorEndsAtTheWaitOfAnotherStream", "pytorch/pytorch#188655",
       "write-after-write", ATensorEndsAtTheWaitOfAnotherStream},
      {"AnEventIsRecordedOnTheSuccessorOfAStream", "pytorch/pytorch#66941",
       "write-after-read", AnEventIsRecordedOnTheSuccessorOfAStream},
      {"ACacheHandsOutOneEventTwice", "pytorch/pytorch#138040",
       "read-after-write", ACacheHandsOutOneEventTwice},
      {"TheArenaHasACopyStreamAndAComputeStream", "microsoft/onnxruntime#4829",
       "write-after-read", TheArenaHasACopyStreamAndAComputeStream},
      {"TheAutotunerClearsABufferOfTheComputeStream", "ROCm/xla#979",
       "write-after-read", TheAutotunerClearsABufferOfTheComputeStream},
      {"TwoGraphsOfAStreamShareAWorkspace", "pytorch/pytorch#193402",
       "write-after-write", TwoGraphsOfAStreamShareAWorkspace},
      {"AChunkCannotNameAnotherStream", "cupy/cupy#8068", "write-after-read",
       AChunkCannotNameAnotherStream},
  };
}

}  // namespace devrt::testing
