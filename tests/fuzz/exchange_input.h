// SPDX-License-Identifier: Apache-2.0
//
// Input of the targets for array exchange, made from bytes: numbers near the
// limits, and addresses inside and beside live memory.

#ifndef DEVRT_TESTS_FUZZ_EXCHANGE_INPUT_H_
#define DEVRT_TESTS_FUZZ_EXCHANGE_INPUT_H_

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/numeric/int128.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/devrt.h"
#include "tests/fuzz/entry.h"

DEVRT_STATIC_PLUGIN(mtia);

namespace devrt::fuzz {

inline constexpr uint64_t kBlock = 4096;

// Two simulated devices with a block each, pinned and plain memory.
struct ExchangeMachine {
  ExchangeMachine() {
    setenv("DEVRT_PLUGINS", "/dev/null", 1);  // look nowhere else
    setenv("DEVRT_LOG", "off", 1);
    setenv("DEVRT_MTIA", "devices=2", 1);
    FUZZ_EXPECT(RegisterBackend(&devrt_plugin_manifest_v0_mtia,
                                &devrt_plugin_open_v0_mtia)
                    .ok());
    for (int i = 0; i < 2; ++i) {
      device[i] = static_cast<char*>(*Allocate(*GetDevice("mtia", i), kBlock));
    }
    pinned = static_cast<char*>(*AllocateHost(*GetDevice("mtia", 0), kBlock));
    std::memset(pinned, 0, kBlock);
  }
  static ExchangeMachine& Get() {
    static auto* const machine = new ExchangeMachine;
    return *machine;
  }
  char* device[2];
  char* pinned;
  char host[kBlock] = {};
};

class ExchangeInput {
 public:
  ExchangeInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  // One in `of`, and never of inputs that have ended.
  bool Rarely(uint8_t of) { return Byte() % of == of - 1; }
  int64_t Raw() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
    return static_cast<int64_t>(value);
  }
  // Mostly small.
  int64_t Number() {
    constexpr int64_t kEdges[] = {-1,
                                  -2,
                                  -8,
                                  std::numeric_limits<int64_t>::max(),
                                  std::numeric_limits<int64_t>::min(),
                                  4611686018427387903,
                                  int64_t{1} << 32,
                                  int64_t{1} << 60,
                                  4096,
                                  4097};
    const uint8_t kind = Byte();
    if (kind < 200) return kind % 9;
    if (kind < 245) return kEdges[kind % std::size(kEdges)];
    return Raw();
  }
  void* Address() {
    const ExchangeMachine& m = ExchangeMachine::Get();
    const uint8_t kind = Byte();
    char* const bases[] = {const_cast<char*>(m.host), m.device[0], m.device[1],
                           m.pinned};
    if (kind < 220) return bases[kind % 4] + (kind < 128 ? 0 : Byte() * 16);
    if (kind < 235) return nullptr;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): nothing may look there
    return reinterpret_cast<void*>(static_cast<uintptr_t>(Raw()));
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

// Checks by plain arithmetic the promises that every array keeps (geometry.h).
inline void CheckArray(const Array& x) {
  FUZZ_EXPECT(x.ndim() <= 32);
  absl::int128 lo = 0;
  absl::int128 hi = absl::int128(x.item_size());
  absl::int128 count = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    const auto axis = static_cast<size_t>(i);
    FUZZ_EXPECT(x.shape()[axis] >= 0);
    count *= x.shape()[axis];
    const absl::int128 reach =
        absl::int128(x.shape()[axis] - 1) * absl::int128(x.strides()[axis]);
    (reach < 0 ? lo : hi) += reach;
  }
  FUZZ_EXPECT(count == x.size());
  if (count == 0) {
    FUZZ_EXPECT(x.data() == nullptr);
    return;
  }
  const auto first = absl::int128(reinterpret_cast<uintptr_t>(x.data()));
  FUZZ_EXPECT(first + lo >= 0);
  FUZZ_EXPECT(first + hi <= absl::int128(UINTPTR_MAX));
  if (x.place().kind() != MemoryKind::kDevice) return;
  const ExchangeMachine& m = ExchangeMachine::Get();
  const auto base = absl::int128(
      reinterpret_cast<uintptr_t>(m.device[x.place().device()->index()]));
  FUZZ_EXPECT(first + lo >= base);
  FUZZ_EXPECT(first + hi <= base + absl::int128(kBlock));
}

}  // namespace devrt::fuzz

#endif  // DEVRT_TESTS_FUZZ_EXCHANGE_INPUT_H_
