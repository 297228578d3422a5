// SPDX-License-Identifier: Apache-2.0
//
// RandomProgram: collectives of the ranks of one thread, made from a seed, and
// a plain reference of what they compute (K-C19).
//
//   std::vector<Communicator> ranks =
//       MakeRanks(RandomProgram::RanksOf(seed, most));
//   RandomProgram(seed, &ranks).Run();  // fails the test where they differ
//
// A submission has operations of some ranks, or of all, as `Submissions` says:
// over NCCL a submission of some may block until the others have submitted,
// which one thread cannot.
//
// Threads: one.

#ifndef DEVRT_TESTS_COLLECTIVES_RANDOM_PROGRAM_H_
#define DEVRT_TESTS_COLLECTIVES_RANDOM_PROGRAM_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {

// Rounds of one operation over the ranks' arrays, each of which has `n * part`
// elements, on random streams and in random host order.
class RandomProgram {
  using Communicator = collectives::Communicator;
  using Group = collectives::Group;
  using Operation = collectives::Operation;
  using OpKind = collectives::OpKind;
  using Reduction = collectives::Reduction;
  using Values = std::vector<int64_t>;

 public:
  enum class Submissions { kOfSomeRanks, kOfAllRanks };

  // The number of ranks of the program: from 2 to `most`.
  static int RanksOf(uint64_t seed, int most) {
    std::mt19937_64 random(seed);
    return std::uniform_int_distribution<int>(2, most)(random);
  }

  // `ranks` outlives the program, and may run the next one.
  RandomProgram(uint64_t seed, std::vector<Communicator>* ranks,
                Submissions submissions = Submissions::kOfSomeRanks)
      : random_(seed),
        submissions_(submissions),
        n_(static_cast<int>(ranks->size())),
        ranks_(*ranks) {
    part_ = Number(0, 9) == 0 ? 0 : Number(1, 7);
    constexpr DType kDTypes[] = {kInt32, kInt8, kUInt8, kInt64, kFloat64};
    dtype_ = kDTypes[Number(0, 4)];
    for (int i = 0; i < n_; ++i) {
      Values values(n_ * part_);
      for (int64_t& value : values) value = Wrapped(Number(-4, 4));
      expected_.push_back(values);
      arrays_.push_back(Must(
          Must(Array::FromVector(values, ranks_[i].device())).Cast(dtype_)));
      streams_.push_back(Must(Stream::Create(ranks_[i].device())));
      streams_.push_back(Must(Stream::Create(ranks_[i].device())));
    }
  }

  void Run() {
    const int rounds = Number(1, 8);
    for (int round = 0; round < rounds && !::testing::Test::HasFailure();
         ++round) {
      OneRound();
    }
    for (int i = 0; i < n_; ++i) {
      const Array host = Must(arrays_[i].To(Place::Host(), kInt64));
      const int64_t* const data = host.data_as<int64_t>();
      EXPECT_EQ(Values(data, data + host.size()), expected_[i]) << "rank " << i;
    }
  }

 private:
  int Number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  int64_t total() const { return int64_t{n_} * part_; }
  Array Part(int rank, int part) const {
    return Must(arrays_[rank].SliceAxis(
        0, {int64_t{part} * part_, int64_t{part + 1} * part_}));
  }
  // Integers wrap, and float64 has these values exactly.
  int64_t Wrapped(int64_t value) const {
    if (dtype_ == kInt8) return static_cast<int8_t>(value);
    if (dtype_ == kUInt8) return static_cast<uint8_t>(value);
    if (dtype_ == kInt32) return static_cast<int32_t>(value);
    return value;
  }
  // Returns a reduction that the engine has.  A quotient or a product may have
  // no exact float64.
  Reduction AnyReduction() {
    while (dtype_ != kFloat64) {
      const auto any = static_cast<Reduction>(Number(0, 4));
      if (Must(ranks_[0].Supports(OpKind::kAllReduce, dtype_, any))) return any;
    }
    constexpr Reduction kExact[] = {Reduction::kSum, Reduction::kMin,
                                    Reduction::kMax};
    return kExact[Number(0, 2)];
  }
  int64_t Reduced(Reduction how, int64_t a, int64_t b) const {
    switch (how) {
      case Reduction::kMin:
        return std::min(a, b);
      case Reduction::kMax:
        return std::max(a, b);
      case Reduction::kProd:
        return Wrapped(static_cast<int64_t>(static_cast<uint64_t>(a) *
                                            static_cast<uint64_t>(b)));
      default:
        return Wrapped(static_cast<int64_t>(static_cast<uint64_t>(a) +
                                            static_cast<uint64_t>(b)));
    }
  }
  int64_t ReducedAt(Reduction how, const std::vector<Values>& all,
                    int64_t at) const {
    int64_t value = all[0][at];
    for (int i = 1; i < n_; ++i) value = Reduced(how, value, all[i][at]);
    return how == Reduction::kAvg ? value / n_ : value;
  }

