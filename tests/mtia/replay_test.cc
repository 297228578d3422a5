// SPDX-License-Identifier: Apache-2.0
//
// Determinism: seeds, trace hashes and replay tokens.
#include <set>
#include <string>
#include <utility>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

// A program that makes every kind of call, by a generator of its own; what
// queries answer changes what it does.
class RandomProgram : public EngineTest {
 public:
  static void Run(uint64_t seed) {
    RandomProgram program(seed);
    for (int i = 0; i < 40; ++i) program.Step();
    OK(ops().device_sync(self(), 0));
    OK(ops().device_sync(self(), 1));
  }

 private:
  static constexpr uint32_t kStreams = 4;

  explicit RandomProgram(uint64_t seed) : state_(seed) {
    for (uint32_t i = 0; i < kStreams; ++i) {
      const uint32_t flags = i < 2 ? DEVRT_STREAM_BLOCKING : 0;
      streams_[i] = NewStream(i % 2, flags);
      events_[i] = NewEvent(i % 2);
      cells_[i] = NewCell(i % 2);
    }
    flag_ = NewFlag();
  }
  void TestBody() override {}

  uint32_t Next(uint32_t n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 33) % n;
  }

  void Step() {
    const uint32_t k = Next(kStreams);
    devrt_stream s = streams_[k];
    switch (Next(11)) {
      case 0:
        Record(events_[k], s);
        break;
      case 1:
        Wait(s, events_[Next(kStreams)]);
        break;
      case 2:
        OK(probe().spin(self(), s, 1 + Next(5000)));
        break;
      case 3:
        if (Done(s)) MulAdd(s, cells_[k], 3, 1);
        break;
      case 4:
        OK(ops().copy_async(self(), s, cells_[k], &host_[k], 8,
                            DEVRT_COPY_INFER));
        break;
      case 5:
        OK(ops().host_func(
            self(), s, [](void*, devrt_status) {}, nullptr));
        break;
      case 6:
        if (Next(3) == 0) Sync(s);
        break;
      case 7:
        if (!EventDone(events_[k])) Put(s, cells_[k], 2);
        break;
      case 8:
        OK(probe().flag_wait(self(), s, flag_, 1 + Next(3000)));
        break;
      case 9:
        MulAdd(Legacy(k % 2), cells_[k], 2, 1);
        break;
      default:
        OK(probe().spin(self(), Special(DEVRT_STREAM_PER_THREAD), 20));
    }
  }

  uint64_t state_;
  devrt_stream streams_[kStreams];
  devrt_event events_[kStreams];
  int64_t* cells_[kStreams];
  int64_t host_[kStreams] = {};
  devrt_flag flag_;
};

class Replay : public EngineTest {
 protected:
  // A program with queries whose answers change what it does.
  static int64_t Program() {
    devrt_stream a = NewStream(), b = NewStream(0, DEVRT_STREAM_BLOCKING);
    devrt_stream c = NewStream(1);
    int64_t* const x = NewCell(0, 1);
    for (int i = 0; i < 5; ++i) {
      MulAdd(a, x, 2, 1);
      MulAdd(b, x, 3, 0);
      if (Done(a)) MulAdd(a, x, 5, 0);
      Wait(c, Mark(b));
      MulAdd(Legacy(), x, 1, 7);
      OK(probe().spin(self(), c, 100));
    }
    OK(ops().device_sync(self(), 1));
    OK(ops().device_sync(self(), 0));
    return Peek(x);
  }
  static std::vector<devrt_sim_decision_v1> Decisions() {
    std::vector<devrt_sim_decision_v1> made;
    const auto visit = [](void* arg, const devrt_sim_decision_v1* decision) {
      static_cast<std::vector<devrt_sim_decision_v1>*>(arg)->push_back(
          *decision);
    };
    OK(sim().decisions(self(), visit, &made));
    return made;
  }
  static std::string Config(const std::string& strategy, int seed) {
    return "strategy=" + strategy + ",seed=" + std::to_string(seed);
  }
};

TEST_F(Replay, SameSeedSameTrace) {
  for (const std::string strategy : kStrategies) {
    for (int seed = 0; seed < 20; ++seed) {
      Reset(Config(strategy, seed));
      const int64_t value = Program();
      const uint64_t hash = TraceHash();
      const std::string token = Text(sim().token);
      Reset(Config(strategy, seed));
      EXPECT_EQ(Program(), value);
      EXPECT_EQ(TraceHash(), hash);
      EXPECT_EQ(Text(sim().token), token);
    }
  }
}

// The calls that make, record and destroy an event change no schedule.
TEST_F(Replay, CallsThatCannotChangeAResultAreNoDecisions) {
  const auto run = [](const std::string& strategy, bool more) {
    Reset(Config(strategy, 5));
    devrt_stream a = NewStream(), b = NewStream();
    int64_t* const x = NewCell(0, 1);
    for (int i = 0; i < 10; ++i) {
      MulAdd(a, x, 2, 1);
      MulAdd(b, x, 3, 0);
      if (!more) continue;
      devrt_event event = NewEvent();
      void* native = nullptr;
      OK(ops().event_native(self(), event, &native));
      OK(ops().event_destroy(self(), event));
      devrt_pointer_info_v0 info = {};
      info.struct_size = sizeof info;
      OK(ops().pointer_info(self(), x, &info));
      OK(ops().stream_destroy(self(), NewStream()));
      NewCell(1);
      Text(sim().token);
      TraceHash();
    }
    OK(ops().device_sync(self(), 0));
    return std::make_pair(Peek(x), Text(sim().token));
  };
  for (const std::string strategy : {"asap", "alap", "lifo", "random"}) {
    EXPECT_EQ(run(strategy, true), run(strategy, false)) << strategy;
  }
}

