// SPDX-License-Identifier: Apache-2.0
//
// Names of operations that stay over schedules, and the outcome of a run.
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_suballocation.h"
#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Outcome : public EngineTest {
 protected:
  static uint64_t Value() {
    uint64_t hash = 0;
    OK(sim().outcome(self(), &hash));
    return hash;
  }
  static uint64_t Next() {
    uint32_t thread = 7;
    uint64_t index = 0;
    OK(sim().next_op(self(), &thread, &index));
    EXPECT_EQ(thread, 0u);
    return index;
  }
  static std::string Schedule(const std::string& strategy, int seed) {
    return "outcome=on,strategy=" + strategy + ",seed=" + std::to_string(seed);
  }
};

// Random work of four streams on memory of a device, pinned and plain memory.
// A use of memory waits for the uses before that conflict with it; without
// `ordered` it waits for nothing.
class RandomWork : public EngineTest {
 public:
  static void Run(uint32_t seed, bool ordered) {
    RandomWork work(seed, ordered);
    for (int i = 0; i < 30; ++i) work.Step();
    OK(ops().device_sync(self(), 0));
    OK(ops().device_sync(self(), 1));
  }

 private:
  static constexpr size_t kStreams = 4, kPlaces = 6;
  // Cells 0 and 1 are of device 0, 2 and 3 of device 1, 4 is pinned, 5 plain.
  struct Place {
    int64_t* cell = nullptr;
    devrt_event written = nullptr;
    std::vector<devrt_event> read;
  };

  RandomWork(uint32_t seed, bool ordered) : dice_(seed), ordered_(ordered) {
    for (size_t i = 0; i < kStreams; ++i) {
      streams_[i] = NewStream(static_cast<uint32_t>(i % 2));
    }
    for (size_t i = 0; i < 4; ++i) {
      places_[i].cell = NewCell(static_cast<uint32_t>(i / 2), 1);
    }
    void* pinned = nullptr;
    OK(ops().host_alloc(self(), 0, sizeof(int64_t), 0, &pinned));
    places_[4].cell = static_cast<int64_t*>(pinned);
    *places_[4].cell = 5;
    places_[5].cell = &plain_;
  }
  void TestBody() override {}

  size_t Below(size_t n) { return dice_() % n; }
  // Without order a replaced cell would be a fault.
  size_t Act() { return Below(ordered_ ? 6 : 5); }

  void WaitFor(devrt_event event, size_t stream) {
    if (ordered_ && event != nullptr) Wait(streams_[stream], event);
  }
  void Uses(size_t stream, Place* place, bool writes) {
    WaitFor(place->written, stream);
    if (!writes) return;
    for (devrt_event event : place->read) WaitFor(event, stream);
  }
  void Used(size_t stream, Place* place, bool writes) {
    devrt_event event = Mark(streams_[stream], stream % 2);
    if (!writes) {
      place->read.push_back(event);
      return;
    }
    place->written = event;
    place->read.clear();
  }

  void Step() {
    const size_t stream = Below(kStreams);
    const size_t mine = stream % 2 * 2 + Below(2);  // of the stream's device
    Place& place = places_[mine];
    switch (Act()) {
      case 0:
      case 1:
        Uses(stream, &place, true);
        MulAdd(streams_[stream], place.cell, 3, 1 + static_cast<int>(Below(9)));
        Used(stream, &place, true);
        break;
      case 2:
        CopyTo(stream, &places_[4 + Below(2)], &place);
        break;
      case 3:
        CopyTo(stream, &place, &places_[4]);
        break;
      case 4:
        // What a query answers does not change the work.
        EXPECT_LE(Done(streams_[stream]), true);
        break;
      default:
        Replace(stream, &place);
    }
  }

  void CopyTo(size_t stream, Place* to, Place* from) {
    Uses(stream, from, false);
    Uses(stream, to, true);
    OK(ops().copy_async(self(), streams_[stream], to->cell, from->cell, 8,
                        DEVRT_COPY_INFER));
    Used(stream, from, false);
    Used(stream, to, true);
  }

