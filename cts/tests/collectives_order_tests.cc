// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0: order, groups, and what is refused.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/collective_jobs.h"
#include "cts/held_stream.h"

namespace devrt::cts {
namespace collectives_order_tests {
namespace {

using Table = devrt_collectives_v0;

constexpr uint32_t kRanks = 4;
constexpr uint64_t kCount = 64;
constexpr Job kAdd = {DEVRT_COLLECTIVE_ALL_REDUCE,
                      DEVRT_INT8,
                      DEVRT_COLLECTIVE_SUM,
                      0,
                      kCount,
                      false};

void NeedStreamOrder(const CollectiveTable& table) {
  table.Need(DEVRT_COLLECTIVES_STREAM_ORDERED, "STREAM_ORDERED");
}

// ---- the order of a stream

// On each rank: a fill, the operation, a copy of its result, and fills of its
// input and its output.  Ranks submit in both orders.
void StreamOrder(Test& t) {
  const CollectiveTable table(t);
  NeedStreamOrder(table);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const uint64_t size = devices.size() * kCount;
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices);
    const size_t n = ranks.size();
    const std::vector<Job> jobs = JobsOf(table, DEVRT_INT8, kCount);
    for (size_t j = 0; j < jobs.size(); ++j) {
      std::vector<Bytes> sources;
      for (size_t r = 0; r < n; ++r) {
        sources.emplace_back(size, static_cast<uint8_t>(r + 1));
      }
      for (size_t k = 0; k < n; ++k) {
        const size_t r = j % 2 == 0 ? k : n - 1 - k;
        uint8_t* const src = memory.device_src(r);
        uint8_t* const dst = memory.device_dst(r);
        const RawStream& s = ranks.stream(r);
        s.Fill(src, static_cast<uint8_t>(r + 1), size);
        s.Fill(dst, 0, size);
        t.Require(ranks.Submit(r, OpsOf(jobs[j], n, r, src, dst)),
                  TextOf(jobs[j]));
        s.Copy(memory.dst(r), dst, size, DEVRT_COPY_D2H);
        s.Fill(src, 0x77, size);
        s.Fill(dst, 0x77, size);
      }
      ranks.Sync();
      for (size_t r = 0; r < n; ++r) {
        const std::string wrong =
            Difference(jobs[j], sources, r, memory.dst(r));
        t.Require(wrong.empty(), "in the order of its stream, " + wrong);
      }
    }
  });
}

// No rank is done before the input of the held one is there.
void WaitsForAll(Test& t) {
  const CollectiveTable table(t);
  NeedStreamOrder(table);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices);
    const size_t n = ranks.size();
    for (const uint32_t op :
         {DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_COLLECTIVE_ALL_GATHER,
          DEVRT_COLLECTIVE_REDUCE_SCATTER, DEVRT_COLLECTIVE_ALL_TO_ALL,
          DEVRT_COLLECTIVE_BROADCAST, DEVRT_COLLECTIVE_SCATTER}) {
      Job job = kAdd;
      job.op = op;
      if (!table.Supports(op, job.dtype, job.reduction)) continue;
      HeldStream held(t, ranks.stream(0));
      for (size_t r = 0; r < n; ++r) {
        t.Require(ranks.Submit(r, OpsOf(job, n, r, memory.device_src(r),
                                        memory.device_dst(r))),
                  TextOf(job));
      }
      held.Blocks(ranks.stream(n - 1),
                  TextOf(job) + " needs the data of the held rank");
      held.Open();
      ranks.Sync();
    }
  });
}

// ---- groups

