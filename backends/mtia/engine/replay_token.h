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

// The token of the run with these choices; backends/text/replay_token.h has its
// syntax.  `hash` is that of the configuration.
std::string MakeToken(const Config& config, uint64_t hash,
                      const ChoiceLog& log);

struct Token {
  uint64_t config_hash = 0;
  uint64_t seed = 0;
  StrategyKind strategy = StrategyKind::kHardware;
  ChoiceLog log;
  std::string faults;  // rules of the layer `faults`, which the host follows
};
// Returns false and sets `*error` when `text` is no token.
bool ParseToken(std::string_view text, Token* token, std::string* error);

// Gives `config`, which has the hash, the seed and the strategy of `token`.
// The hash stays.  Returns false, with `*error` set and `config` unchanged, if
// the token was made under another configuration.
bool AdoptToken(const Token& token, uint64_t hash, Config* config,
                std::string* error);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_REPLAY_TOKEN_H_
