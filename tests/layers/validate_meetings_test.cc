// SPDX-License-Identifier: Apache-2.0
//
// The order that collectives make, in the Validator without a backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_tensor.h"
#include "layers/validate/validator.h"

namespace devrt::race {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kBlockSize = 64;

template <typename Handle>
Handle AsHandle(uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}

// Ranks with a stream each, and a block that all of them can use.
struct Ranks {
  std::vector<std::string> texts;
  Findings findings{[this](const std::string& text) { texts.push_back(text); }};
  Validator validator{&findings, false, {}};
  DeviceKey device = validator.AddBackend("fake", true);
  std::vector<devrt_stream> streams;
  std::vector<devrt_comm> comms;
  char block[kBlockSize] = {};
  char in[4][kBlockSize] = {};
  char out[4][kBlockSize] = {};

  explicit Ranks(uint32_t count, bool begin = true) {
    for (uint32_t r = 0; r < count; ++r) {
      streams.push_back(AsHandle<devrt_stream>(16 * (r + 1)));
      validator.AddStream(device, streams[r], StreamKind::kNonBlocking,
                          AsHandle<void*>(16 * (r + 1)), false);
      comms.push_back(AsHandle<devrt_comm>(1000 + r));
      if (begin) validator.BeginComm(device, comms[r], "id", 2, count, r);
    }
  }
  void Use(uint32_t rank, Mode mode) {
    Caller caller;
    caller.name = "work";
    validator.Enqueue(caller, streams[rank],
                      {{reinterpret_cast<uint64_t>(block), kBlockSize, mode}});
  }
  void Write(uint32_t rank) { Use(rank, Mode::kWrite); }
  void Read(uint32_t rank) { Use(rank, Mode::kRead); }
  devrt_collective_v0 Op(uint32_t op, uint32_t rank, int32_t root = 0) {
    devrt_collective_v0 call = {};
    call.struct_size = sizeof call;
    call.op = op;
    call.dtype = DEVRT_INT8;
    call.count = 4;
    call.root_or_peer = root;
    call.src = in[rank];
    call.dst = out[rank];
    return call;
  }
  std::vector<Collectives> Group(uint32_t rank,
                                 std::vector<devrt_collective_v0> calls,
                                 devrt_comm comm = nullptr) {
    std::vector<Collectives> group(1);
    group[0].comm = comm != nullptr ? comm : comms[rank];
    group[0].stream = streams[rank];
    group[0].calls = std::move(calls);
    return group;
  }
  void Submit(uint32_t rank, std::vector<devrt_collective_v0> calls,
              devrt_comm comm = nullptr) {
    std::vector<Collectives> group = Group(rank, std::move(calls), comm);
    validator.EnqueueGroup({Caller()}, &group);
    validator.EndGroup(group);
  }
  // The backend refuses it.
  void Refuse(std::vector<Collectives> group) {
    validator.EnqueueGroup(std::vector<Caller>(group.size()), &group);
    validator.RetractGroup(group);
  }
  // The backend makes the child.
  void Split(uint32_t rank, int32_t color, int32_t key, devrt_comm child) {
    validator.EndChild(validator.SplitComm(comms[rank], color, key), child,
                       true);
  }
  void Shrink(uint32_t rank, const std::vector<uint32_t>& gone,
              devrt_comm child) {
    validator.EndChild(validator.ShrinkComm(comms[rank], gone.data(),
                                            static_cast<uint32_t>(gone.size())),
                       child, true);
  }
  // The communicators of ranks 0 and 1 meet, and what they order is known.
  void ExpectToMeet(devrt_comm first, devrt_comm second) {
    Write(0);
    Submit(0, {Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)}, first);
    Submit(1, {Op(DEVRT_COLLECTIVE_ALL_REDUCE, 1)}, second);
    Read(1);
    EXPECT_THAT(texts, IsEmpty());
    Write(0);  // not ordered, which is certain
    EXPECT_THAT(texts, SizeIs(1));
  }
  void Barrier(uint32_t rank) {
    Submit(rank, {Op(DEVRT_COLLECTIVE_ALL_REDUCE, rank)});
  }
};

// Work before any rank's part comes before what follows on every rank, in
// whatever order the calls are made.
TEST(ValidateMeetings, WhatComesBeforeAnyPartComesBeforeWhatFollows) {
  for (const bool reader_first : {false, true}) {
    Ranks r(3);
    if (reader_first) {
      r.Barrier(1);
      r.Read(1);
      r.Write(0);
      r.Barrier(0);
    } else {
      r.Write(0);
      r.Barrier(0);
      r.Barrier(1);
      r.Read(1);
    }
    r.Barrier(2);
    EXPECT_THAT(r.texts, IsEmpty());
  }
}

