// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace fill_tests {
namespace {

// True if `bytes` are `value` in [begin, end) and `around` elsewhere.
bool IsStripe(const std::vector<uint8_t>& bytes, uint64_t begin, uint64_t end,
              uint8_t value, uint8_t around) {
  for (uint64_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != (i >= begin && i < end ? value : around)) return false;
  }
  return true;
}

void EveryByte(Test& t) {
  constexpr uint64_t kSizes[] = {1,  2,  3,   4,    5,    7,    8,
                                 15, 16, 17,  31,   32,   33,   64,
                                 65, 99, 255, 1000, 4095, 4096, 65537};
  constexpr uint64_t kLead = 64, kTail = 64;
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kLead + 65537 + kTail);
    const RawStream s(t, device);
    uint8_t value = 0x11;
    for (const uint64_t size : kSizes) {
      const uint64_t begin = kLead - size % 5;
      s.Fill(x.ptr(), 0xee, x.size());
      s.Fill(x.ptr() + begin, value, size);
      s.Sync();
      t.Expect(
          IsStripe(x.Read(), begin, begin + size, value, 0xee),
          absl::StrCat("a fill of ", size, " bytes at offset ", begin, " with ",
                       value, " sets these bytes and no others"));
      value = static_cast<uint8_t>(value * 3 + 0x41);
    }
  }
}

void LargeBlock(Test& t) {
  const DeviceBlock x(t, t.device(), (4u << 20) + 5);
  const RawStream s(t, t.device());
  s.Fill(x.ptr(), 0xa7, x.size());
  s.Fill(x.ptr() + 1, 0x5c, x.size() - 2);
  s.Sync();
  const std::vector<uint8_t> bytes = x.Read();
  t.Expect(IsStripe(bytes, 1, bytes.size() - 1, 0x5c, 0xa7),
           "a fill of 4 MiB sets all bytes but the first and the last");
}

void LowByteOnly(Test& t) {
  const DeviceBlock x(t, t.device(), 100);
  const RawStream s(t, t.device());
  for (const uint32_t value : {0x000000abu, 0x1234abcdu, 0xffffff00u}) {
    t.Require(
        t.machine().Call<&devrt_ops_v0::fill_async>(
            s.handle(), static_cast<void*>(x.ptr()), value, uint64_t{100}),
        "fill");
    s.Sync();
    t.Expect(x.Holds(static_cast<uint8_t>(value)),
             absl::StrCat("a fill with ", value, " sets its low byte"));
  }
}

void IsAsynchronous(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 5000);
    const RawStream s(t, t.device());
    const Reader reader(t, t.device(), x.size());
    Gate gate(t);
    gate.Hold(s);
    s.Fill(x.ptr(), 9, x.size());
    t.Settle();
    t.Expect(!s.Query(), "a fill behind a held stream is not complete");
    t.Expect(reader.Holds(x.ptr(), 0),
             "a fill behind a held stream has not happened");
    gate.Open();
    s.Sync();
    t.Expect(x.Holds(9), "it has happened when the stream is complete");
  });
}

void InStreamOrder(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 3000), y(t, t.device(), 3000);
    const HostBlock a(t, t.device(), 3000), b(t, t.device(), 3000);
    const RawStream s(t, t.device());
    s.Delay(100'000);
    s.Fill(x.ptr(), 1, x.size());
    s.Copy(a.ptr(), x.ptr(), x.size(), DEVRT_COPY_D2H);
    s.Fill(x.ptr(), 2, x.size());
    s.Copy(y.ptr(), x.ptr(), x.size(), DEVRT_COPY_D2D);
    s.Fill(x.ptr(), 3, x.size());
    s.Copy(b.ptr(), y.ptr(), x.size(), DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(a.Holds(1), "a copy sees the fill before it");
    t.Expect(b.Holds(2), "and not the one behind it");
    t.Expect(x.Holds(3), "the last fill stays");
  });
}

void OnDefaultStreams(Test& t) {
  const DeviceBlock x(t, t.device(), 300);
  uint8_t value = 1;
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    const RawStream s = RawStream::Default(t, t.device(), kind);
    s.Fill(x.ptr(), ++value, x.size());
    s.Sync();
    t.Expect(x.Holds(value), "a default stream fills");
  }
}