// Each rank sends to the next one and receives from the one before, in either
// order, on one stream and on two.
void ExchangeInARing(const CollectiveTable& table,
                     const std::vector<uint32_t>& devices) {
  Test& t = table.t();
  const size_t n = devices.size();
  const Job ring = {DEVRT_COLLECTIVE_SEND, DEVRT_INT8, 0, 0, kCount, false};
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices);
    std::vector<RawStream> others;
    for (const uint32_t device : devices) others.emplace_back(t, device);
    for (const bool two_streams : {false, true}) {
      for (size_t r = 0; r < n; ++r) {
        std::fill_n(memory.src(r), kCount, static_cast<uint8_t>(r + 1));
        memory.Upload(ranks, r, kCount);
      }
      ranks.Sync();
      for (size_t r = 0; r < n; ++r) {
        const CollectiveOps ops =
            OpsOf(ring, n, r, memory.device_src(r), memory.device_dst(r));
        const devrt_submission_v0 both[] = {
            {sizeof both[0], 1, ranks.comm(r), ranks.stream(r).handle(),
             &ops[0], nullptr},
            {sizeof both[0], 1, ranks.comm(r), others[r].handle(), &ops[1],
             nullptr}};
        const devrt_submission_v0* const first = both;
        t.Require(two_streams ? table.Call<&Table::submit>(first, 2u)
                              : ranks.Submit(r, ops),
                  "a send and a receive as one group");
      }
      ranks.Sync();
      for (const RawStream& other : others) other.Sync();
      for (size_t r = 0; r < n; ++r) memory.Download(ranks, r, kCount);
      ranks.Sync();
      for (size_t r = 0; r < n; ++r) {
        const auto from = static_cast<uint8_t>((r + n - 1) % n + 1);
        t.Expect(memory.dst(r)[0] == from && memory.dst(r)[kCount - 1] == from,
                 "a rank receives what the one before it sent");
      }
    }
  });
}

void SendsAndReceivesOfAGroup(Test& t) {
  const CollectiveTable table(t);
  NeedStreamOrder(table);
  if (!table.Supports(DEVRT_COLLECTIVE_SEND, DEVRT_INT8, 0) ||
      !table.Supports(DEVRT_COLLECTIVE_RECV, DEVRT_INT8, 0)) {
    t.Unsupported("the engine has no send and recv of int8");
  }
  // Ranks that share a device may give it room for more operations.
  ExchangeInARing(table, table.Devices(2));
  ExchangeInARing(table, table.Devices(kRanks));
}

// What is wrong with the second submission concerns the first one, too.
void RefusedGroup(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  const size_t n = ranks.size();
  CollectiveOps good =
      OpsOf(kAdd, n, 0, memory.device_src(0), memory.device_dst(0));
  CollectiveOps bad = good;
  bad[0].op = DEVRT_COLLECTIVE_BROADCAST;
  bad[0].root_or_peer = static_cast<int32_t>(n);
  const devrt_submission_v0 both[] = {
      {sizeof both[0], 1, ranks.comm(0), ranks.stream(0).handle(), &good[0],
       nullptr},
      {sizeof both[0], 1, ranks.comm(0), ranks.stream(0).handle(), &bad[0],
       nullptr}};
  const devrt_submission_v0* const first = both;
  t.Require(t.Code(table.Call<&Table::submit>(first, 2u),
                   DEVRT_INVALID_ARGUMENT, "a group with a wrong operation"),
            "a group with a wrong operation is refused");
  t.Expect(ranks.stream(0).Query(), "a refused group has enqueued nothing");
  good.push_back(bad[0]);
  t.Require(t.Code(ranks.Submit(0, good), DEVRT_INVALID_ARGUMENT,
                   "a submission with a wrong operation"),
            "a submission with a wrong operation is refused");
  t.Expect(ranks.stream(0).Query(), "a refused operation is not enqueued");
  // The next operation of each rank meets those of the others.
  RunJob(ranks, memory, kAdd);
}

// ---- what is refused

