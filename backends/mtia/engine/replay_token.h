// SPDX-License-Identifier: Apache-2.0
//
// Replay tokens: the text that repeats a run.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_REPLAY_TOKEN_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_REPLAY_TOKEN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/decisions.h"

namespace devrt::mtia {

// "dvs1:<config hash>:<seed>:<strategy>:<decisions>", numbers in hexadecimal,
// the decisions as base32 of run-length coded varints without trailing zeros.
std::string MakeToken(const Config& config, const ChoiceLog& log);

struct Token {
  uint64_t config_hash = 0;
  uint64_t seed = 0;
  StrategyKind strategy = StrategyKind::kHardware;
  ChoiceLog log;
};
// Returns false and sets `*error` when `text` is no token.
bool ParseToken(std::string_view text, Token* token, std::string* error);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_REPLAY_TOKEN_H_
