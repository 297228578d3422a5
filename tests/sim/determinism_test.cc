// SPDX-License-Identifier: Apache-2.0
//
// One seed gives one run: random programs run twice with each of 10,000 seeds,
// and programs with several host threads with some seeds, or with
// DEVRT_TEST_SEEDS each.
//
// The test prints a digest of all runs.  A build by another compiler or with
// other options has that digest, too: `.ci/run clang` compares.
// DEVRT_TEST_DIGEST is the digest to expect.
#include <sched.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/sim/explore.h"
#include "tests/sim/thread_mistakes.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kPrograms = 20;
constexpr uint64_t kSeeds = 500;  // of each program
constexpr int kSteps = 24;
constexpr size_t kCells = 6;

// A random program of one thread: kernels, copies, events, host functions,
// allocations, arrays, and branches on queries.
class RandomProgram {
 public:
  explicit RandomProgram(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) {
      streams_.push_back(Must(Stream::Create(devices_[Draw(2)])));
      events_.push_back(Must(Event::Create(streams_.back().device())));
    }
    for (size_t i = 0; i < kCells; ++i) {
      cells_[i] = Must(AllocateMemory(devices_[i % 2], sizeof(int64_t)));
    }
    for (size_t i = 0; i < 4; ++i) {
      arrays_.push_back(Must(Array::Zeros({}, kInt64, devices_[i % 2])));
    }
    pinned_ = static_cast<int64_t*>(
        Must(AllocatePinned(devices_[0], sizeof(int64_t))));
  }
  RandomProgram(const RandomProgram&) = delete;
  RandomProgram& operator=(const RandomProgram&) = delete;
  ~RandomProgram() {
    for (const Device device : devices_) device.Synchronize().IgnoreError();
    for (void* const cell : cells_) FreeMemory(cell).IgnoreError();
    FreePinned(pinned_).IgnoreError();
  }

  void Run() {
    for (int i = 0; i < kSteps; ++i) Step();
    for (const Device device : devices_) Must(device.Synchronize());
  }

 private:
  void Step() {
    const StreamRef stream = streams_[Draw(streams_.size())];
    switch (Draw(10)) {
      case 0:
      case 1:
        return Update(stream);
      case 2:
        return CopyCell(stream);
      case 3:
        return Must(
            CopyAsync(stream, CellOf(stream), &pageable_, sizeof pageable_));
      case 4:
        return Must(
            CopyAsync(stream, pinned_, CellOf(stream), sizeof *pinned_));
      case 5: {
        const size_t i = Draw(streams_.size());
        return Must(events_[i].Record(streams_[i]));
      }
      case 6:
        return Must(stream.Wait(events_[Draw(events_.size())]));
      case 7:
        // What the program does next depends on the schedule.
        if (Must(events_[Draw(events_.size())].Query())) Update(stream);
        return;
      case 8:
        return AddArrays(stream);
      default:
        return UseFreshMemory(stream);
    }
  }

  void CopyCell(StreamRef stream) {
    int64_t* const target = CellOf(stream);
    const void* const source = Cell();
    if (source == target) return;
    Must(CopyAsync(stream, target, source, sizeof *target));
  }

  void Update(StreamRef stream) {
    int64_t* const cell = CellOf(stream);
    Must(Launch(stream, {ReadWrite(cell, sizeof *cell)},
                [cell](const LaunchContext& context) {
                  if (int64_t* p = context.Local(cell)) *p = *p * 3 + 1;
                }));
    if (Draw(4) == 0) Must(LaunchHostFunc(stream, [](absl::Status) {}));
  }

  // The stream waits for all that uses the arrays.
  void AddArrays(StreamRef stream) {
    const StreamGuard on(stream);
    const size_t device = DeviceOf(stream);
    const auto draw = [&]() -> Array& { return arrays_[2 * Draw(2) + device]; };
    // Compilers differ in the order in which they evaluate arguments.
    Array& out = draw();
    Array& a = draw();
    Array& b = draw();
    Must(ApplyInto(BinaryOp::kAdd, out, a, b));
  }

  // The allocator may hand out a block that another stream has used.
  void UseFreshMemory(StreamRef stream) {
    void* const memory = Must(AllocateMemory(stream, 4096));
    Must(FillAsync(stream, memory, 1, 4096));
    Must(FreeMemory(memory));
  }

  size_t DeviceOf(StreamRef stream) const {
    return stream.device() == devices_[0] ? 0 : 1;
  }
  int64_t* CellOf(StreamRef stream) {
    return static_cast<int64_t*>(
        cells_[2 * Draw(kCells / 2) + DeviceOf(stream)]);
  }
  void* Cell() { return cells_[Draw(kCells)]; }
  // std::uniform_int_distribution differs from library to library.
  size_t Draw(size_t count) { return random_() % count; }

  const std::vector<Device> devices_ = {Must(GetDevice("mtia:0")),
                                        Must(GetDevice("mtia:1"))};
  std::mt19937_64 random_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  void* cells_[kCells] = {};   // on each device by turns
  std::vector<Array> arrays_;  // on each device by turns
  int64_t* pinned_ = nullptr;
  int64_t pageable_ = 7;
};