void WrongOperations(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  const size_t n = ranks.size();
  uint8_t* const src = memory.device_src(0);
  const devrt_collective_v0 right =
      OpsOf(kAdd, n, 0, src, memory.device_dst(0))[0];
  struct Wrong {
    const char* what;
    devrt_collective_v0 op;
  };
  std::vector<Wrong> all(8, {"", right});
  all[0].what = "an operation that does not exist";
  all[0].op.op = DEVRT_COLLECTIVE_COUNT;
  all[1].what = "a dtype that does not exist";
  all[1].op.dtype = 0xffff;
  all[2].what = "a reduction that does not exist";
  all[2].op.reduction = 99;
  all[3].what = "a root behind the last rank";
  all[3].op.op = DEVRT_COLLECTIVE_BROADCAST;
  all[3].op.root_or_peer = static_cast<int32_t>(n);
  all[4].what = "a negative root";
  all[4].op.op = DEVRT_COLLECTIVE_BROADCAST;
  all[4].op.root_or_peer = -1;
  all[5].what = "no source";
  all[5].op.src = nullptr;
  all[6].what = "no destination";
  all[6].op.dst = nullptr;
  all[7].what = "a source that overlaps the destination";
  all[7].op.dst = src + 1;
  for (const Wrong& wrong : all) {
    const Result result = ranks.Submit(0, {wrong.op});
    t.Require(t.Code(result, DEVRT_INVALID_ARGUMENT, wrong.what), wrong.what);
    t.Expect(ranks.stream(0).Query(),
             absl::StrCat(wrong.what, ": nothing is enqueued"));
    ranks.IsReady(0, "the communicator is READY after a refusal");
  }
  RunJob(ranks, memory, kAdd);
}

void StreamOfAnotherDevice(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = {t.device(0), t.device(1)};
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  const CollectiveOps ops =
      OpsOf(kAdd, 2, 0, memory.device_src(0), memory.device_dst(0));
  t.Require(t.Code(ranks.Submit(0, ops, ranks.stream(1)),
                   DEVRT_INVALID_ARGUMENT, "a stream of another device"),
            "a stream of another device is refused");
  ranks.IsReady(0, "the communicator is READY after a refusal");
  RunJob(ranks, memory, kAdd);
}

// ---- several communicators and streams

// Rounds of one all_reduce on each communicator.  Events give the order of the
// communicators on each device, which an engine may need.
void ManyCommunicators(Test& t) {
  const CollectiveTable table(t);
  NeedStreamOrder(table);
  const std::vector<uint32_t> devices = {t.device(0), t.device(1)};
  constexpr int kComms = 3, kRounds = 125;  // in each of 8 schedules
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    std::vector<std::unique_ptr<Ranks>> comms;
    for (int c = 0; c < kComms; ++c) {
      comms.push_back(std::make_unique<Ranks>(table, devices));
    }
    for (size_t r = 0; r < 2; ++r) {
      std::fill_n(memory.src(r), kComms, uint8_t{1});
      memory.Upload(*comms[0], r, kComms);
    }
    comms[0]->Sync();
    Job job = kAdd;
    job.reduction = DEVRT_COLLECTIVE_MAX;
    job.count = 1;
    const RawEvent behind[] = {RawEvent(t, devices[0]),
                               RawEvent(t, devices[1])};
    for (int round = 0; round < kRounds; ++round) {
      for (size_t k = 0; k < 2; ++k) {
        const size_t r = (k + static_cast<size_t>(round)) % 2;
        for (int c = 0; c < kComms; ++c) {
          const RawStream& s = comms[c]->stream(r);
          s.Wait(behind[r]);
          t.Require(
              comms[c]->Submit(r, OpsOf(job, 2, r, memory.device_src(r) + c,
                                        memory.device_dst(r) + c)),
              "all_reduce");
          behind[r].Record(s);
        }
      }
    }
    for (const auto& comm : comms) comm->Sync();
    for (size_t r = 0; r < 2; ++r) memory.Download(*comms[0], r, kComms);
    comms[0]->Sync();
    for (size_t r = 0; r < 2; ++r) {
      t.Expect(std::all_of(memory.dst(r), memory.dst(r) + kComms,
                           [](uint8_t byte) { return byte == 1; }),
               "the result of each communicator");
    }
  });
}

