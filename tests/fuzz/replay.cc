// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target over seeds and their mutations, where the compiler has no
// libFuzzer: replay MUTATIONS SEED_FILE...

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/entry.h"
#include "tests/fuzz/mutation.h"
#include "tests/support/test_seed.h"

namespace {

void RunOne(const std::string& bytes) {
  // A copy without a byte to spare, so that a sanitizer sees every overrun.
  const std::vector<uint8_t> input(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: replay MUTATIONS SEED_FILE...\n");
    return 2;
  }
  const int mutations = std::atoi(argv[1]);
  std::vector<std::string> seeds;
  for (int i = 2; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    if (!file) {
      std::fprintf(stderr, "%s cannot be read\n", argv[i]);
      return 2;
    }
    seeds.emplace_back(std::istreambuf_iterator<char>(file),
                       std::istreambuf_iterator<char>());
    RunOne(seeds.back());
  }
  std::printf("%s, %zu seeds, %d mutations\n",
              devrt::testing::SeedTrace().c_str(), seeds.size(), mutations);
  std::fflush(stdout);
  std::mt19937_64 random(devrt::testing::TestSeed());
  for (int i = 0; i < mutations; ++i) {
    RunOne(devrt::testing::Mutate(seeds[random() % seeds.size()], &random));
  }
  return 0;
}