TEST(ValidateMeetings, WhatComesBehindThePartIsNotOrdered) {
  for (const bool reader_first : {false, true}) {
    Ranks r(2);
    if (reader_first) {
      r.Barrier(1);
      r.Read(1);
      r.Barrier(0);
      r.Write(0);
    } else {
      r.Barrier(0);
      r.Write(0);
      r.Barrier(1);
      r.Read(1);
    }
    EXPECT_THAT(r.texts, SizeIs(1));
  }
}

// A rank that does not call may still order the two.
TEST(ValidateMeetings, WhileARankIsMissingNothingIsReported) {
  Ranks r(3);
  r.Barrier(1);
  r.Read(1);
  r.Barrier(0);
  r.Write(0);
  EXPECT_THAT(r.texts, IsEmpty());
  r.Barrier(2);
  EXPECT_THAT(r.texts, SizeIs(1));
}

TEST(ValidateMeetings, RootsAndPeers) {
  struct Case {
    uint32_t op;
    bool from_first;   // rank 0 before rank 1
    bool from_second;  // rank 1 before rank 0
  };
  constexpr Case kCases[] = {
      {DEVRT_COLLECTIVE_ALL_REDUCE, true, true},
      {DEVRT_COLLECTIVE_ALL_GATHER, true, true},
      {DEVRT_COLLECTIVE_REDUCE_SCATTER, true, true},
      {DEVRT_COLLECTIVE_ALL_TO_ALL, true, true},
      {DEVRT_COLLECTIVE_BROADCAST, true, false},
      {DEVRT_COLLECTIVE_SCATTER, true, false},
      {DEVRT_COLLECTIVE_REDUCE, false, true},
      {DEVRT_COLLECTIVE_GATHER, false, true},
  };
  for (const Case& c : kCases) {
    for (const uint32_t writer : {0u, 1u}) {
      SCOPED_TRACE(std::to_string(c.op) + " " + std::to_string(writer));
      Ranks r(2);
      r.Write(writer);
      for (const uint32_t rank : {0u, 1u}) r.Submit(rank, {r.Op(c.op, rank)});
      r.Read(1 - writer);
      const bool is_ordered = writer == 0 ? c.from_first : c.from_second;
      EXPECT_THAT(r.texts, SizeIs(is_ordered ? 0 : 1));
    }
  }
  for (const uint32_t writer : {0u, 1u}) {
    Ranks r(2);
    r.Write(writer);
    r.Submit(0, {r.Op(DEVRT_COLLECTIVE_SEND, 0, 1)});
    r.Submit(1, {r.Op(DEVRT_COLLECTIVE_RECV, 1, 0)});
    r.Read(1 - writer);
    EXPECT_THAT(r.texts, SizeIs(writer == 0 ? 0 : 1));
  }
}

TEST(ValidateMeetings, AGroupOrdersBothWays) {
  Ranks r(2);
  r.Write(1);
  for (const uint32_t rank : {0u, 1u}) {
    const auto peer = static_cast<int32_t>(1 - rank);
    r.Submit(rank, {r.Op(DEVRT_COLLECTIVE_RECV, rank, peer),
                    r.Op(DEVRT_COLLECTIVE_SEND, rank, peer)});
  }
  r.Read(0);
  EXPECT_THAT(r.texts, IsEmpty());
}

TEST(ValidateMeetings, ThePartUsesItsBuffers) {
  Ranks r(2);
  Caller caller;
  caller.name = "work";
  r.Barrier(0);
  r.Barrier(1);
  // Another stream than that of rank 0.
  r.validator.Enqueue(caller, r.streams[1],
                      {{reinterpret_cast<uint64_t>(r.in[0]), 4, Mode::kWrite}});
  EXPECT_THAT(r.texts, IsEmpty());  // the input was read before the meeting
  r.validator.Enqueue(caller, r.streams[1],
                      {{reinterpret_cast<uint64_t>(r.out[0]), 4, Mode::kRead}});
  ASSERT_THAT(r.texts, SizeIs(1));
  EXPECT_THAT(r.texts[0], HasSubstr("all_reduce"));
  // Behind the four bytes there is nothing of it.
  r.validator.Enqueue(
      caller, r.streams[1],
      {{reinterpret_cast<uint64_t>(r.out[0]) + 4, 4, Mode::kWrite}});
  EXPECT_THAT(r.texts, SizeIs(1));
}

