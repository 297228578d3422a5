// SPDX-License-Identifier: Apache-2.0
//
// CommTest: sixteen simulated devices, which are reset for each test, and
// communicators over them.
//
//   TEST_F(Order, OfAStream) {
//     std::vector<Communicator> ranks = MakeRanks(4);
//     ...
//   }
//
// Threads: the fixture belongs to the main thread.
#ifndef DEVRT_TESTS_COLLECTIVES_COLLECTIVES_FIXTURE_H_
#define DEVRT_TESTS_COLLECTIVES_COLLECTIVES_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {

using collectives::Communicator;
using collectives::Group;
using collectives::Operation;
using collectives::OpKind;
using collectives::Reduction;

// Spoils what one exchange, counted from 1, returns to the rank of this object.
class SpoiledBootstrap final : public collectives::Bootstrap {
 public:
  using Parts = absl::StatusOr<std::vector<std::string>>;
  SpoiledBootstrap(collectives::Bootstrap* of, int exchange,
                   std::function<void(Parts*)> spoil)
      : of_(of), left_(exchange), spoil_(std::move(spoil)) {}
  int rank() const override { return of_->rank(); }
  int size() const override { return of_->size(); }
  Parts AllGather(std::string mine, absl::Time deadline) override {
    Parts parts = of_->AllGather(std::move(mine), deadline);
    if (--left_ == 0 && spoil_ != nullptr) spoil_(&parts);
    return parts;
  }
  void GiveUp(std::string mine, absl::Time deadline) override {
    of_->GiveUp(std::move(mine), deadline);
  }

 private:
  collectives::Bootstrap* const of_;
  int left_;
  const std::function<void(Parts*)> spoil_;
};

class CommTest : public ::testing::Test {
 public:
  static constexpr int kDevices = 16;

  static Device dev(int index = 0);
  static std::vector<Device> devs(int count);
  static Simulator sim();
  // Restarts the machine.
  static void Reset(const std::string& config = "");

  // Options with a timeout.
  static collectives::Options After(absl::Duration timeout);
  // One process and one thread: rank i has device i.
  static std::vector<Communicator> MakeRanks(
      int count, const collectives::Options& options = {});
  // body(i) in a thread for each of `count` ranks, which has a bootstrap.
  static void InThreads(
      int count, const std::function<void(int, collectives::Bootstrap&)>& body);

  static Array Filled(int device, int64_t size, double value,
                      DType dtype = kInt32);
  static Array FromInts(int device, const std::vector<int32_t>& values);
  // The elements; waits for what writes them.
  static std::vector<int32_t> Ints(const Array& array);

 protected:
  void SetUp() override { Reset(); }
  void TearDown() override;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_COLLECTIVES_COLLECTIVES_FIXTURE_H_