// Two devices begin with different communicators, and have room for one.
void OppositeOrders(Test& t) {
  const CollectiveTable table(t);
  NeedStreamOrder(table);
  table.Need(DEVRT_COLLECTIVES_ABORT, "ABORT");
  if (table.Has(DEVRT_COLLECTIVES_ORDERS_ITSELF)) {
    t.Skip("communicators need no common order");
  }
  const std::vector<uint32_t> devices = {t.device(0), t.device(1)};
  const RankMemory memory(t, devices);
  const Ranks a(table, devices), b(table, devices);
  const auto submit = [&](const Ranks& ranks, size_t r, uint64_t at) {
    t.Require(ranks.Submit(r, OpsOf(kAdd, 2, r, memory.device_src(r) + at,
                                    memory.device_dst(r) + at)),
              "all_reduce");
  };
  submit(a, 0, 0);
  submit(b, 0, kCount);
  submit(b, 1, kCount);
  submit(a, 1, 0);
  t.Code(t.machine().Call<&devrt_ops_v0::stream_sync>(a.stream(0).handle()),
         DEVRT_FAILED_PRECONDITION, "a wait for ranks that wait for each other",
         "communicator");
  // With an abort of the one the other goes on.
  for (size_t r = 0; r < 2; ++r) {
    t.Ok(table.Call<&Table::comm_abort>(a.comm(r)), "comm_abort");
  }
  b.Sync();
  a.Sync();
  RunJob(b, memory, kAdd);
}

// Operations of one communicator, on two streams of each device in turn.
void TwoStreams(Test& t) {
  const CollectiveTable table(t);
  NeedStreamOrder(table);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices);
    std::vector<RawStream> others;
    for (const uint32_t device : devices) others.emplace_back(t, device);
    const size_t n = ranks.size();
    for (int round = 0; round < 20; ++round) {
      for (size_t r = 0; r < n; ++r) {
        t.Require(
            ranks.Submit(r,
                         OpsOf(kAdd, n, r, memory.device_src(r),
                               memory.device_dst(r) + kCount * (round % 2)),
                         round % 2 == 0 ? ranks.stream(r) : others[r]),
            "all_reduce");
      }
    }
    ranks.Sync();
    for (const RawStream& other : others) other.Sync();
    RunJob(ranks, memory, kAdd);
  });
}

constexpr TestCase kTests[] = {
    {"collectives.stream_order", "K-C3",
     "An operation follows its stream's earlier work and precedes the later "
     "work, in whatever order the ranks submit.",
     &StreamOrder},
    {"collectives.waits_for_all", "K-C3",
     "An operation is not complete before the ranks whose data it needs have "
     "come to it.",
     &WaitsForAll, 0, kNeedsGate},
    {"collectives.group_of_sends_and_receives", "K-C5",
     "Sends and receives of one group complete, in whatever order they stand.",
     &SendsAndReceivesOfAGroup},
    {"collectives.refused_group", "K-C5 K-C6",
     "A group with a wrong operation is refused, and enqueues nothing.",
     &RefusedGroup},
    {"collectives.wrong_operations", "K-C6",
     "A wrong operation is refused, and the communicator stays READY.",
     &WrongOperations},
    {"collectives.stream_of_another_device", "K-C6",
     "A stream of another device is refused.", &StreamOfAnotherDevice, 0,
     kTwoDevices},
    {"collectives.many_communicators", "K-C7",
     "Communicators on streams of their own do not deadlock if all devices "
     "have them in one order.",
     &ManyCommunicators, 0, kTwoDevices | kSlow},
    {"collectives.opposite_orders", "K-C7",
     "A simulator reports the deadlock of two communicators that two devices "
     "have in opposite orders.",
     &OppositeOrders, 0, kTwoDevices | kNeedsSim},
    {"collectives.two_streams", "K-C7",
     "One communicator may be used on several streams.", &TwoStreams},
};

}  // namespace
}  // namespace collectives_order_tests

absl::Span<const TestCase> CollectivesOrderTests() {
  return collectives_order_tests::kTests;
}

}  // namespace devrt::cts
