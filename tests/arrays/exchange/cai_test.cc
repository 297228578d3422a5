// SPDX-License-Identifier: Apache-2.0
//
// FromCudaArrayInterface: the table of E47.  What is exported is
// tested over a fake of CUDA's driver (tests/fakes/cuda).

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/arrays/exchange/exchange_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

class Cai : public ExchangeTest {
 protected:
  // Two by three float64 in memory of mtia:1.
  CudaArrayInterface Good() {
    if (!memory_.has_value()) {
      memory_ = Must(Array::Empty({6}, kFloat64, Place(dev(1))));
    }
    CudaArrayInterface cai;
    cai.shape = {2, 3};
    cai.typestr = "<f8";
    cai.data = reinterpret_cast<uintptr_t>(memory_->data());
    return cai;
  }
  void TearDown() override {
    memory_.reset();
    ExchangeTest::TearDown();
  }
  std::optional<Array> memory_;
};

TEST_F(Cai, VersionsZeroToThreeAndBeyond) {
  for (const int64_t version : {0, 1, 2, 3, 4, 99}) {
    CudaArrayInterface cai = Good();
    cai.version = version;
    const Array x = Must(FromCudaArrayInterface(cai, nullptr));
    EXPECT_EQ(x.place(), Place(dev(1)));
    EXPECT_EQ(x.dtype(), kFloat64);
    EXPECT_TRUE(x.IsContiguous());
  }
}

TEST_F(Cai, EveryDtypeWithATypeString) {
  for (const DType dtype : DType::All()) {
    if (dtype.typestr() == nullptr) continue;
    CudaArrayInterface cai = Good();
    cai.shape = {1};
    cai.typestr = dtype.typestr();
    EXPECT_EQ(Must(FromCudaArrayInterface(cai, nullptr)).dtype(), dtype);
  }
}

TEST_F(Cai, StridesAreBytesAndReadOnlyIsKept) {
  CudaArrayInterface cai = Good();
  cai.strides = Dims{8, 16};
  cai.read_only = true;
  const Array x = Must(FromCudaArrayInterface(cai, nullptr));
  EXPECT_EQ(x.strides()[1], 16);
  EXPECT_TRUE(x.read_only());
}

TEST_F(Cai, EmptyArraysAreOfTheCurrentDevice) {
  CudaArrayInterface cai;
  cai.shape = {0, 3};
  cai.typestr = "<f4";
  EXPECT_EQ(Must(FromCudaArrayInterface(cai, nullptr)).size(), 0);
}

TEST_F(Cai, CopyHappensOnlyIfAllowed) {
  CudaArrayImport how;
  how.place = Place::Host();
  how.copy = false;
  EXPECT_EQ(
      GetExchangeError(FromCudaArrayInterface(Good(), nullptr, how).status()),
      ExchangeError::kCopyRequired);
  how.copy.reset();
  EXPECT_EQ(Must(FromCudaArrayInterface(Good(), nullptr, how)).place(),
            Place::Host());
}

class CaiErrors : public Cai {
 protected:
  using C = CudaArrayInterface;
  struct Case {
    const char* name;
    std::function<void(C*)> spoil;
  };
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

  // Expects that devrt refuses the interface and keeps no owner.
  void ExpectRefused(const std::vector<Case>& cases, ExchangeError error) {
    for (const Case& bad : cases) {
      C cai = Good();
      bad.spoil(&cai);
      auto owner = std::make_shared<int>(0);
      const auto x = FromCudaArrayInterface(cai, owner);
      ASSERT_FALSE(x.ok()) << bad.name;
      EXPECT_EQ(absl::IsInvalidArgument(x.status()),
                error == ExchangeError::kNone)
          << bad.name << ": " << x.status();
      EXPECT_EQ(GetExchangeError(x.status()), error) << bad.name;
      EXPECT_EQ(owner.use_count(), 1) << bad.name;
    }
  }
};

TEST_F(CaiErrors, MalformedInterfacesAreInvalidArguments) {
  const std::vector<Case> cases = {
      {"typestr empty", [](C* c) { c->typestr = ""; }},
      {"typestr f8", [](C* c) { c->typestr = "f8"; }},
      {"typestr <f", [](C* c) { c->typestr = "<f"; }},
      {"typestr <f8x", [](C* c) { c->typestr = "<f8x"; }},
      {"unit of <f8", [](C* c) { c->typestr = "<f8[s]"; }},
      {"unit unended", [](C* c) { c->typestr = "<M8[s"; }},
      {"extent -1", [](C* c) { c->shape[0] = -1; }},
      {"strides short", [](C* c) { c->strides = Dims{8}; }},
      {"version -1", [](C* c) { c->version = -1; }},
      {"stream -1", [](C* c) { c->stream = -1; }},
      {"address 0", [](C* c) { c->data = 0; }},
  };
  ExpectRefused(cases, ExchangeError::kNone);
}

TEST_F(CaiErrors, UnsupportedArraysAreBufferErrors) {
  const std::vector<Case> cases = {
      {"mask", [](C* c) { c->has_mask = true; }},
      {"big-endian", [](C* c) { c->typestr = ">f8"; }},
      {"structured", [](C* c) { c->has_descr = true; }},
      {"bf16 as V2", [](C* c) { c->typestr = "<V2"; }},
      {"string", [](C* c) { c->typestr = "|S8"; }},
      {"float128", [](C* c) { c->typestr = "<f16"; }},
      {"time", [](C* c) { c->typestr = "<M8[ns]"; }},
      {"odd stride",
       [](C* c) {
         c->strides = Dims{24, 4};
       }},
      {"span",
       [](C* c) {
         c->strides = Dims{kMost - 7, 8};
       }},
      {"too large",
       [](C* c) {
         c->shape = {kMost, kMost};
       }},
      {"33 axes", [](C* c) { c->shape.assign(33, 1); }},
      {"beyond its block",
       [](C* c) {
         c->shape = {2, 4000};
       }},
      {"below its block",
       [](C* c) {
         c->strides = Dims{-4096, 8};
       }},
      {"unknown address", [](C* c) { c->data = 0x10; }},
      {"host memory", [](C* c) { c->data = reinterpret_cast<uintptr_t>(c); }},
  };
  ExpectRefused(cases, ExchangeError::kBuffer);
}

TEST_F(CaiErrors, UnknownAddressIsInTheMessage) {
  CudaArrayInterface cai = Good();
  cai.data = 0x10;
  EXPECT_THAT(MessageOf(FromCudaArrayInterface(cai, nullptr).status()),
              HasSubstr("address 0x10:"));
}

// E13
TEST_F(Cai, IsNotOfferedByMtia) {
  const Array x = NewCell(dev(), 1);
  const auto cai = ToCudaArrayInterface(x);
  EXPECT_EQ(GetExchangeError(cai.status()), ExchangeError::kNotOffered);
  EXPECT_THAT(MessageOf(cai.status()), HasSubstr("mtia:0"));
}

// E16
TEST_F(Cai, TheSimulatorsStreamsAreAdoptedByNumber) {
  Stream theirs = NewStream(dev(2));
  AdoptOptions how;
  how.backend = "mtia";
  EXPECT_EQ(Must(AdoptNativeStream(Handle(theirs), how)).ref().device(),
            dev(2));
  how.device = dev(1);
  EXPECT_STATUS(AdoptNativeStream(Handle(theirs), how), kInvalidArgument, "");
  EXPECT_STATUS(GetCudaStream(theirs), kUnimplemented, "__cuda_stream__");
}

}  // namespace
}  // namespace devrt::testing
