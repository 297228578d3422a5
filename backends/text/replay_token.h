// SPDX-License-Identifier: Apache-2.0
//
// The text of replay tokens, for the simulator and for the exploration of
// schedules: "dvs1:<config hash>:<seed>:<strategy>:<decisions>", numbers in
// hexadecimal, the decisions as base32 of run-length coded varints without
// trailing zeros.  Behind one more ":" come the rules of the layer `faults`, in
// the grammar of fault_rule.h, if the run had some; "none" if the run was made
// without the rules that the program has set.

#ifndef DEVRT_BACKENDS_TEXT_REPLAY_TOKEN_H_
#define DEVRT_BACKENDS_TEXT_REPLAY_TOKEN_H_

#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "backends/text/text.h"

namespace devrt::internal {

// `count` equal choices, and how many choices of 0 come before them.
struct ChoiceRun {
  uint64_t zeros;
  uint32_t choice;  // not 0
  uint64_t count;
};

struct ReplayToken {
  uint64_t config_hash = 0;
  uint64_t seed = 0;
  std::string strategy;
  std::vector<ChoiceRun> runs;
  std::string faults;  // the rules of the layer; the simulator knows none
};

namespace token {

inline constexpr std::string_view kBase32 = "abcdefghijklmnopqrstuvwxyz234567";

inline void AppendVarint(std::vector<uint8_t>* out, uint64_t value) {
  for (; value >= 128; value >>= 7) {
    out->push_back(static_cast<uint8_t>(value | 128));
  }
  out->push_back(static_cast<uint8_t>(value));
}

inline bool ReadVarint(const std::vector<uint8_t>& in, size_t* at,
                       uint64_t* value) {
  *value = 0;
  for (uint32_t shift = 0; *at < in.size() && shift < 64; shift += 7) {
    const uint8_t byte = in[(*at)++];
    *value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

inline std::string EncodeBase32(const std::vector<uint8_t>& bytes) {
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

inline bool DecodeBase32(std::string_view text, std::vector<uint8_t>* out) {
  uint32_t bits = 0, count = 0;
  out->reserve(text.size() * 5 / 8);
  for (const char c : text) {
    const bool is_letter = c >= 'a' && c <= 'z';
    if (!is_letter && !(c >= '2' && c <= '7')) return false;
    bits =
        bits << 5 | static_cast<uint32_t>(is_letter ? c - 'a' : c - '2' + 26);
    count += 5;
    if (count >= 8) {
      out->push_back(static_cast<uint8_t>(bits >> (count - 8)));
      count -= 8;
    }
  }
  return true;
}

inline bool ParseHex(std::string_view text, uint64_t* value) {
  if (text.empty() || text.size() > 16) return false;
  *value = 0;
  for (const char c : text) {
    const size_t digit = std::string_view("0123456789abcdef").find(c);
    if (digit == std::string_view::npos) return false;
    *value = *value << 4 | digit;
  }
  return true;
}

inline bool DecodeRuns(std::string_view text, std::vector<ChoiceRun>* runs) {
  std::vector<uint8_t> bytes;
  if (!DecodeBase32(text, &bytes)) return false;
  runs->reserve(bytes.size() / 3);  // three numbers of a byte or more each
  for (size_t at = 0; at < bytes.size();) {
    uint64_t zeros = 0, choice = 0, count = 0;
    if (!ReadVarint(bytes, &at, &zeros) || !ReadVarint(bytes, &at, &choice) ||
        !ReadVarint(bytes, &at, &count)) {
      return false;
    }
    if (choice == 0 || choice > UINT32_MAX || count == 0) return false;
    runs->push_back({zeros, static_cast<uint32_t>(choice), count});
  }
  return true;
}

}  // namespace token

inline std::string FormatReplayToken(const ReplayToken& parts) {
  std::vector<uint8_t> bytes;
  for (const ChoiceRun& run : parts.runs) {
    token::AppendVarint(&bytes, run.zeros);
    token::AppendVarint(&bytes, run.choice);
    token::AppendVarint(&bytes, run.count);
  }
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "dvs1:%" PRIx64 ":%" PRIx64 ":",
                parts.config_hash, parts.seed);
  return numbers + parts.strategy + ":" + token::EncodeBase32(bytes) +
         (parts.faults.empty() ? "" : ":" + parts.faults);
}

// In place of the rules of the layer, in a token without those of the program.
inline constexpr std::string_view kNoFaults = "none";

// The rules of the layer behind the token `text`, without a look at its other
// parts; empty if there are none.
inline std::string_view FaultsOfToken(std::string_view text) {
  for (int colons = 0; colons < 5; ++colons) {
    const size_t colon = text.find(':');
    if (colon == std::string_view::npos) return {};
    text.remove_prefix(colon + 1);
  }
  return text;
}

// Returns false and sets `*error` when `text` is no token.  The strategy may be
// any text.
inline bool ParseReplayToken(std::string_view text, ReplayToken* parts,
                             std::string* error) {
  std::array<std::string_view, 5> fields;
  std::string_view rest = text;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t colon = i + 1 < fields.size() ? rest.find(':') : rest.size();
    if (colon == std::string_view::npos) {
      *error =
          "a replay token has five parts: "
          "dvs1:<config hash>:<seed>:<strategy>:<decisions>";
      return false;
    }
    fields[i] = rest.substr(0, colon);
    rest.remove_prefix(colon + (i + 1 < fields.size() ? 1 : 0));
  }
  *error = "the replay token ";
  if (fields[0] != "dvs1") {
    *error += "is of version \"" + std::string(fields[0]) +
              "\"; this backend reads \"dvs1\"";
    return false;
  }
  if (!token::ParseHex(fields[1], &parts->config_hash) ||
      !token::ParseHex(fields[2], &parts->seed)) {
    *error += "has a configuration hash or seed that is not hexadecimal";
    return false;
  }
  parts->strategy = fields[3];
  const size_t end = fields[4].find(':');
  parts->faults = end == std::string_view::npos ? std::string_view()
                                                : fields[4].substr(end + 1);
  fields[4] = fields[4].substr(0, end);
  parts->runs.clear();
  if (!token::DecodeRuns(fields[4], &parts->runs)) {
    *error += "has damaged decisions";
    return false;
  }
  return true;
}

// How a token and the run that follows it differ.
struct TokenMisfit {
  uint64_t decision = 0;  // from 1: the first one that does not fit; 0: none
  uint32_t choice = 0;    // of the token
  uint32_t ways = 0;      // that the run has there
};

// What is wrong with a token that does not fit; empty if it fits.  `left`: so
// many of its decisions the run has not come to.
inline std::string TextOf(const TokenMisfit& misfit, uint64_t left) {
  std::string text;
  if (misfit.decision != 0) {
    text = "its decision " + std::to_string(misfit.decision) + " takes way " +
           std::to_string(misfit.choice + uint64_t{1}) + ", and this run has " +
           std::to_string(misfit.ways) + " there";
  } else if (left != 0) {
    text = "the run ended before " + Counted(left, "decision") + " of it";
  } else {
    return text;
  }
  return "the replay token is of another program, or of an earlier state of "
         "this one: " +
         text + "; explore this program anew";
}

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_REPLAY_TOKEN_H_
