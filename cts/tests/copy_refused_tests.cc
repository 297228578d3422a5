// SPDX-License-Identifier: Apache-2.0
//
// Copies that the core refuses, and copies that it completes without a plugin.
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace copy_refused_tests {
namespace {

using Kind = CoreHost::Kind;

// One side of a copy: device memory, or host memory of some kind.
struct Side {
  const char* name;
  bool on_device;
  uint8_t* ptr;
};

struct Sides {
  std::vector<CoreBlock> blocks;
  std::vector<CoreHost> hosts;
  std::vector<Side> all;

  Sides(Test& t, uint64_t size) {
    blocks.emplace_back(t, t.cpp_device(), size);
    all.push_back({"device", true, blocks[0].ptr()});
    for (const Kind kind : CoreHost::Kinds(t)) {
      hosts.emplace_back(t, t.cpp_device(), size, kind);
      all.push_back({CoreHost::Name(kind), false, hosts.back().ptr()});
    }
  }
};

CopyKind KindOf(const Side& dst, const Side& src) {
  if (dst.on_device) {
    return src.on_device ? CopyKind::kDeviceToDevice : CopyKind::kHostToDevice;
  }
  return src.on_device ? CopyKind::kDeviceToHost : CopyKind::kHostToHost;
}

void EveryKind(Test& t) {
  Sides to(t, 100), from(t, 100);
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
  for (const Side& dst : to.all) {
    for (const Side& src : from.all) {
      for (uint32_t kind = 0; kind <= 6; ++kind) {
        const auto given = static_cast<CopyKind>(kind);
        const bool right =
            given == CopyKind::kInfer || given == KindOf(dst, src);
        const std::string what =
            absl::StrCat("a copy of kind ", kind, " from ", src.name, " to ",
                         dst.name, " memory");
        for (const bool blocking : {true, false}) {
          const absl::Status status =
              blocking ? Copy(s, dst.ptr, src.ptr, 100, given)
                       : CopyAsync(s, dst.ptr, src.ptr, 100, given);
          if (right) {
            t.Ok(status, what);
          } else {
            t.Code(status, DEVRT_INVALID_ARGUMENT, what);
          }
        }
      }
    }
  }
  t.Ok(s.Synchronize(), "the stream works");
}

void WrongKindChangesNothing(Test& t) {
  const CoreBlock x(t, t.cpp_device(), 100), y(t, t.cpp_device(), 100);
  y.Write(std::vector<uint8_t>(100, 7));
  std::vector<uint8_t> host(100, 1);
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
  t.Code(Copy(s, host.data(), y.ptr(), 100, CopyKind::kHostToDevice),
         DEVRT_INVALID_ARGUMENT, "a copy D2H that is said to be H2D",
         "host to device");
  t.Code(Copy(s, x.ptr(), y.ptr(), 100, CopyKind::kHostToHost),
         DEVRT_INVALID_ARGUMENT, "a copy D2D that is said to be H2H");
  t.Ok(s.Synchronize(), "the stream works");
  t.Expect(host == std::vector<uint8_t>(100, 1), "the host's bytes stay");
  t.Expect(x.Holds(0), "the device's bytes stay");
  t.Expect(y.Holds(7), "the source's bytes stay");
}

void LeavesItsBlock(Test& t) {
  const CoreBlock x(t, t.cpp_device(), 1000);
  std::vector<uint8_t> host(2000, 1);
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
  const struct {
    uint64_t offset, size;
  } kRanges[] = {{0, 1001}, {1, 1000}, {999, 2}, {500, 1500}};
  for (const auto& range : kRanges) {
    const std::string what =
        absl::StrCat(range.size, " bytes at offset ", range.offset, " of 1000");
    t.Code(Copy(s, x.ptr() + range.offset, host.data(), range.size),
           DEVRT_INVALID_ARGUMENT, "a copy to " + what);
    t.Code(CopyAsync(s, host.data(), x.ptr() + range.offset, range.size),
           DEVRT_INVALID_ARGUMENT, "a copy from " + what);
  }
  t.Code(Copy(s, x.ptr(), host.data(), UINT64_MAX), DEVRT_INVALID_ARGUMENT,
         "a copy of 2^64 - 1 bytes");
  t.Code(Copy(s, nullptr, host.data(), 1), DEVRT_INVALID_ARGUMENT,
         "a copy to null");
  t.Code(Copy(s, x.ptr(), nullptr, 1), DEVRT_INVALID_ARGUMENT,
         "a copy from null");
  t.Ok(s.Synchronize(), "the stream works");
  t.Expect(x.Holds(0), "nothing was written");
  t.Ok(Copy(s, x.ptr() + 999, host.data(), 1), "a copy to the last byte");
}

void Overlapping(Test& t) {
  const CoreBlock x(t, t.cpp_device(), 1000);
  const std::vector<uint8_t> bytes = Pattern(1000, 3);
  x.Write(bytes);
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
  std::vector<uint8_t> host = bytes;
  const struct {
    uint64_t to, from;
  } kShifts[] = {{0, 1}, {1, 0}, {0, 0}, {99, 0}, {0, 99}};
  for (const auto& shift : kShifts) {
    const std::string what =
        absl::StrCat("100 bytes from offset ", shift.from, " to ", shift.to);
    t.Code(Copy(s, x.ptr() + shift.to, x.ptr() + shift.from, 100),
           DEVRT_INVALID_ARGUMENT, "a copy of " + what + " of a device block");
    t.Code(CopyAsync(s, host.data() + shift.to, host.data() + shift.from, 100),
           DEVRT_INVALID_ARGUMENT, "a copy of " + what + " of host memory");
  }
  t.Ok(s.Synchronize(), "the stream works");
  t.Expect(x.Read() == bytes && host == bytes, "nothing was written");
  t.Ok(Copy(s, x.ptr() + 100, x.ptr(), 100), "ranges side by side");
  t.Ok(Copy(s, host.data(), host.data() + 100, 100), "ranges side by side");
}

void ZeroBytes(Test& t) {
  const CoreBlock x(t, t.cpp_device(), 64);
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
  int stack = 0;
  void* const kPointers[] = {nullptr, &stack, x.ptr(),
                             reinterpret_cast<void*>(uintptr_t{16})};
  for (void* const dst : kPointers) {
    for (const void* const src : kPointers) {
      for (uint32_t kind = 0; kind <= 4; ++kind) {
        const auto given = static_cast<CopyKind>(kind);
        t.Ok(Copy(s, dst, src, 0, given), "a blocking copy of zero bytes");
        t.Ok(CopyAsync(s, dst, src, 0, given), "an async copy of zero bytes");
      }
    }
    t.Ok(FillAsync(s, dst, 1, 0), "a fill of zero bytes");
  }
  std::optional<Stream> gone(
      t.Require(Stream::Create(t.cpp_device()), "Stream::Create"));
  const StreamRef stale = *gone;
  gone.reset();
  t.Code(CopyAsync(stale, nullptr, nullptr, 0), DEVRT_INVALID_ARGUMENT,
         "handles are validated: a copy of zero bytes on a destroyed stream");
}

// The blocking form does not wait either, so it gives no order.
void ZeroBytesDoNotWait(Test& t) {
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "Stream::Create");
  int stack = 0;
  Gate gate(t);
  gate.Hold(s);
  t.Ok(Copy(s, &stack, nullptr, 0), "a blocking copy of zero bytes");
  t.Expect(!t.Require(s.Query(), "Query"),
           "it has returned while its stream is held");
}

constexpr TestCase kTests[] = {
    {"copy.wrong_kind_is_refused", "C55",
     "An explicit kind that contradicts the pointers is INVALID_ARGUMENT, all "
     "kinds against all pointers.",
     &EveryKind},
    {"copy.wrong_kind_changes_nothing", "C55",
     "A copy that is refused changes no byte.", &WrongKindChangesNothing},
    {"copy.past_a_block_is_refused", "C55",
     "Bytes past an allocation are INVALID_ARGUMENT.", &LeavesItsBlock},
    {"copy.overlap_is_refused", "C56",
     "Ranges that overlap are INVALID_ARGUMENT, identical ones, too.",
     &Overlapping},
    {"copy.zero_bytes_succeed", "C59",
     "Zero bytes succeed without a look at pointers and kind; handles are "
     "validated.",
     &ZeroBytes},
    {"copy.zero_bytes_order_nothing", "C59", "Zero bytes create no order.",
     &ZeroBytesDoNotWait, 0, kNeedsGate},
};

}  // namespace
}  // namespace copy_refused_tests

absl::Span<const TestCase> RefusedCopyTests() {
  return copy_refused_tests::kTests;
}

}  // namespace devrt::cts
