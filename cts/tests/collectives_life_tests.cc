// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0: how communicators begin and end.
#include <dirent.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/collective_jobs.h"
#include "cts/held_stream.h"

namespace devrt::cts {
namespace collectives_life_tests {
namespace {

using Ops = devrt_ops_v0;
using Table = devrt_collectives_v0;

constexpr uint32_t kRanks = 4;
constexpr Job kAdd = {DEVRT_COLLECTIVE_ALL_REDUCE,
                      DEVRT_INT32,
                      DEVRT_COLLECTIVE_SUM,
                      0,
                      8,
                      false};

CollectiveOps AddOf(const Ranks& ranks, const RankMemory& memory, size_t rank) {
  return OpsOf(kAdd, ranks.size(), rank, memory.device_src(rank),
               memory.device_dst(rank));
}

// ---- begins

void Info(Test& t) {
  const CollectiveTable table(t);
  devrt_collectives_info_v0 info = {};
  info.struct_size = sizeof info;
  t.Require(table.Call<&Table::info>(&info), "info");
  t.Expect(info.provider != nullptr && *info.provider != '\0',
           "the engine has a name");
  t.Expect(info.text != nullptr && info.path != nullptr,
           "the version and the path are texts");
  const std::string one = table.NewId();
  t.Expect(one != table.NewId(), "every id is a new one");
}

void ARankThatNeverComes(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const auto n = static_cast<uint32_t>(devices.size());
  const std::string id = table.NewId();
  std::vector<devrt_comm> comms(n - 1, nullptr);
  for (uint32_t r = 0; r + 1 < n; ++r) {
    t.Require(table.Begin(devices[r], n, r, id, 0, &comms[r]), "comm_begin");
  }
  t.Settle();
  for (const devrt_comm comm : comms) {
    uint32_t state = DEVRT_COMM_READY;
    t.Ok(table.Poll(comm, &state), "comm_poll before all have begun");
    t.Equal(state, DEVRT_COMM_PENDING, "a communicator that lacks a rank");
  }
  const RawStream s(t, devices[0]);
  const devrt_submission_v0 submission = {sizeof submission, 0,       comms[0],
                                          s.handle(),        nullptr, nullptr};
  t.Code(table.Call<&Table::submit>(&submission, 1u), DEVRT_FAILED_PRECONDITION,
         "submit while it is PENDING");
  for (const devrt_comm comm : comms) {
    t.Ok(table.Call<&Table::comm_destroy>(comm), "comm_destroy");
  }
  // Nothing is left of it.
  const RankMemory memory(t, devices);
  const Ranks ranks(table, devices);
  RunJob(ranks, memory, kAdd);
}

void WrongBegins(Test& t) {
  const CollectiveTable table(t);
  const std::string id = table.NewId();
  devrt_comm comm = nullptr;
  const uint32_t d = t.device();
  t.Code(table.Begin(d, 0, 0, id, 0, &comm), DEVRT_INVALID_ARGUMENT,
         "a communicator without ranks");
  t.Code(table.Begin(d, 2, 2, id, 0, &comm), DEVRT_INVALID_ARGUMENT,
         "a rank behind the last one");
  t.Code(table.Begin(d, 1, 0, "", 0, &comm), DEVRT_INVALID_ARGUMENT,
         "an id without bytes");
  uint64_t room = 0;
  char byte = 0;
  t.Code(table.Call<&Table::unique_id>(static_cast<void*>(&byte), &room),
         DEVRT_INVALID_ARGUMENT, "no room for an id");
}

// ---- children

// Waits for the children by colour, and expects that each has the ranks of
// `want`: ranks of the parent in the child's order.
void SplitByColorAndKey(Test& t) {
  const CollectiveTable table(t);
  table.Need(DEVRT_COLLECTIVES_SPLIT, "SPLIT");
  const std::vector<uint32_t> devices = table.Devices(6);
  const size_t n = devices.size();
  const RankMemory memory(t, devices);
  const Ranks parent(table, devices);
  // Rank n - 1 is in no child if there are enough; keys are in the opposite
  // order, and two of them are equal.
  std::vector<devrt_comm> children(n, nullptr);
  std::vector<std::vector<size_t>> want(2);
  for (size_t r = 0; r < n; ++r) {
    const bool is_in = n < 3 || r + 1 < n;
    const auto color = static_cast<int32_t>(r % 2);
    const auto key = -static_cast<int32_t>(std::min<size_t>(r, 3));
    t.Require(
        table.Call<&Table::comm_split>(
            parent.comm(r), is_in ? color : -1, key,
            static_cast<const devrt_comm_options_v0*>(nullptr), &children[r]),
        "comm_split");
    t.Expect(is_in == (children[r] != nullptr),
             "there is no child for color -1, and one for others");
    if (is_in) want[r % 2].push_back(r);
  }
  for (std::vector<size_t>& ranks : want) {
    std::stable_sort(ranks.begin(), ranks.end(), [](size_t a, size_t b) {
      return std::min<size_t>(a, 3) > std::min<size_t>(b, 3);
    });
    std::vector<devrt_comm> comms;
    std::vector<uint32_t> their_devices;
    for (const size_t r : ranks) {
      comms.push_back(children[r]);
      their_devices.push_back(devices[r]);
    }
    const RankMemory own(t, their_devices);
    const Ranks child(table, their_devices, comms);
    Job job = kAdd;
    if (!RunJob(child, own, job)) return;
    job.op = DEVRT_COLLECTIVE_ALL_GATHER;  // shows the order
    if (!RunJob(child, own, job)) return;
  }
  RunJob(parent, memory, kAdd);
}

// ---- the end

void FinishWaits(Test& t) {
  const CollectiveTable table(t);
  table.Need(DEVRT_COLLECTIVES_STREAM_ORDERED, "STREAM_ORDERED");
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  t.InEverySchedule([&] {
    const RankMemory memory(t, devices);
    const Ranks ranks(table, devices);
    const size_t n = ranks.size();
    HeldStream held(t, ranks.stream(0));
    for (size_t r = 0; r < n; ++r) {
      t.Require(ranks.Submit(r, AddOf(ranks, memory, r)), "all_reduce");
    }
    for (size_t r = 0; r < n; ++r) {
      t.Require(table.Call<&Table::comm_finish>(ranks.comm(r)), "comm_finish");
    }
    t.Settle();
    for (size_t r = 0; r < n; ++r) {
      uint32_t state = DEVRT_COMM_READY;
      t.Ok(table.Poll(ranks.comm(r), &state), "comm_poll");
      t.Equal(state, DEVRT_COMM_PENDING,
              "a communicator with an operation that is not complete");
    }
    held.Open();
    for (size_t r = 0; r < n; ++r) {
      t.Require(t.Eventually([&] {
        uint32_t state = DEVRT_COMM_PENDING;
        t.Require(table.Poll(ranks.comm(r), &state), "comm_poll");
        return state == DEVRT_COMM_READY;
      }),
                "comm_finish ends when all operations are complete");
    }
  });
}

size_t ThreadCount() {
  size_t count = 0;
  DIR* const folder = opendir("/proc/self/task");
  if (folder == nullptr) return 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// A life of a communicator, from its beginning to comm_destroy.
void OneLife(const CollectiveTable& table, const std::vector<uint32_t>& devices,
             const RankMemory& memory) {
  Test& t = table.t();
  const Ranks ranks(table, devices);
  t.Require(RunJob(ranks, memory, kAdd), "an all_reduce");
  for (size_t r = 0; r < ranks.size(); ++r) {
    t.Require(table.Call<&Table::comm_finish>(ranks.comm(r)), "comm_finish");
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    t.Require(t.Eventually([&] {
      uint32_t state = DEVRT_COMM_PENDING;
      t.Require(table.Poll(ranks.comm(r), &state), "comm_poll");
      return state == DEVRT_COMM_READY;
    }),
              "comm_finish ends");
  }
}

void ManyLives(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = table.Devices(kRanks);
  const RankMemory memory(t, devices);
  const auto free_bytes = [&t] {
    uint64_t bytes = 0, total = 0;
    t.Require(t.machine().Call<&Ops::mem_info>(t.device(), &bytes, &total),
              "mem_info");
    return bytes;
  };
  for (int i = 0; i < 3; ++i) OneLife(table, devices, memory);
  const uint64_t before = free_bytes();
  const size_t threads = ThreadCount();
  for (int i = 0; i < 100; ++i) OneLife(table, devices, memory);
  t.Equal(free_bytes(), before, "free memory after 100 communicators");
  t.Equal(ThreadCount(), threads, "threads after 100 communicators");
}

// ---- the current device

void KeepsTheCurrentDevice(Test& t) {
  const CollectiveTable table(t);
  const std::vector<uint32_t> devices = {t.device(0), t.device(1)};
  const RankMemory memory(t, devices);
  for (const uint32_t current : devices) {
    devrt_context previous = {};
    t.Require(t.machine().Call<&Ops::context_enter>(current, &previous),
              "context_enter");
    const auto is_kept = [&](std::string_view what) {
      uint32_t now = UINT32_MAX;
      t.Require(t.machine().Call<&Ops::context_current>(&now),
                "context_current");
      t.Equal(now, current,
              absl::StrCat("the current device after ",
                           absl::string_view(what.data(), what.size())));
    };
    const std::string id = table.NewId();
    is_kept("unique_id");
    std::vector<devrt_comm> comms(2, nullptr);
    for (uint32_t r = 0; r < 2; ++r) {
      t.Require(table.Begin(devices[r], 2, r, id, 0, &comms[r]), "comm_begin");
      is_kept("comm_begin");
    }
    devrt_comm none = nullptr;
    static_cast<void>(table.Begin(devices[1], 2, 9, id, 0, &none));
    is_kept("a comm_begin that fails");
    {
      Ranks ranks(table, devices, std::move(comms));
      is_kept("comm_poll");
      CollectiveOps wrong = AddOf(ranks, memory, 1);
      wrong[0].dst = nullptr;
      static_cast<void>(ranks.Submit(1, wrong));
      is_kept("a submit that fails");
      t.Require(
          ranks.SubmitAll({AddOf(ranks, memory, 0), AddOf(ranks, memory, 1)}),
          "all_reduce");
      is_kept("submit");
      ranks.Sync();
      for (uint32_t r = 0; r < 2; ++r) {
        t.Ok(table.Call<&Table::comm_finish>(ranks.comm(r)), "comm_finish");
        is_kept("comm_finish");
      }
      ranks.Destroy(1);
      ranks.Destroy(0);
      is_kept("comm_destroy");
    }
    t.Require(t.machine().Call<&Ops::context_exit>(
                  static_cast<const devrt_context*>(&previous)),
              "context_exit");
  }
}

constexpr TestCase kTests[] = {
    {"collectives.info", "K-C9", "The engine says what it is.", &Info},
    {"collectives.split", "K-C8",
     "comm_split makes communicators by color, in the order of key and rank.",
     &SplitByColorAndKey},
    {"collectives.rank_that_never_comes", "K-C9",
     "A communicator that lacks a rank is PENDING, and can be destroyed.",
     &ARankThatNeverComes},
    {"collectives.wrong_begins", "K-C9",
     "A rank or an id that cannot exist is refused.", &WrongBegins},
    {"collectives.finish_waits", "K-C16",
     "comm_finish is PENDING until the operations of all ranks are complete.",
     &FinishWaits, 0, kNeedsGate},
    {"collectives.many_lives", "K-C16",
     "After 100 communicators memory and threads are as before.", &ManyLives},
    {"collectives.keeps_the_current_device", "K-C18",
     "No function changes the current device, also where it fails.",
     &KeepsTheCurrentDevice, 0, kTwoDevices},
};

}  // namespace
}  // namespace collectives_life_tests

absl::Span<const TestCase> CollectivesLifeTests() {
  return collectives_life_tests::kTests;
}

}  // namespace devrt::cts