  // Frees the cell in the order of the stream, and makes another.
  void Replace(size_t stream, Place* place) {
    if (place->cell == made_) {
      Uses(stream, place, true);
      OK(ops().dealloc_async(self(), streams_[stream], place->cell, 8));
      made_ = nullptr;
    } else if (made_ != nullptr) {
      return;
    }
    void* ptr = nullptr;
    OK(ops().alloc_async(self(), streams_[stream], 8, 0, &ptr));
    *place = Place();
    place->cell = static_cast<int64_t*>(ptr);
    made_ = place->cell;
    Put(streams_[stream], place->cell, 4);
    Used(stream, place, true);
  }

  std::mt19937 dice_;
  const bool ordered_;
  devrt_stream streams_[kStreams];
  Place places_[kPlaces];
  int64_t* made_ = nullptr;  // the one cell that is stream-ordered
  int64_t plain_ = 6;
};

TEST_F(Outcome, WorkIsNumberedInEachThread) {
  OK(sim().timeline_enable(self(), 1));
  devrt_stream s = NewStream();
  EXPECT_EQ(Next(), 0u);
  int64_t* const cell = NewCell();
  Put(s, cell, 1);
  Wait(NewStream(1), Mark(s));
  EXPECT_EQ(Next(), 1u);  // records and waits do not count
  while (!Done(s)) {
  }
  Put(s, cell, 2);
  std::thread([&] {
    Put(s, cell, 3);
    OK(ops().host_func(
        self(), s, [](void*, devrt_status) {}, nullptr));
  }).join();
  Put(s, cell, 4);
  Sync(s);
  std::vector<std::pair<uint32_t, uint64_t>> ids;
  OK(sim().timeline(
      self(),
      [](void* arg, const devrt_sim_op_v1* op) {
        if (op->op_index == DEVRT_SIM_NO_INDEX) {
          EXPECT_LE(op->kind, DEVRT_SIM_OP_WAIT);
          return;
        }
        static_cast<decltype(ids)*>(arg)->push_back({op->thread, op->op_index});
      },
      &ids));
  EXPECT_EQ(ids, (decltype(ids){{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}}));
}

