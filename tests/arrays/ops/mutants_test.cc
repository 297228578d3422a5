// SPDX-License-Identifier: Apache-2.0
//
// Operations that do not say what they read or write, and the programs that
// show it.  tests/mutation/planted/table/arrays_ops.py has the defects.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "ops_mutants.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {

Mutant g_mutant = Mutant::kNone;

namespace {

class OperationMutants : public ArraysTest {};

Array Filled(float value) {
  const std::vector<float> values(6, value);
  const Array array =
      Must(Array::FromHost(values.data(), {6}, kFloat32, MtiaTest::dev()));
  Must(array.Ready());
  return array;
}

bool IsAll(const Array& array, float value) {
  const Array host = Must(array.To(Place::Host()));
  for (int64_t i = 0; i < host.size(); ++i) {
    if (host.data_as<float>()[i] != value) return false;
  }
  return true;
}

// Each is right if all joins are there.
bool OperandIsWrittenLate() {
  const Array x = Filled(0);
  const Array four = Filled(4);
  const Stream late = MtiaTest::NewStream();
  const Stream now = MtiaTest::NewStream();
  Must(Spin(late, kLong));
  CopyOptions options;
  options.stream = late;
  Must(CopyArray(x, four, options));
  const StreamGuard on(now);
  return IsAll(Must(Mul(x, x)), 16);
}

bool OperandIsReadLate() {
  const Array x = Filled(2);
  const Array y = Filled(0);
  const Array four = Filled(4);
  const Stream late = MtiaTest::NewStream();
  const Stream now = MtiaTest::NewStream();
  {
    const StreamGuard on(late);
    Must(Spin(late, kLong));
    Must(ApplyInto(BinaryOp::kMul, y, x, x));
  }
  CopyOptions options;
  options.stream = now;
  Must(CopyArray(x, four, options));
  return IsAll(y, 4);
}

bool ResultIsLate() {
  const Array x = Filled(3);
  const Array y = Filled(0);
  const Stream late = MtiaTest::NewStream();
  const Stream now = MtiaTest::NewStream();
  {
    const StreamGuard on(late);
    Must(Spin(late, kLong));
    Must(ApplyInto(BinaryOp::kMul, y, x, x));
  }
  const StreamGuard on(now);
  return IsAll(y, 9);
}

bool ReducedIsWrittenLate() {
  const Array x = Filled(0);
  const Array four = Filled(4);
  const Stream late = MtiaTest::NewStream();
  const Stream now = MtiaTest::NewStream();
  Must(Spin(late, kLong));
  CopyOptions options;
  options.stream = late;
  Must(CopyArray(x, four, options));
  const StreamGuard on(now);
  return IsAll(Must(Sum(x)), 24);
}

bool IsRight(const std::string& program) {
  static const auto* const programs = new std::map<std::string, bool (*)()>{
      {"OperandIsWrittenLate", &OperandIsWrittenLate},
      {"OperandIsReadLate", &OperandIsReadLate},
      {"ResultIsLate", &ResultIsLate},
      {"ReducedIsWrittenLate", &ReducedIsWrittenLate},
  };
  return programs->at(program)();
}

void GiveUp() {
  for (int i = 0; i < MtiaTest::kDevices; ++i) {
    Must(MtiaTest::dev(i).Synchronize());
    Must(EmptyCache(MtiaTest::dev(i)));
  }
}

bool IsCaught(const Kill& kill) {
  bool caught = false;
  for (const char* strategy : {"hw", "alap", "lifo", "asap"}) {
    MtiaTest::Reset(std::string("strategy=") + strategy);
    g_mutant = kill.mutant;
    caught = caught || !IsRight(kill.program);
    g_mutant = Mutant::kNone;
    GiveUp();
  }
  return caught;
}

TEST_F(OperationMutants, EachIsCaught) {
  for (const Kill& kill : kKills) {
    EXPECT_TRUE(IsCaught(kill)) << kill.name << " by " << kill.program;
  }
}

TEST_F(OperationMutants, NoneIsRightInEverySchedule) {
  for (const Kill& kill : kKills) {
    InEverySchedule([&] {
      EXPECT_TRUE(IsRight(kill.program)) << kill.name << " by " << kill.program;
      GiveUp();
    });
  }
}

}  // namespace
}  // namespace devrt::testing
