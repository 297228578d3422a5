// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/replay_token.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <utility>

namespace devrt::mtia {
namespace {

constexpr char kBase32[] = "abcdefghijklmnopqrstuvwxyz234567";
constexpr std::array<std::pair<StrategyKind, const char*>, 5> kStrategies = {{
    {StrategyKind::kHardware, "hw"},
    {StrategyKind::kAsap, "asap"},
    {StrategyKind::kAlap, "alap"},
    {StrategyKind::kLifo, "lifo"},
    {StrategyKind::kRandom, "random"},
}};

void AppendVarint(std::vector<uint8_t>* out, uint64_t value) {
  for (; value >= 128; value >>= 7) {
    out->push_back(static_cast<uint8_t>(value | 128));
  }
  out->push_back(static_cast<uint8_t>(value));
}

bool ReadVarint(const std::vector<uint8_t>& in, size_t* at, uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; *at < in.size() && shift < 64; shift += 7) {
    const uint8_t byte = in[(*at)++];
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

std::string EncodeBase32(const std::vector<uint8_t>& bytes) {
  std::string out;
  uint32_t bits = 0, count = 0;
  for (const uint8_t byte : bytes) {
    bits = bits << 8 | byte;
    for (count += 8; count >= 5; count -= 5) {
      out += kBase32[bits >> (count - 5) & 31];
    }
  }
  if (count > 0) out += kBase32[bits << (5 - count) & 31];
  return out;
}

bool DecodeBase32(std::string_view text, std::vector<uint8_t>* out) {
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    const size_t digit = std::string_view(kBase32, 32).find(c);
    if (digit == std::string_view::npos) return false;
    bits = bits << 5 | static_cast<uint32_t>(digit);
    count += 5;
    if (count >= 8) {
      out->push_back(static_cast<uint8_t>(bits >> (count - 8)));
      count -= 8;
    }
  }
  return true;
}

bool ParseHex(std::string_view text, uint64_t* value) {
  if (text.empty() || text.size() > 16) return false;
  *value = 0;
  for (const char c : text) {
    const size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return false;
    *value = *value << 4 | digit;
  }
  return true;
}

bool DecodeLog(std::string_view text, ChoiceLog* log) {
  std::vector<uint8_t> bytes;
  if (!DecodeBase32(text, &bytes)) return false;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t zeros = 0, choice = 0, count = 0;
    if (!ReadVarint(bytes, &at, &zeros) || !ReadVarint(bytes, &at, &choice) ||
        !ReadVarint(bytes, &at, &count)) {
      return false;
    }
    if (choice == 0 || choice > UINT32_MAX || count == 0) return false;
    log->AppendRun({zeros, static_cast<uint32_t>(choice), count});
  }
  return true;
}

const char* StrategyName(StrategyKind kind) {
  for (const auto& [known, name] : kStrategies) {
    if (known == kind) return name;
  }
  return "hw";
}

}  // namespace

std::string MakeToken(const Config& config, const ChoiceLog& log) {
  std::vector<uint8_t> bytes;
  for (const ChoiceLog::Run& run : log.runs()) {
    AppendVarint(&bytes, run.zeros);
    AppendVarint(&bytes, run.choice);
    AppendVarint(&bytes, run.count);
  }
  char head[64];
  std::snprintf(head, sizeof head,
                "dvs1:%" PRIx64 ":%" PRIx64 ":%s:", ConfigHash(config),
                config.seed, StrategyName(config.strategy));
  return head + EncodeBase32(bytes);
}

bool ParseToken(std::string_view text, Token* token, std::string* error) {
  std::array<std::string_view, 5> parts;
  std::string_view rest = text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t colon = i + 1 < parts.size() ? rest.find(':') : rest.size();
    if (colon == std::string_view::npos) {
      *error =
          "a replay token has five parts: "
          "dvs1:<config hash>:<seed>:<strategy>:<decisions>";
      return false;
    }
    parts[i] = rest.substr(0, colon);
    rest.remove_prefix(colon + (i + 1 < parts.size() ? 1 : 0));
  }
  *error = "the replay token ";
  if (parts[0] != "dvs1") {
    *error += "is of version \"" + std::string(parts[0]) +
              "\"; this backend reads \"dvs1\"";
    return false;
  }
  if (!ParseHex(parts[1], &token->config_hash) ||
      !ParseHex(parts[2], &token->seed)) {
    *error += "has a configuration hash or seed that is not hexadecimal";
    return false;
  }
  bool known = false;
  for (const auto& [kind, name] : kStrategies) {
    if (parts[3] == name) token->strategy = kind, known = true;
  }
  if (!known) {
    *error += "names the strategy \"" + std::string(parts[3]) +
              "\"; there are hw, asap, alap, lifo and random";
    return false;
  }
  if (!DecodeLog(parts[4], &token->log)) {
    *error += "has damaged decisions";
    return false;
  }
  return true;
}

}  // namespace devrt::mtia
