// SPDX-License-Identifier: Apache-2.0

#include "memory/device/address_map.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <random>
#include <thread>

namespace devrt::internal {
namespace {

const void* At(uintptr_t address) {
  return reinterpret_cast<const void*>(address);
}

Segment* New(uintptr_t base, uint64_t bytes) {
  return Segment::Make(nullptr, reinterpret_cast<void*>(base), bytes, true);
}

TEST(AddressMapTest, AgreesWithALinearSearch) {
  std::mt19937_64 random(3);
  auto map = std::make_unique<AddressMap>();
  std::map<uintptr_t, Segment*> naive;
  const auto find = [&naive](uintptr_t address) -> Segment* {
    auto after = naive.upper_bound(address);
    if (after == naive.begin()) return nullptr;
    Segment* s = std::prev(after)->second;
    return s->Holds(address) ? s : nullptr;
  };
  // Not at multiples of a window, so that windows have two segments.
  for (int step = 0; step < 3000; ++step) {
    const uintptr_t base =
        (uintptr_t{0x7f00} << 32) + random() % 512 * (kMiB / 2);
    const uint64_t bytes = kSmallSegment + random() % 8 * (kMiB / 2);
    if (Segment* there = find(base); there != nullptr) {
      map->Remove(there);
      naive.erase(there->base.load());
      Segment::Recycle(there);
    } else {
      auto next = naive.lower_bound(base);
      if (next != naive.end() && next->first < base + bytes) continue;
      Segment* made = New(base, bytes);
      ASSERT_TRUE(map->Add(made));
      naive.emplace(base, made);
    }
    for (int look = 0; look < 16; ++look) {
      const uintptr_t address =
          (uintptr_t{0x7f00} << 32) + random() % (260 * kMiB);
      ASSERT_EQ(map->Find(At(address)), find(address));
    }
  }
  for (auto& [base, segment] : naive) {
    EXPECT_EQ(map->Find(At(base)), segment);
    EXPECT_EQ(map->Find(At(base + segment->bytes() - 1)), segment);
    map->Remove(segment);
    EXPECT_EQ(map->Find(At(base)), nullptr);
    Segment::Recycle(segment);
  }
}

TEST(AddressMapTest, AddressesBeyond48Bits) {
  auto map = std::make_unique<AddressMap>();
  const uintptr_t far = uintptr_t{1} << 56;
  Segment* segment = New(far, kSmallSegment);
  ASSERT_TRUE(map->Add(segment));
  EXPECT_EQ(map->Find(At(far)), segment);
  EXPECT_EQ(map->Find(At(far + kSmallSegment - 1)), segment);
  EXPECT_EQ(map->Find(At(far + kSmallSegment)), nullptr);
  EXPECT_EQ(map->Find(At(far - 1)), nullptr);
  map->Remove(segment);
  EXPECT_EQ(map->Find(At(far)), nullptr);
  Segment::Recycle(segment);
}

TEST(AddressMapTest, RefusesAThirdInAWindow) {
  auto map = std::make_unique<AddressMap>();
  Segment* segments[3];
  for (Segment*& s : segments) s = New(uintptr_t{1} << 40, kSmallSegment);
  EXPECT_TRUE(map->Add(segments[0]));
  EXPECT_TRUE(map->Add(segments[1]));
  EXPECT_FALSE(map->Add(segments[2]));
  for (Segment* s : segments) Segment::Recycle(s);
}

// Segments come and go in the window of one that is looked up all the time.
TEST(AddressMapTest, LookUpsWhileNeighboursChange) {
  auto map = std::make_unique<AddressMap>();
  const uintptr_t base = (uintptr_t{1} << 40) + kMiB;
  Segment* kept = New(base, kSmallSegment);
  ASSERT_TRUE(map->Add(kept));
  std::atomic<bool> stop{false};
  std::thread changes([&] {
    for (int i = 0; i < 2000; ++i) {
      Segment* s = New(base + kSmallSegment, kSmallSegment);
      map->Add(s);
      map->Remove(s);
      Segment::Recycle(s);
    }
    stop = true;
  });
  while (!stop) {
    ASSERT_EQ(map->Find(At(base)), kept);
    ASSERT_EQ(map->Find(At(base + kSmallSegment - 1)), kept);
    map->Find(At(base + kSmallSegment));
  }
  changes.join();
  map->Remove(kept);
  Segment::Recycle(kept);
}

TEST(SegmentTest, InteriorPointersFindTheirBlock) {
  Segment* small = New(uintptr_t{1} << 40, kSmallSegment);
  Segment* large = Segment::Make(
      nullptr, reinterpret_cast<void*>(uintptr_t{1} << 41), 20 * kMiB, false);
  for (Segment* s : {small, large}) {
    const uint32_t end = static_cast<uint32_t>(s->bytes() / kGranule);
    // Beginnings that are multiples of nothing.
    std::vector<uint32_t> begins = {0, s->small ? 1u : 2049u};
    while (begins.back() + (s->small ? 700u : 2500u) < end) {
      begins.push_back(begins.back() + (s->small ? 313u : 2049u));
    }
    for (size_t i = 0; i < begins.size(); ++i) {
      Block* b = s->Begin(begins[i]);
      b->use = BlockUse::kLive;
      b->size = (i + 1 < begins.size() ? begins[i + 1] : end) - begins[i];
    }
    size_t block = 0;
    for (uint32_t at = 0; at < end; ++at) {
      if (block + 1 < begins.size() && at >= begins[block + 1]) ++block;
      const uintptr_t address = s->base.load() + uint64_t{at} * kGranule;
      const Block* found = s->Find(address + 511);
      ASSERT_NE(found, nullptr);
      ASSERT_EQ(found->offset, begins[block]);
      EXPECT_EQ(s->Beginning(address) != nullptr, at == begins[block]);
    }
    Segment::Recycle(s);
  }
}

TEST(SegmentTest, SitesComeBackAsTheyWent) {
  const CallSite here = CallSite::Here();
  EXPECT_EQ(UnpackSite(PackSite(here)).file, here.file);
  EXPECT_EQ(UnpackSite(PackSite(here)).line, here.line);
  EXPECT_EQ(UnpackSite(PackSite({here.file, 1 << 20})).line, 0xffff);
  EXPECT_EQ(UnpackSite(0).file, nullptr);
}

}  // namespace
}  // namespace devrt::internal