TEST_F(Outcome, NeedsItsSetting) {
  Reset("");
  uint64_t hash = 0;
  const Result result = Take(sim().outcome(self(), &hash));
  EXPECT_EQ(result.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_NE(result.text.find("outcome=on"), std::string::npos) << result.text;
}

TEST_F(Outcome, NewCallsAreNoDecisions) {
  const auto run = [](bool asks) {
    Reset(Schedule("random", 3));
    devrt_stream a = NewStream(), b = NewStream();
    int64_t* const cell = NewCell();
    for (int i = 0; i < 10; ++i) {
      Put(a, cell, i);
      MulAdd(b, cell, 2, 1);
      if (asks) {
        Next();
        Value();
      }
    }
    OK(ops().device_sync(self(), 0));
    return TraceHash();
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(Outcome, IsOneForARaceFreeProgramInEverySchedule) {
  for (uint32_t program = 0; program < 40; ++program) {
    std::set<uint64_t> outcomes, schedules;
    for (const std::string strategy : kStrategies) {
      for (int seed = 0; seed < 3; ++seed) {
        Reset(Schedule(strategy, seed));
        RandomWork::Run(program, true);
        outcomes.insert(Value());
        schedules.insert(TraceHash());
      }
    }
    EXPECT_EQ(outcomes.size(), 1u) << "program " << program;
    EXPECT_GT(schedules.size(), 3u);
  }
}

TEST_F(Outcome, DiffersWhereARaceChangesAResult) {
  int found = 0;
  for (uint32_t program = 0; program < 40; ++program) {
    std::set<uint64_t> outcomes;
    for (int seed = 0; seed < 5; ++seed) {
      Reset(Schedule("random", seed));
      RandomWork::Run(program, false);
      outcomes.insert(Value());
    }
    if (outcomes.size() > 1) ++found;
  }
  EXPECT_GT(found, 20);
}

TEST_F(Outcome, SeesEachThingThatAProgramCanSee) {
  const auto outcome = [](auto run) {
    Reset(Schedule("asap", 0));
    devrt_stream s = NewStream();
    run(s);
    Sync(s);
    return Value();
  };
  int64_t host = 0;
  std::set<uint64_t> all;
  for (int64_t value = 1; value <= 2; ++value) {
    all.insert(outcome([&](devrt_stream s) { Put(s, NewCell(), value); }));
    all.insert(outcome([&](devrt_stream s) {  // at the free
      int64_t* const cell = NewCell();
      Put(s, cell, 10 + value);
      Sync(s);
      OK(ops().dealloc(self(), 0, cell, 8));
    }));
    all.insert(outcome([&](devrt_stream s) {  // to plain memory
      int64_t* const cell = NewCell(0, value);
      OK(ops().copy_async(self(), s, &host, cell, 8, DEVRT_COPY_INFER));
      Sync(s);
      OK(sim().poke(self(), cell, "12345678", 8));
    }));
    all.insert(outcome([&](devrt_stream s) {  // from host to host
      OK(ops().copy_async(self(), s, &host, &value, 8, DEVRT_COPY_INFER));
    }));
    all.insert(outcome([&](devrt_stream s) {  // a kernel to pinned memory
      void* pinned = nullptr;
      OK(ops().host_alloc(self(), 0, 8, 0, &pinned));
      Put(s, static_cast<int64_t*>(pinned), value);
    }));
  }
  EXPECT_EQ(all.size(), 10u);
}

TEST_F(Outcome, NeitherAddressesNorNeverWrittenBytesCount) {
  const auto outcome = [](bool other_first, bool frees) {
    Reset(Schedule("asap", 0));
    EXPECT_EQ(Next(), 0u);  // this is thread 0
    void* block = nullptr;
    const auto allocate = [&](uint64_t size) {
      OK(ops().alloc(self(), 0, size, 0, &block));
    };
    if (other_first) std::thread(allocate, 512).join();
    allocate(200'000);
    void* const mine = block;
    if (!other_first) std::thread(allocate, 512).join();
    if (frees) OK(ops().dealloc(self(), 0, mine, 0));
    return Value();
  };
  EXPECT_EQ(outcome(false, false), outcome(true, false));
  EXPECT_EQ(outcome(false, false), outcome(false, true));
}

TEST_F(Outcome, BlocksThatAnAllocatorCarvesAreLeftOut) {
  const auto outcome = [](int64_t value) {
    Reset(Schedule("asap", 0));
    const auto& carving =
        Extension<devrt_suballocation_v0>(DEVRT_SUBALLOCATION_EXTENSION);
    int64_t* const cell = NewCell(0, value);
    OK(carving.carve(self(), 0, cell, sizeof *cell));
    OK(carving.hand_out(self(), NewStream(), cell, 4));
    Put(NewStream(), cell, value);  // no error: the calls check nothing
    OK(ops().device_sync(self(), 0));
    return Value();
  };
  EXPECT_EQ(outcome(1), outcome(2));
}

TEST_F(Outcome, FaultsCount) {
  const auto outcome = [](uint32_t form) {
    Reset(Schedule("asap", 0));
    OK(probe().fault(self(), NewStream(), form));
    EXPECT_NE(Take(ops().device_sync(self(), 0)).code, DEVRT_OK);
    return Value();
  };
  Reset(Schedule("asap", 0));
  const std::set<uint64_t> all = {Value(), outcome(DEVRT_FAULT_TRAP),
                                  outcome(DEVRT_FAULT_NULL_WRITE)};
  EXPECT_EQ(all.size(), 3u);
}

}  // namespace
}  // namespace devrt::test
