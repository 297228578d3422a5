// SPDX-License-Identifier: Apache-2.0
//
// Damages bytes at random: for compilers without libFuzzer.

#ifndef DEVRT_TESTS_FUZZ_MUTATION_H_
#define DEVRT_TESTS_FUZZ_MUTATION_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

namespace devrt::testing {

// `bytes` with up to four places overwritten, cut out or doubled; at the
// beginning more often than elsewhere, as a file's tables are there.
inline std::string Mutate(std::string bytes, std::mt19937_64* random) {
  const auto below = [&](uint64_t n) { return n == 0 ? 0 : (*random)() % n; };
  for (uint64_t i = 0, n = 1 + below(4); i < n; ++i) {
    const uint64_t reach =
        below(2) == 0 && bytes.size() > 0x600 ? 0x600 : bytes.size();
    const uint64_t at = below(reach + 1);
    const uint64_t values[] = {(*random)(), below(64), ~uint64_t{0}, 0,
                               uint64_t{1} << below(64)};
    const uint64_t value = values[below(5)];
    const uint64_t left = bytes.size() - at;
    switch (below(16)) {
      case 0:
        bytes.erase(at, below(left) + 1);
        break;
      case 1:
        bytes.insert(at, bytes.substr(at, below(16)));
        break;
      default:
        std::memcpy(bytes.data() + at, &value,
                    std::min<uint64_t>(left, 1 + below(8)));
    }
  }
  return bytes;
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_FUZZ_MUTATION_H_
