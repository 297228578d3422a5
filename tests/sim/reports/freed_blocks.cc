// SPDX-License-Identifier: Apache-2.0
//
// Memory that is freed under work that uses it, and memory that is read before
// it is filled.

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/sim/reports/reports.h"

namespace devrt::testing {
namespace {

// A finalizer frees an array on the stream of its own task.  That stream is
// idle, so the memory is gone while a kernel of another stream uses it.
absl::Status AFinalizerFreesOnAnIdleStream(bool mended) {
  Machine m;
  const auto driver = Must(DriverResource(m.d));
  auto* const array =
      static_cast<int64_t*>(Must(driver->Allocate(m.a, Machine::kBytes)));
  m.Write(m.a, array, 1);
  // The garbage collector runs in another task.
  if (mended) m.Check(m.d.Synchronize());
  m.Check(driver->Deallocate(m.b, array, Machine::kBytes));
  return m.status();
}

// Memory keeps the handle of the stream that allocated it, and is freed on that
// handle.  The stream is destroyed before, and a new stream has its handle.
absl::Status MemoryIsFreedOnTheSuccessorOfItsStream(bool mended) {
  Machine m;
  const auto driver = Must(DriverResource(m.d));
  int64_t* memory = nullptr;
  {
    const Stream stream = Must(Stream::Create(m.d));
    Must(stream.Native());  // so that no Stream gets the native stream
    memory =
        static_cast<int64_t*>(Must(driver->Allocate(stream, Machine::kBytes)));
    m.Write(stream, memory, 1);
  }
  const Stream successor = Must(Stream::Create(m.d));  // with the same handle
  if (mended) m.Check(m.d.Synchronize());  // the stream is known to be gone
  m.Check(driver->Deallocate(successor, memory, Machine::kBytes));
  return m.status();
}

// A task that is out of memory spills a buffer of another task: it copies the
// buffer to the host on its own stream, and frees it.  The other task's stream
// may still fill the buffer.
absl::Status ASpillDoesNotWaitForTheStreamThatFills(bool mended) {
  Machine m;
  auto* const buffer = static_cast<int64_t*>(Must(Allocate(m.d, 8)));
  m.Write(m.a, buffer, 1);
  const Event& registered = m.Record(m.a);
  // Another task spills.
  int64_t* const host = m.NewPinned();
  if (mended) m.Check(m.b.Wait(registered));
  m.Copy(m.b, host, buffer);
  m.Check(m.b.Synchronize());
  m.Check(Free(m.d, buffer));
  m.Expect("the spilled value", m.Value(host), 1);
  return m.status();
}

// The pool is out of memory, frees all buffers of its list, and tries again.
// Buffers are in the list as soon as the kernels that use them are enqueued.
absl::Status ARetryFreesBuffersOfQueuedKernels(bool mended) {
  Machine m;
  uint64_t room = 2 * Machine::kBytes;
  std::vector<std::pair<int64_t*, uint64_t>> pool;
  const auto take = [&](uint64_t bytes) -> int64_t* {
    if (bytes > room) {  // out of memory
      if (mended) m.Check(m.d.Synchronize());
      for (const auto& [buffer, size] : std::exchange(pool, {})) {
        m.Check(Free(m.d, buffer));
        room += size;
      }
    }
    room -= bytes;
    return static_cast<int64_t*>(Must(Allocate(m.d, bytes)));
  };
  int64_t* const small = take(Machine::kBytes);
  m.Write(m.a, small, 1);
  pool.emplace_back(small, Machine::kBytes);
  int64_t* const large = take(2 * Machine::kBytes);
  m.Write(m.a, large, 2);
  m.Expect("the value", m.Value(large), 2);
  m.Check(Free(m.d, large));
  return m.status();
}

// A copy between devices runs on a stream of its source.  The destination's
// stream waits for it.  The destination is freed, and the free waits for
// nothing of the other device.
absl::Status ADestinationIsFreedUnderTheCopyOfItsPeer(bool mended) {
  Machine m;
  int64_t* const source = m.NewBlock(m.e);
  m.Write(m.f, source, 1);
  auto* const destination = static_cast<int64_t*>(Must(Allocate(m.d, 8)));
  m.Copy(m.f, destination, source);
  m.Check(m.a.Wait(m.f));
  if (mended) m.Check(m.f.Synchronize());
  m.Check(Free(m.d, destination));
  return m.status();
}

// Before memory is unmapped, the host waits for the default stream.  Its handle
// means the default stream of the current device, and the memory is of another.
absl::Status TheHostWaitsForTheStreamOfAnotherDevice(bool mended) {
  Machine m;
  auto* const segment = static_cast<int64_t*>(Must(Allocate(m.d, 8)));
  m.Write(DefaultStream(m.d), segment, 1);
  const Device current = mended ? m.d : m.e;
  m.Check(DefaultStream(current).Synchronize());
  m.Check(Free(m.d, segment));
  return m.status();
}

// Memory of a function is freed when the function returns, under its kernel: a
// free of system memory waits for no stream, and cudaFree did.
absl::Status MemoryOfAFunctionEndsUnderItsKernel(bool mended) {
  Machine m;
  auto* const scratch = static_cast<int64_t*>(Must(Allocate(m.d, 8)));
  m.Write(m.a, scratch, 1);
  const int64_t* const result = m.Read(m.a, scratch);
  if (mended) m.Check(m.a.Synchronize());
  m.Check(Free(m.d, scratch));
  m.Expect("the result", m.Value(result), 1);
  return m.status();
}

// A thread that is out of memory frees the blocks of the pool's list while they
// are in the list.  Another thread takes one meanwhile.
absl::Status ThePoolIsEmptiedWhileAThreadTakes(bool mended) {
  Machine m;
  sync::Mutex mutex;
  auto* const block = static_cast<int64_t*>(Must(Allocate(m.d, 8)));
  int64_t* listed = block;
  const auto unlist = [&] {
    const std::lock_guard<sync::Mutex> lock(mutex);
    return std::exchange(listed, nullptr);
  };
  const auto empty = [&] {
    if (mended) {
      m.Check(Free(m.d, unlist()));
    } else {
      m.Check(Free(m.d, block));
      unlist();
    }
  };
  int64_t* taken = nullptr;
  const auto take = [&] {
    taken = unlist();
    if (taken != nullptr) m.Write(m.a, taken, 2);
  };
  m.InTwoThreads(empty, take);
  m.Check(m.d.Synchronize());
  if (mended) m.Check(Free(m.d, taken));
  return m.status();
}

// A buffer is ready when the compute stream has passed a point.  An upload
// fills it on a stream of its own, so the point says nothing of it.
absl::Status TheReadyEventIsOfAnotherStream(bool mended) {
  Machine m;
  int64_t* const host = m.NewPinned();
  m.HostWrite(host, 1);
  int64_t* const input = m.NewBlock();
  m.Copy(m.b, input, host);
  const Event& ready = mended ? m.Record(m.b) : m.Record(m.a);
  if (!Must(ready.Query())) m.Check(m.a.Wait(ready));
  const int64_t* const seen = m.Read(m.a, input);
  m.Expect("the input", m.Value(seen), 1);
  return m.status();
}

// An array is copied to another device by the default stream, although another
// stream is current.  What comes next on the current stream reads too early.
absl::Status ACopyIgnoresTheCurrentStream(bool mended) {
  Machine m;
  int64_t* const source = m.NewBlock();
  m.Write(m.a, source, 1);
  m.Check(m.a.Synchronize());
  int64_t* const copy = m.NewBlock(m.e);
  m.Copy(mended ? m.f.ref() : DefaultStream(m.e), copy, source);
  const int64_t* const seen = m.Read(m.f, copy);
  m.Expect("the copied value", m.Value(seen), 1);
  return m.status();
}

}  // namespace

std::vector<Report> FreedBlockReports() {
  return {
      {"AFinalizerFreesOnAnIdleStream", "JuliaGPU/CUDA.jl#778",
       "free-while-used", AFinalizerFreesOnAnIdleStream},
      {"MemoryIsFreedOnTheSuccessorOfItsStream", "cupy/cupy#5264",
       "free-while-used", MemoryIsFreedOnTheSuccessorOfItsStream},
      {"ASpillDoesNotWaitForTheStreamThatFills", "NVIDIA/cudf-spark#4818",
       "read-after-write", ASpillDoesNotWaitForTheStreamThatFills},
      {"ARetryFreesBuffersOfQueuedKernels", "ggml-org/llama.cpp#22155",
       "free-while-used", ARetryFreesBuffersOfQueuedKernels},
      {"ADestinationIsFreedUnderTheCopyOfItsPeer", "pytorch/pytorch#196257",
       "free-while-used", ADestinationIsFreedUnderTheCopyOfItsPeer},
      {"TheHostWaitsForTheStreamOfAnotherDevice", "pytorch/pytorch#196258",
       "free-while-used", TheHostWaitsForTheStreamOfAnotherDevice},
      {"MemoryOfAFunctionEndsUnderItsKernel", "rapidsai/rmm#1655",
       "free-while-used", MemoryOfAFunctionEndsUnderItsKernel},
      {"ThePoolIsEmptiedWhileAThreadTakes", "cupy/cupy#105", nullptr,
       ThePoolIsEmptiedWhileAThreadTakes},
      {"TheReadyEventIsOfAnotherStream", "ROCm/xla#964", "read-after-write",
       TheReadyEventIsOfAnotherStream},
      {"ACopyIgnoresTheCurrentStream", "cupy/cupy#4988", "read-after-write",
       ACopyIgnoresTheCurrentStream},
  };
}

}  // namespace devrt::testing