// What a refused rank, the first or the last, does until its next try comes
// before what follows on the others.
TEST(ValidateMeetings, ARefusedGroupDoesNotCount) {
  for (const bool last : {false, true}) {
    for (const uint32_t op :
         {DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_COLLECTIVE_BROADCAST,
          DEVRT_COLLECTIVE_SEND}) {
      SCOPED_TRACE(std::to_string(op) + (last ? " last" : " first"));
      const bool is_pair = op == DEVRT_COLLECTIVE_SEND;
      Ranks r(2);
      const devrt_collective_v0 other =
          r.Op(is_pair ? DEVRT_COLLECTIVE_RECV : op, 1);
      if (last) {
        r.Submit(1, {other});
        r.Read(1);
      }
      r.Refuse(r.Group(0, {r.Op(op, 0, is_pair ? 1 : 0)}));
      r.Write(0);
      EXPECT_THAT(r.texts, IsEmpty());
      r.Submit(0, {r.Op(op, 0, is_pair ? 1 : 0)});
      if (!last) {
        r.Submit(1, {other});
        r.Read(1);
      }
      EXPECT_THAT(r.texts, IsEmpty());
      r.Read(1);
      r.Write(0);  // the flag is set, so this is a finding
      EXPECT_THAT(r.texts, SizeIs(1));
    }
  }
}

// While the backend has not accepted it, it may still be refused.
TEST(ValidateMeetings, AGroupCountsWhenItIsAccepted) {
  Ranks r(2);
  std::vector<Collectives> first =
      r.Group(0, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)});
  r.validator.EnqueueGroup({Caller()}, &first);
  r.Barrier(1);
  r.Read(1);
  r.validator.RetractGroup(first);
  r.Write(0);
  r.Barrier(0);
  EXPECT_THAT(r.texts, IsEmpty());
  r.Read(1);
  r.Write(0);
  EXPECT_THAT(r.texts, SizeIs(1));
}

TEST(ValidateMeetings, ARefusedGroupOfADeadStreamDoesNotCount) {
  Ranks r(2);
  std::vector<Collectives> dead =
      r.Group(0, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)});
  dead[0].stream = AsHandle<devrt_stream>(4096);
  r.Refuse(dead);
  r.ExpectToMeet(r.comms[0], r.comms[1]);
}

// The backend may know a stream that the layer does not know.
TEST(ValidateMeetings, AnAcceptedGroupOfAnUnknownStreamCounts) {
  Ranks r(2);
  std::vector<Collectives> unknown =
      r.Group(0, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)});
  unknown[0].stream = AsHandle<devrt_stream>(4096);
  r.Write(0);  // perhaps ordered before the unknown stream's part
  r.validator.EnqueueGroup({Caller()}, &unknown);
  r.validator.EndGroup(unknown);
  r.Barrier(1);
  r.Read(1);
  EXPECT_THAT(r.texts, IsEmpty());
  r.Write(1);
  r.Barrier(1);
  r.Barrier(0);
  r.Read(0);
  EXPECT_THAT(r.texts, IsEmpty());
}

TEST(ValidateMeetings, ARefusedGroupOfOneCommunicatorTwiceDoesNotCount) {
  Ranks r(2);
  std::vector<Collectives> twice =
      r.Group(0, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)});
  twice.push_back(twice[0]);
  twice[1].calls = {r.Op(DEVRT_COLLECTIVE_BROADCAST, 0),
                    r.Op(DEVRT_COLLECTIVE_SEND, 0, 1)};
  r.Refuse(twice);
  r.ExpectToMeet(r.comms[0], r.comms[1]);
}

TEST(ValidateMeetings, ChildrenHaveTheirOwnRanks) {
  Ranks r(3);
  // Ranks 2 and 0 in this order; rank 1 alone.
  std::vector<devrt_comm> children;
  const int32_t colors[] = {0, 1, 0};
  const int32_t keys[] = {9, 0, 1};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    children.push_back(AsHandle<devrt_comm>(2000 + rank));
    r.Split(rank, colors[rank], keys[rank], children[rank]);
  }
  r.Write(2);
  // Rank 2 of the parent is the root, rank 0 of the child.
  r.Submit(2, {r.Op(DEVRT_COLLECTIVE_BROADCAST, 2, 0)}, children[2]);
  r.Submit(0, {r.Op(DEVRT_COLLECTIVE_BROADCAST, 0, 0)}, children[0]);
  r.Read(0);
  EXPECT_THAT(r.texts, IsEmpty());
  for (const uint32_t rank : {0u, 1u}) {
    children[rank] = AsHandle<devrt_comm>(3000 + rank);
    r.Shrink(rank, {2}, children[rank]);
  }
  r.Write(0);
  r.Submit(0, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)}, children[0]);
  r.Submit(1, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 1)}, children[1]);
  r.Read(1);
  EXPECT_THAT(r.texts, IsEmpty());
}