// A query may see what was submitted just before.
TEST_F(Replay, ARecordCanBeDoneAtTheNextQuery) {
  std::set<bool> answers;
  for (int seed = 0; seed < 20; ++seed) {
    Reset(Config("random", seed));
    answers.insert(EventDone(Mark(NewStream())));
  }
  EXPECT_EQ(answers.size(), 2u);
}

TEST_F(Replay, TokensRepeatTheRun) {
  std::set<uint64_t> hashes;
  for (const std::string strategy : kStrategies) {
    for (int seed = 0; seed < 20; ++seed) {
      Reset(Config(strategy, seed));
      const int64_t value = Program();
      const uint64_t hash = TraceHash();
      const std::string token = Text(sim().token);
      EXPECT_EQ(token.substr(0, 5), "dvs1:");
      Reset("");
      OK(sim().replay(self(), token.data(), token.size()));
      EXPECT_EQ(Program(), value) << token;
      EXPECT_EQ(TraceHash(), hash) << token;
      hashes.insert(hash);
    }
  }
  EXPECT_GT(hashes.size(), 20u);
}

// Whatever a program calls: the replay makes the same decisions, so that its
// own token is the token.
TEST_F(Replay, TokensRepeatRandomPrograms) {
  for (const std::string strategy : kStrategies) {
    for (int seed = 0; seed < 300; ++seed) {
      const uint64_t program = static_cast<uint64_t>(seed) + 1;
      Reset(Config(strategy, seed));
      RandomProgram::Run(program);
      const uint64_t hash = TraceHash();
      const std::string token = Text(sim().token);
      Reset("");
      OK(sim().replay(self(), token.data(), token.size()));
      RandomProgram::Run(program);
      ASSERT_EQ(TraceHash(), hash) << strategy << " " << seed;
      ASSERT_EQ(Text(sim().token), token) << strategy << " " << seed;
    }
  }
}

TEST_F(Replay, DecisionsAreRecordedWithTheirCandidates) {
  OK(sim().decisions_enable(self(), 1));
  Reset(Config("random", 3));
  Program();
  const std::string token = Text(sim().token);
  const std::vector<devrt_sim_decision_v1> made = Decisions();
  ASSERT_GT(made.size(), 20u);
  bool stream_moved = false, host_moved = false;
  for (const devrt_sim_decision_v1& decision : made) {
    EXPECT_GE(decision.count, 2u);
    EXPECT_LT(decision.choice, decision.count);
    stream_moved = stream_moved || decision.seq > 0;
    host_moved = host_moved || decision.seq == 0;
  }
  EXPECT_TRUE(stream_moved && host_moved);

  OK(sim().replay(self(), token.data(), token.size()));
  Program();
  const std::vector<devrt_sim_decision_v1> again = Decisions();
  ASSERT_EQ(again.size(), made.size());
  for (size_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(again[i].count, made[i].count);
    EXPECT_EQ(again[i].choice, made[i].choice);
    EXPECT_EQ(again[i].seq, made[i].seq);
  }
  OK(sim().decisions_enable(self(), 0));
  Reset("");
  EXPECT_TRUE(Decisions().empty());
}

TEST_F(Replay, TheTimelineHasStepsAndAccesses) {
  Reset("strategy=alap");
  OK(sim().timeline_enable(self(), 1));
  devrt_stream s = NewStream();
  int64_t* const x = NewCell(0, 1);
  MulAdd(s, x, 2, 1);
  Sync(s);
  struct Seen {
    devrt_sim_op_v1 op = {};
    std::vector<devrt_access_v0> accesses;
  } seen;
  OK(sim().timeline(
      self(),
      [](void* arg, const devrt_sim_op_v1* op) {
        Seen* const out = static_cast<Seen*>(arg);
        out->op = *op;
        out->accesses.assign(op->accesses, op->accesses + op->access_count);
      },
      &seen));
  EXPECT_LT(seen.op.submit_step, seen.op.begin_step);
  EXPECT_LT(seen.op.begin_step, seen.op.end_step);
  EXPECT_EQ(seen.op.split, 1u);
  ASSERT_EQ(seen.accesses.size(), 1u);
  EXPECT_EQ(seen.accesses[0].ptr, x);
  EXPECT_EQ(seen.accesses[0].size, sizeof *x);
}

TEST_F(Replay, BadTokens) {
  for (const std::string token :
       {"", "dvs1", "dvs2:0:0:hw:", "dvs1:0:0:fast:", "dvs1:x:0:hw:",
        "dvs1:0:0:hw:!", "dvs1:0:0:hw:a:b"}) {
    ExpectCode(sim().replay(self(), token.data(), token.size()),
               DEVRT_INVALID_ARGUMENT);
  }
  const std::string other = "dvs1:1:0:hw:";
  ExpectCode(sim().replay(self(), other.data(), other.size()),
             DEVRT_FAILED_PRECONDITION);
}

TEST_F(Replay, ResetStartsAfresh) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  NewCell();
  NewEvent();
  Reset("seed=4");
  const devrt_sim_stats_v1 stats = Stats();
  EXPECT_EQ(stats.live_streams + stats.live_events + stats.live_blocks, 0u);
  EXPECT_EQ(stats.pending_ops, 0u);
  EXPECT_EQ(stats.threads, 1u);
  EXPECT_THAT(Text(sim().config), ::testing::HasSubstr("seed=4"));
  const std::string more = "devices=3";
  ExpectCode(sim().reset(self(), more.data(), more.size()),
             DEVRT_FAILED_PRECONDITION);
  const std::string typo = "strateg=hw";
  ExpectCode(sim().reset(self(), typo.data(), typo.size()),
             DEVRT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace devrt::test
