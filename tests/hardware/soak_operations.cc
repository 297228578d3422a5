// SPDX-License-Identifier: Apache-2.0
#include "tests/hardware/soak_operations.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tests/hardware/soak_blocks.h"

namespace devrt::soak {
namespace {

using Clock = std::chrono::steady_clock;

// Through two streams of a device and one of another, every kind of copy that
// streams order, with a host function behind the last.
absl::Status Relay(Worker* worker) {
  const Device first = worker->AnyDevice();
  const Device second = worker->OtherThan(first);
  const uint64_t bytes = worker->AnySize();
  const uint64_t seed = worker->random();
  DEVRT_ASSIGN_OR_RETURN(Block source, Block::Pinned(first, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block target, Block::Pinned(second, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block there, Block::OnDevice(first, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block moved, Block::OnDevice(first, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block peer, Block::OnDevice(second, bytes));
  DEVRT_ASSIGN_OR_RETURN(Stream up, Stream::Create(first));
  DEVRT_ASSIGN_OR_RETURN(Stream inside, Stream::Create(first, {-1, false}));
  DEVRT_ASSIGN_OR_RETURN(Stream down, Stream::Create(second, {0, true}));
  DEVRT_ASSIGN_OR_RETURN(Event arrived, Event::Create(first));
  WritePattern(source.words(), bytes, seed);
  std::atomic<int> calls{0};

  DEVRT_RETURN_IF_ERROR(CopyAsync(up, there.data(), source.data(), bytes));
  DEVRT_RETURN_IF_ERROR(arrived.Record(up));
  DEVRT_RETURN_IF_ERROR(inside.Wait(arrived));
  DEVRT_RETURN_IF_ERROR(CopyAsync(inside, moved.data(), there.data(), bytes));
  DEVRT_RETURN_IF_ERROR(CopyAsync(inside, peer.data(), moved.data(), bytes));
  DEVRT_RETURN_IF_ERROR(down.Wait(inside));
  DEVRT_RETURN_IF_ERROR(CopyAsync(down, target.data(), peer.data(), bytes));
  DEVRT_RETURN_IF_ERROR(LaunchHostFunc(down, [&](const absl::Status& status) {
    calls += status.ok() ? 1 : 1000;
  }));
  DEVRT_RETURN_IF_ERROR(down.Synchronize());

  DEVRT_RETURN_IF_ERROR(CheckPattern(target.words(), bytes, seed));
  DEVRT_RETURN_IF_ERROR(Expect(calls == 1, "a host function ran once"));
  DEVRT_ASSIGN_OR_RETURN(const bool done, arrived.Query());
  DEVRT_RETURN_IF_ERROR(Expect(done, "what was waited for is complete"));
  for (Block* block : {&source, &target, &there, &moved, &peer}) {
    DEVRT_RETURN_IF_ERROR(block->Done());
  }
  return absl::OkStatus();
}

absl::Status Pageable(Worker* worker) {
  const Device device = worker->AnyDevice();
  const uint64_t bytes = worker->AnySize();
  const uint64_t seed = worker->random();
  const auto value = static_cast<uint8_t>(worker->random());
  std::vector<uint64_t> host(bytes / 8), back(bytes / 8);
  WritePattern(host.data(), bytes, seed);
  DEVRT_ASSIGN_OR_RETURN(Block block, Block::OnDevice(device, bytes));
  DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));

  DEVRT_RETURN_IF_ERROR(Copy(stream, block.data(), host.data(), bytes));
  DEVRT_RETURN_IF_ERROR(CopyAsync(stream, back.data(), block.data(), bytes));
  DEVRT_RETURN_IF_ERROR(stream.Synchronize());
  DEVRT_RETURN_IF_ERROR(CheckPattern(back.data(), bytes, seed));
  DEVRT_RETURN_IF_ERROR(FillAsync(stream, block.data(), value, bytes));
  DEVRT_RETURN_IF_ERROR(Copy(stream, back.data(), block.data(), bytes));
  DEVRT_RETURN_IF_ERROR(CheckBytes(back.data(), bytes, value));

  // Pages of its own: drivers register whole ones.
  constexpr uint64_t kPage = 4096;
  const std::unique_ptr<void, decltype(&std::free)> pages(
      std::aligned_alloc(kPage, (bytes + kPage - 1) / kPage * kPage),
      &std::free);
  DEVRT_RETURN_IF_ERROR(RegisterHost(device, pages.get(), bytes));
  const absl::Status copied = Copy(stream, pages.get(), block.data(), bytes);
  DEVRT_RETURN_IF_ERROR(UnregisterHost(device, pages.get()));
  DEVRT_RETURN_IF_ERROR(copied);
  DEVRT_RETURN_IF_ERROR(CheckBytes(pages.get(), bytes, value));
  return block.Done();
}

absl::Status Allocations(Worker* worker) {
  const Device device = worker->AnyDevice();
  std::vector<Block> blocks;
  for (int i = 0; i < 6; ++i) {
    const uint64_t alignment =
        i % 2 == 0 ? 0 : uint64_t{1} << (9 + worker->Below(4));
    DEVRT_ASSIGN_OR_RETURN(
        Block block, Block::OnDevice(device, worker->AnySize(), alignment));
    blocks.push_back(std::move(block));
    const Block& made = blocks.back();
    const auto* const inside = static_cast<const char*>(made.data()) + 7;
    DEVRT_ASSIGN_OR_RETURN(const PointerInfo info, GetPointerInfo(inside));
    DEVRT_RETURN_IF_ERROR(
        Expect(info.kind == PointerKind::kDevice && info.device == device &&
                   info.base == made.data() && info.size == made.bytes(),
               "a pointer into a block names the block"));
  }
  std::shuffle(blocks.begin(), blocks.end(), worker->random);
  for (Block& block : blocks) DEVRT_RETURN_IF_ERROR(block.Done());
  DEVRT_ASSIGN_OR_RETURN(const MemoryInfo memory, device.GetMemoryInfo());
  return Expect(memory.free_bytes <= memory.total_bytes,
                "no more memory is free than there is");
}

absl::Status Guards(Worker* worker) {
  const Device first = worker->AnyDevice();
  const Device second = worker->OtherThan(first);
  const Backend backend = first.backend();
  DEVRT_ASSIGN_OR_RETURN(const Device before, CurrentDevice(backend));
  DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(second));
  {
    DeviceGuard outer(first);
    DEVRT_RETURN_IF_ERROR(outer.status());
    StreamGuard inner(stream);
    DEVRT_RETURN_IF_ERROR(inner.status());
    DEVRT_ASSIGN_OR_RETURN(const Device current, CurrentDevice(backend));
    DEVRT_RETURN_IF_ERROR(Expect(current == second, "a guard is obeyed"));
    DEVRT_RETURN_IF_ERROR(Expect(CurrentStream(second) == stream.ref(),
                                 "the guard's stream is the current one"));
    const ThreadContextScope same(ThreadContext::Capture());
    DEVRT_RETURN_IF_ERROR(same.status());
  }
  DEVRT_ASSIGN_OR_RETURN(const Device after, CurrentDevice(backend));
  return Expect(after == before, "guards restore what was there");
}

// Ends by itself, should this thread be kept from setting the flag.
constexpr auto kMostHeld = std::chrono::milliseconds(20);

absl::Status Held(Worker* worker) {
  const Device device = worker->AnyDevice();
  const Device other = worker->OtherThan(device);
  const uint64_t bytes = worker->AnySize();
  DEVRT_ASSIGN_OR_RETURN(Block block, Block::OnDevice(device, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block moved, Block::OnDevice(other, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block host, Block::Pinned(other, bytes));
  DEVRT_ASSIGN_OR_RETURN(Stream holder, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(Stream waiter, Stream::Create(other));
  DEVRT_ASSIGN_OR_RETURN(Flag gate, Flag::Create(device));
  {
    const absl::Cleanup release = [&] { (void)gate.Set(); };
    const Clock::time_point begin = Clock::now();
    DEVRT_RETURN_IF_ERROR(
        gate.WaitOn(holder, std::chrono::nanoseconds(kMostHeld).count()));
    DEVRT_RETURN_IF_ERROR(FillAsync(holder, block.data(), 0x5A, bytes));
    DEVRT_RETURN_IF_ERROR(waiter.Wait(holder));
    DEVRT_RETURN_IF_ERROR(CopyAsync(waiter, moved.data(), block.data(), bytes));
    DEVRT_RETURN_IF_ERROR(CopyAsync(waiter, host.data(), moved.data(), bytes));
    for (const Stream* stream : {&holder, &waiter}) {
      DEVRT_ASSIGN_OR_RETURN(const bool done, stream->Query());
      DEVRT_RETURN_IF_ERROR(Expect(!done || Clock::now() - begin >= kMostHeld,
                                   "a held stream is not done"));
    }
  }
  DEVRT_RETURN_IF_ERROR(waiter.Synchronize());
  DEVRT_RETURN_IF_ERROR(CheckBytes(host.data(), bytes, 0x5A));
  DEVRT_RETURN_IF_ERROR(block.Done());
  DEVRT_RETURN_IF_ERROR(moved.Done());
  return host.Done();
}

absl::Status Kernels(Worker* worker) {
  const Device device = worker->AnyDevice();
  DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(Event begin, Event::Create(device, {true}));
  DEVRT_ASSIGN_OR_RETURN(Event end, Event::Create(device, {true, true}));
  DEVRT_ASSIGN_OR_RETURN(Flag flag, Flag::Create(device));
  constexpr uint64_t kNanoseconds = 50000;
  DEVRT_RETURN_IF_ERROR(begin.Record(stream));
  DEVRT_RETURN_IF_ERROR(Spin(stream, kNanoseconds));
  DEVRT_RETURN_IF_ERROR(end.Record(stream));
  DEVRT_RETURN_IF_ERROR(flag.SetOn(stream));
  DEVRT_RETURN_IF_ERROR(flag.WaitOn(stream));
  DEVRT_RETURN_IF_ERROR(end.Synchronize());
  DEVRT_ASSIGN_OR_RETURN(const double ms, ElapsedMilliseconds(begin, end));
  // The kernel's clock and the events' need not be one.
  DEVRT_RETURN_IF_ERROR(
      Expect(ms * 1e6 >= kNanoseconds / 2.0, "a kernel took its time"));
  return stream.Synchronize();
}

absl::Status Refused(Worker* worker) {
  const Device device = worker->AnyDevice();
  const Device other = worker->OtherThan(device);
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  DEVRT_ASSIGN_OR_RETURN(Block block, Block::OnDevice(device, 4096));
  DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(Event event, Event::Create(other));
  int host = 0;
  DEVRT_RETURN_IF_ERROR(
      ExpectCode(Free(device, block.words() + 1), kInvalid, "Free inside"));
  DEVRT_RETURN_IF_ERROR(ExpectCode(Free(device, &host), kInvalid, "Free"));
  DEVRT_RETURN_IF_ERROR(
      ExpectCode(FillAsync(stream, &host, 0, 4), kInvalid, "FillAsync"));
  DEVRT_RETURN_IF_ERROR(
      ExpectCode(CopyAsync(stream, block.data(), block.words() + 1, 4096),
                 kInvalid, "CopyAsync past the end"));
  if (other != device) {
    DEVRT_RETURN_IF_ERROR(ExpectCode(event.Record(stream), kInvalid, "Record"));
  }
  DEVRT_RETURN_IF_ERROR(ExpectCode(Allocate(device, uint64_t{1} << 50).status(),
                                   absl::StatusCode::kResourceExhausted,
                                   "Allocate"));
  DEVRT_RETURN_IF_ERROR(FillAsync(stream, block.data(), 1, 4096));
  DEVRT_RETURN_IF_ERROR(stream.Synchronize());
  return block.Done();
}

// A stream of ours as if another library had made it.
absl::Status Adopted(Worker* worker) {
  const Device device = worker->AnyDevice();
  if (!device.backend().Has(DEVRT_CAP_STREAM_EXTERNAL)) {
    return absl::UnimplementedError("STREAM_EXTERNAL");
  }
  const uint64_t bytes = worker->AnySize();
  DEVRT_ASSIGN_OR_RETURN(Block block, Block::OnDevice(device, bytes));
  DEVRT_ASSIGN_OR_RETURN(Block host, Block::Pinned(device, bytes));
  DEVRT_ASSIGN_OR_RETURN(Stream stream, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(void* const native, stream.Native());
  {
    DEVRT_ASSIGN_OR_RETURN(Stream again, Stream::FromNative(device, native));
    DEVRT_RETURN_IF_ERROR(FillAsync(stream, block.data(), 0x3C, bytes));
    DEVRT_RETURN_IF_ERROR(CopyAsync(again, host.data(), block.data(), bytes));
    DEVRT_RETURN_IF_ERROR(again.Synchronize());
  }
  DEVRT_RETURN_IF_ERROR(CheckBytes(host.data(), bytes, 0x3C));
  DEVRT_RETURN_IF_ERROR(block.Done());
  return host.Done();
}

absl::Status DefaultStreams(Worker* worker) {
  const Device device = worker->AnyDevice();
  const uint64_t bytes = worker->AnySize();
  DEVRT_ASSIGN_OR_RETURN(Block block, Block::OnDevice(device, bytes));
  std::vector<uint8_t> host(bytes);
  DEVRT_ASSIGN_OR_RETURN(StreamRef mine, PerThreadDefaultStream(device));
  DEVRT_RETURN_IF_ERROR(FillAsync(mine, block.data(), 0x11, bytes));
  DEVRT_RETURN_IF_ERROR(
      FillAsync(DefaultStream(device), block.data(), 0x22, bytes));
  DEVRT_RETURN_IF_ERROR(Copy(mine, host.data(), block.data(), bytes));
  DEVRT_RETURN_IF_ERROR(CheckBytes(host.data(), bytes, 0x22));
  if (worker->Below(8) == 0) DEVRT_RETURN_IF_ERROR(device.Synchronize());
  return block.Done();
}

}  // namespace

absl::Status CheckBetweenRounds(const std::vector<Device>&, bool) {
  return absl::OkStatus();
}

const std::vector<Operation>& Operations() {
  static const auto* const operations = new std::vector<Operation>{
      {"relay", &Relay, false},
      {"pageable", &Pageable, false},
      {"allocations", &Allocations, false},
      {"guards", &Guards, false},
      {"held", &Held, true},
      {"kernels", &Kernels, true},
      {"refused", &Refused, false},
      {"adopted", &Adopted, false},
      {"default_streams", &DefaultStreams, false},
  };
  return *operations;
}

}  // namespace devrt::soak