  // Submits make(rank) of every rank: in groups, or one by one.
  template <typename Make>
  void Submit(Make make) {
    std::vector<int> order(n_);
    for (int i = 0; i < n_; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    Group group;
    for (const int i : order) {
      for (const Operation& operation : make(i)) {
        group.Add(ranks_[i], operation, streams_[2 * i + Number(0, 1)]);
      }
      if (Number(0, 2) != 0) continue;
      if (submissions_ == Submissions::kOfAllRanks) continue;
      EXPECT_OK(group.Submit());
    }
    EXPECT_OK(group.Submit());
  }

  void OneRound() {
    const Reduction how = AnyReduction();
    const int root = Number(0, n_ - 1);
    const std::vector<Values> before = expected_;
    const auto copy = [&](int to, int to_part, int from, int from_part) {
      std::copy_n(before[from].begin() + int64_t{from_part} * part_, part_,
                  expected_[to].begin() + int64_t{to_part} * part_);
    };
    switch (Number(0, 8)) {
      case 0:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::AllReduce(arrays_[i], arrays_[i], how)};
        });
        for (int64_t k = 0; k < total(); ++k) {
          const int64_t value = ReducedAt(how, before, k);
          for (Values& values : expected_) values[k] = value;
        }
        break;
      case 1:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::Reduce(arrays_[i], arrays_[i], how, root)};
        });
        for (int64_t k = 0; k < total(); ++k) {
          expected_[root][k] = ReducedAt(how, before, k);
        }
        break;
      case 2:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::Broadcast(arrays_[i], root)};
        });
        for (Values& values : expected_) values = before[root];
        break;
      case 3:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::AllGather(arrays_[i], Part(i, i))};
        });
        for (int i = 0; i < n_; ++i) {
          for (int k = 0; k < n_; ++k) copy(i, k, k, k);
        }
        break;
      case 4:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::ReduceScatter(Part(i, i), arrays_[i], how)};
        });
        for (int i = 0; i < n_; ++i) {
          for (int64_t k = int64_t{i} * part_; k < int64_t{i + 1} * part_;
               ++k) {
            expected_[i][k] = ReducedAt(how, before, k);
          }
        }
        break;
      case 5: {
        std::vector<Array> out;
        for (int i = 0; i < n_; ++i) {
          out.push_back(
              Must(Array::Empty({total()}, dtype_, ranks_[i].device())));
        }
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::AllToAll(out[i], arrays_[i])};
        });
        arrays_ = out;
        for (int i = 0; i < n_; ++i) {
          for (int k = 0; k < n_; ++k) copy(i, k, k, i);
        }
        break;
      }
      case 6:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::Gather(arrays_[i], Part(i, i), root)};
        });
        for (int k = 0; k < n_; ++k) copy(root, k, k, k);
        break;
      case 7:
        // A ring: in one submission of each rank.
        Submit([&](int i) -> std::vector<Operation> {
          const int right = (i + 1) % n_;
          const int left = (i + n_ - 1) % n_;
          std::vector<Operation> both = {collectives::Send(Part(i, 0), right),
                                         collectives::Recv(Part(i, 1), left)};
          if (i % 3 == 0) std::swap(both[0], both[1]);
          return both;
        });
        for (int i = 0; i < n_; ++i) copy(i, 1, (i + n_ - 1) % n_, 0);
        break;
      case 8:
        Submit([&](int i) -> std::vector<Operation> {
          return {collectives::Scatter(Part(i, i), arrays_[i], root)};
        });
        for (int i = 0; i < n_; ++i) copy(i, i, root, i);
        break;
    }
  }

  std::mt19937_64 random_;
  const Submissions submissions_;
  const int n_;
  std::vector<Communicator>& ranks_;
  int part_ = 0;
  DType dtype_ = kInt32;
  std::vector<Stream> streams_;  // two of each device
  std::vector<Array> arrays_;
  std::vector<Values> expected_;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_COLLECTIVES_RANDOM_PROGRAM_H_
