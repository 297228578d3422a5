// SPDX-License-Identifier: Apache-2.0

#include "tests/memory/model/program.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/memory/model/model.h"

namespace devrt::testing {

namespace {

// Sizes at which something changes come often.
uint64_t RandomSize(std::mt19937_64* random) {
  static constexpr uint64_t kEdges[] = {1,
                                        512,
                                        513,
                                        kModelMiB,
                                        kModelMiB + 1,
                                        10 * kModelMiB - 1,
                                        10 * kModelMiB,
                                        12 * kModelMiB + 5,
                                        19 * kModelMiB};
  switch ((*random)() % 8) {
    case 0:
      return kEdges[(*random)() % std::size(kEdges)];
    case 1:
    case 2:
      return 1 + (*random)() % (9 * kModelMiB);
    case 3:
      return 1 + (*random)() % kModelMiB;
    default:
      return 1 + (*random)() % 5000;
  }
}

Step::Kind RandomKind(uint64_t roll, Mix mix) {
  const bool with_uses = mix != Mix::kPlain;
  if (mix == Mix::kHard && roll >= 93) {
    return roll < 98 ? Step::kReplace : Step::kSetting;
  }
  if (with_uses && roll >= 60) {
    static constexpr Step::Kind kUses[] = {
        Step::kFill,  Step::kFill,  Step::kRecord, Step::kFreeOn,
        Step::kOrder, Step::kOrder, Step::kSpin,   Step::kSynchronize};
    return kUses[roll % std::size(kUses)];
  }
  if (roll < 33) return Step::kAllocate;
  if (roll < 55) return Step::kFree;
  if (roll < 57) return Step::kEmpty;
  if (roll < 58) return Step::kResetPeak;
  if (roll < 59) return Step::kResetAccumulated;
  if (with_uses || roll < 78) return Step::kAllocate;
  if (roll < 95) return Step::kFree;
  return roll < 98 ? Step::kFraction : Step::kTooMuch;
}

}  // namespace

Program MakeProgram(uint64_t seed, size_t steps, uint32_t streams, Mix mix) {
  std::mt19937_64 random(seed);
  Program program;
  for (size_t i = 0; i < steps; ++i) {
    const Step::Kind kind = RandomKind(random() % 100, mix);
    const uint32_t stream = static_cast<uint32_t>(random() % streams);
    program.push_back({kind, stream,
                       kind == Step::kAllocate ? RandomSize(&random)
                                               : random() % (1u << 20)});
  }
  return program;
}

Program Shrink(Program program,
               const std::function<bool(const Program&)>& fails) {
  for (size_t size = program.size() / 2; size > 0;) {
    bool is_shorter = false;
    for (size_t at = 0; at + size <= program.size();) {
      Program less = program;
      less.erase(less.begin() + static_cast<ptrdiff_t>(at),
                 less.begin() + static_cast<ptrdiff_t>(at + size));
      if (fails(less)) {
        program = std::move(less);
        is_shorter = true;
      } else {
        at += size;
      }
    }
    if (!is_shorter) size /= 2;
  }
  return program;
}

std::string ToString(const Program& program) {
  static constexpr const char* kNames[] = {
      "allocate", "free",        "empty", "reset peak", "reset accumulated",
      "fraction", "too much",    "fill",  "record",     "free on",
      "order",    "synchronize", "spin",  "replace",    "setting"};
  std::string text;
  for (const Step& step : program) {
    absl::StrAppend(&text, "  ", kNames[step.kind], ", stream ", step.stream,
                    ", ", step.number, "\n");
  }
  return text;
}

}  // namespace devrt::testing