void RefusesOtherMemory(Test& t) {
  const Device device = t.cpp_device();
  const CoreBlock x(t, device, 1000);
  const Stream s = t.Require(Stream::Create(device), "Stream::Create");
  for (const CoreHost::Kind kind : CoreHost::Kinds(t)) {
    const CoreHost host(t, device, 100, kind);
    t.Code(FillAsync(s, host.ptr(), 5, 100), DEVRT_INVALID_ARGUMENT,
           absl::StrCat("a fill of ", CoreHost::Name(kind), " memory"));
    t.Expect(host.Holds(0), "it has changed nothing");
  }
  t.Code(FillAsync(s, nullptr, 5, 1), DEVRT_INVALID_ARGUMENT, "a fill of null");
  t.Code(FillAsync(s, x.ptr() + 1, 5, 1000), DEVRT_INVALID_ARGUMENT,
         "a fill that leaves its block");
  t.Code(FillAsync(s, x.ptr(), 5, UINT64_MAX), DEVRT_INVALID_ARGUMENT,
         "a fill beyond the address space");
  t.Ok(s.Synchronize(), "the stream works");
  t.Expect(x.Holds(0), "nothing was filled");
}

// Through the table, without the checks of the core: a backend that knows its
// blocks refuses other addresses.
void RefusesPageable(Test& t) {
  std::vector<uint8_t> host(5000, 1);
  const RawStream s(t, t.device());
  t.Code(t.machine().Call<&devrt_ops_v0::fill_async>(
             s.handle(), static_cast<void*>(host.data()), 5u, uint64_t{5000}),
         DEVRT_INVALID_ARGUMENT, "a fill of pageable memory");
  s.Sync();
  t.Expect(host == std::vector<uint8_t>(5000, 1), "nothing was filled");
}

void RefusesOtherDevices(Test& t) {
  const CoreBlock x(t, t.cpp_device(1), 1000);
  const Stream s = t.Require(Stream::Create(t.cpp_device(0)), "Stream::Create");
  t.Code(FillAsync(s, x.ptr(), 5, 10), DEVRT_INVALID_ARGUMENT,
         "a fill of another device's memory without peer access",
         t.cpp_device(1).name());
  t.Ok(s.Synchronize(), "the stream works");
  t.Expect(x.Holds(0), "nothing was filled");
}

constexpr TestCase kTests[] = {
    {"fill.sets_every_byte_and_no_other", "C47",
     "A fill sets every byte of its range to the value, and no other.",
     &EveryByte},
    {"fill.large_block", "C47",
     "A fill of megabytes sets every byte of its range, and no other.",
     &LargeBlock},
    {"fill.takes_the_low_byte", "C47", "The value of a fill is a byte.",
     &LowByteOnly},
    {"fill.is_asynchronous", "C47",
     "A fill is asynchronous to the host: the call returns while the stream is "
     "busy, and the fill happens later.",
     &IsAsynchronous, 0, kNeedsGate},
    {"fill.is_stream_ordered", "C47 C6",
     "A fill is stream-ordered among copies and other fills.", &InStreamOrder},
    {"fill.on_default_streams", "C47", "Default streams fill, too.",
     &OnDefaultStreams},
    {"fill.refuses_host_memory", "C47",
     "Pageable and pinned memory, null and ranges that leave their block are "
     "INVALID_ARGUMENT.",
     &RefusesOtherMemory},
    {"fill.refuses_pageable_memory", "C47",
     "A backend that knows its blocks refuses pageable memory.",
     &RefusesPageable, DEVRT_CAP_POINTER_INFO},
    {"fill.refuses_other_devices", "C47",
     "Memory of another device without peer access is INVALID_ARGUMENT.",
     &RefusesOtherDevices, 0, kTwoDevices},
};

}  // namespace
}  // namespace fill_tests

absl::Span<const TestCase> FillTests() { return fill_tests::kTests; }

}  // namespace devrt::cts
