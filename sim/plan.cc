// SPDX-License-Identifier: Apache-2.0
#include "sim/plan.h"

#include <stdlib.h>

#include <charconv>
#include <cstring>
#include <random>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "runtime/common/text.h"

namespace devrt::sim {
namespace {

bool NeverVaries(std::string_view strategy) {
  return strategy == "alap" || strategy == "asap" || strategy == "lifo";
}

}  // namespace

Plan::Plan(uint64_t runs, uint64_t seed, std::vector<std::string> strategies)
    : runs_(runs), seed_(seed) {
  if (strategies.empty()) {
    once_ = {"alap", "lifo", "hw"};
    in_turn_ = {"pos", "random", "pct,changes=1", "pct,changes=2"};
    return;
  }
  for (std::string& strategy : strategies) {
    auto* const list = NeverVaries(strategy) ? &once_ : &in_turn_;
    list->push_back(std::move(strategy));
  }
}

std::optional<Plan::Schedule> Plan::Next() {
  if (made_ == runs_) return std::nullopt;
  const uint64_t run = made_++;
  if (run < once_.size()) return Schedule{once_[run], seed_ + run};
  if (in_turn_.empty()) return std::nullopt;
  return Schedule{in_turn_[(run - once_.size()) % in_turn_.size()],
                  seed_ + run};
}

std::optional<uint64_t> SeedFromEnvironment(std::string* error) {
  const char* const text = getenv("DEVRT_SIM_SEED");
  if (text == nullptr || *text == '\0') return std::random_device()();
  uint64_t seed = 0;
  const char* const end = text + std::strlen(text);
  const auto [stopped, code] = std::from_chars(text, end, seed);
  if (code == std::errc() && stopped == end) return seed;
  *error = absl::StrCat("DEVRT_SIM_SEED is ", internal::Quoted(text),
                        ", expected a whole number below 2^64, such as 7");
  return std::nullopt;
}

}  // namespace devrt::sim