TEST(ValidateMeetings, ARefusedSplitDoesNotCount) {
  Ranks r(3);
  for (const int32_t color : {5, -1}) {
    r.validator.EndChild(r.validator.SplitComm(r.comms[0], color, 0), nullptr,
                         false);
  }
  r.Split(0, 5, 0, AsHandle<devrt_comm>(2000));
  r.Split(1, 5, 0, AsHandle<devrt_comm>(2001));
  r.ExpectToMeet(AsHandle<devrt_comm>(2000), AsHandle<devrt_comm>(2001));
}

TEST(ValidateMeetings, ASplitWithoutAColorCounts) {
  Ranks r(2);
  r.Split(0, -1, 0, nullptr);
  r.Split(0, 5, 0, AsHandle<devrt_comm>(2000));
  r.Split(1, 5, 0, AsHandle<devrt_comm>(3000));  // alone in the first split
  r.Split(1, 5, 0, AsHandle<devrt_comm>(2001));
  r.ExpectToMeet(AsHandle<devrt_comm>(2000), AsHandle<devrt_comm>(2001));
}

TEST(ValidateMeetings, ARefusedShrinkDoesNotCount) {
  Ranks r(3);
  const uint32_t gone = 2;
  r.validator.EndChild(r.validator.ShrinkComm(r.comms[0], &gone, 1), nullptr,
                       false);
  // A rank that is named twice is gone once.
  r.Shrink(0, {2, 2}, AsHandle<devrt_comm>(2000));
  r.Shrink(1, {2}, AsHandle<devrt_comm>(2001));
  r.ExpectToMeet(AsHandle<devrt_comm>(2000), AsHandle<devrt_comm>(2001));
}

// A submission before the other ranks have called asks for the rank's number.
TEST(ValidateMeetings, TheRanksOfAChildAreThoseOfAllCalls) {
  Ranks r(2);
  const auto first = AsHandle<devrt_comm>(2000);
  const auto second = AsHandle<devrt_comm>(2001);
  r.Split(0, 0, 1, first);
  r.Refuse(r.Group(0, {r.Op(DEVRT_COLLECTIVE_ALL_REDUCE, 0)}, first));
  r.Split(1, 0, 0, second);
  // Rank 0 of the parent is rank 1 of the child, and the root.
  r.Write(0);
  r.Submit(0, {r.Op(DEVRT_COLLECTIVE_BROADCAST, 0, 1)}, first);
  r.Submit(1, {r.Op(DEVRT_COLLECTIVE_BROADCAST, 1, 1)}, second);
  r.Read(1);
  EXPECT_THAT(r.texts, IsEmpty());
  r.Write(0);
  EXPECT_THAT(r.texts, SizeIs(1));
}

TEST(ValidateMeetings, ARefusedDestroyKeepsTheCommunicator) {
  Ranks r(2);
  r.validator.EndComm(r.comms[0], r.validator.TakeComm(r.comms[0]), false);
  r.ExpectToMeet(r.comms[0], r.comms[1]);
}

// An unknown communicator, as of a backend without comm_begin, orders nothing
// and is no use.
TEST(ValidateMeetings, AnUnknownCommunicatorIsLeftOut) {
  Ranks r(2, /*begin=*/false);
  r.Barrier(0);
  r.Barrier(1);
  EXPECT_THAT(r.texts, IsEmpty());
}

TEST(ValidateMeetings, TheEndOfACommunicatorEndsItsFlags) {
  Ranks r(2);
  r.Barrier(1);
  r.Read(1);
  for (const devrt_comm comm : r.comms) {
    r.validator.EndComm(comm, r.validator.TakeComm(comm), true);
  }
  r.Write(0);  // what the part waited for is not known
  EXPECT_THAT(r.texts, IsEmpty());
}

}  // namespace
}  // namespace devrt::race