// How many seeds each program with host threads has.
uint64_t ThreadSeeds() {
  constexpr uint64_t kUsual = 24;
  const char* const text = std::getenv("DEVRT_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kUsual;
}

// A digest of runs.
class Digest {
 public:
  // `replays`: each run is repeated by its token, too.
  explicit Digest(bool replays) : replays_(replays) {}

  // Runs the program with `seeds` seeds from `seed` on.
  sim::Result Explore(uint64_t seed, uint64_t seeds,
                      const std::function<absl::Status()>& program) {
    sim::Options options;
    options.seed = seed;
    options.runs = seeds;
    options.check_every = replays_ ? 1 : 0;
    options.strategies = {"random", "pos", "pct", "hw"};
    options.race = false;
    bool repeats = false;  // the run before this one
    sim::Result result = sim::Explore(options, [&]() -> absl::Status {
      DEVRT_RETURN_IF_ERROR(program());
      if (replays_ && std::exchange(repeats, !repeats)) return absl::OkStatus();
      const Simulator::Trace trace = Must(simulator_.TraceHash());
      for (const uint64_t number : {trace.hash, trace.steps}) {
        digest_ = (digest_ ^ number) * 0x100000001b3;
      }
      return absl::OkStatus();
    });
    EXPECT_TRUE(result.ok()) << result.text();
    EXPECT_EQ(result.schedules, seeds);
    return result;
  }

  std::string text() const {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx",
                  static_cast<unsigned long long>(digest_));
    return text;
  }

 private:
  const Simulator simulator_ = Must(Simulator::Get());
  const bool replays_;
  uint64_t digest_ = 0;
};

std::string DigestOfRuns(bool replays) {
  Digest digest(replays);
  for (uint64_t program = 0; program < kPrograms; ++program) {
    const sim::Result result =
        digest.Explore(program * kSeeds, kSeeds, [program] {
          RandomProgram(program).Run();
          return absl::OkStatus();
        });
    EXPECT_GT(result.distinct, kSeeds / 20) << "program " << program;
  }
  for (const std::vector<ThreadMistake>* const programs :
       {&LockMistakes(), &OrderMistakes()}) {
    for (const ThreadMistake& program : *programs) {
      if (program.has_locks_of_std) continue;  // caught by a signal
      digest.Explore(1, ThreadSeeds(),
                     [&program] { return program.run(true); });
    }
  }
  return digest.text();
}

// Keeps this thread, and those that it starts, on one processor.
class OneProcessor {
 public:
  OneProcessor() {
    const int processor = sched_getcpu();
    if (processor < 0 || sched_getaffinity(0, sizeof all_, &all_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(processor), &one);
    is_set_ = sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OneProcessor() {
    if (is_set_) sched_setaffinity(0, sizeof all_, &all_);
  }
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

 private:
  cpu_set_t all_;
  bool is_set_ = false;
};

TEST(Determinism, OneSeedGivesOneRun) {
  std::string digest;
  {
    // Threads that take turns do so faster on one processor, also those that
    // the simulator makes for itself.
    const OneProcessor one;
    digest = DigestOfRuns(true);
  }
  std::printf("digest %s\n", digest.c_str());
  // The process has another history now, and the main thread has all
  // processors, both of which the runs must not see.
  EXPECT_EQ(DigestOfRuns(false), digest);
  if (const char* const expected = std::getenv("DEVRT_TEST_DIGEST")) {
    EXPECT_EQ(digest, expected) << "the other build makes other runs";
  }
}

}  // namespace
}  // namespace devrt::testing
