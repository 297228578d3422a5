// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/replay_token.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "backends/text/replay_token.h"

namespace devrt::mtia {
namespace {

constexpr std::array<std::pair<StrategyKind, const char*>, 8> kStrategies = {{
    {StrategyKind::kHardware, "hw"},
    {StrategyKind::kAsap, "asap"},
    {StrategyKind::kAlap, "alap"},
    {StrategyKind::kLifo, "lifo"},
    {StrategyKind::kRandom, "random"},
    {StrategyKind::kPos, "pos"},
    {StrategyKind::kPct, "pct"},
    {StrategyKind::kDirected, "directed"},
}};

const char* StrategyName(StrategyKind kind) {
  for (const auto& [known, name] : kStrategies) {
    if (known == kind) return name;
  }
  return "hw";
}

}  // namespace

std::string MakeToken(const Config& config, uint64_t hash,
                      const ChoiceLog& log) {
  return internal::FormatReplayToken({hash, config.seed,
                                      StrategyName(config.strategy), log.runs(),
                                      /*faults=*/""});
}

bool ParseToken(std::string_view text, Token* token, std::string* error) {
  internal::ReplayToken parts;
  if (!internal::ParseReplayToken(text, &parts, error)) return false;
  bool known = false;
  for (const auto& [kind, name] : kStrategies) {
    if (parts.strategy == name) token->strategy = kind, known = true;
  }
  if (!known) {
    *error =
        "the replay token names the strategy \"" + parts.strategy +
        "\"; there are hw, asap, alap, lifo, random, pos, pct and directed";
    return false;
  }
  token->config_hash = parts.config_hash;
  token->seed = parts.seed;
  token->log = ChoiceLog(std::move(parts.runs));
  token->faults = std::move(parts.faults);
  return true;
}

bool AdoptToken(const Token& token, uint64_t hash, Config* config,
                std::string* error) {
  if (hash != token.config_hash) {
    char hashes[96];
    std::snprintf(hashes, sizeof hashes,
                  " (hash %" PRIx64 ", here %" PRIx64 "): ", token.config_hash,
                  hash);
    *error = "the token was made under another configuration" +
             std::string(hashes) +
             ConfigDifference(*config, token.config_hash) +
             "; start from the configuration of the token";
    return false;
  }
  config->seed = token.seed;
  config->strategy = token.strategy;
  config->hold.reset();
  config->until.reset();
  return true;
}

}  // namespace devrt::mtia
