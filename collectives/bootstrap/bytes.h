// SPDX-License-Identifier: Apache-2.0
//
// Numbers and texts as bytes, for records that ranks exchange.  Byte order and
// sizes are fixed, because ranks may be built differently.
//
//   BytesWriter out;
//   out.Number(kProtocol);
//   out.Text(name);
//
//   BytesReader in(bytes);
//   const uint64_t protocol = in.Number();
//   const std::string name = in.Text();
//   if (!in.ok()) return absl::DataLossError("...");
//
// A reader never reads behind the end: then it is not ok() any more, and
// returns zeros and empty texts.

#ifndef DEVRT_COLLECTIVES_BOOTSTRAP_BYTES_H_
#define DEVRT_COLLECTIVES_BOOTSTRAP_BYTES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace devrt::collectives::internal {

class BytesWriter {
 public:
  void Number(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) {
      bytes_.push_back(static_cast<char>(value >> shift & 0xff));
    }
  }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.append(text);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class BytesReader {
 public:
  explicit BytesReader(std::string_view bytes) : rest_(bytes) {}

  uint64_t Number() {
    if (rest_.size() < 8) {
      Fail();
      return 0;
    }
    uint64_t value = 0;
    for (int i = 7; i >= 0; --i) {
      value = value << 8 | static_cast<uint8_t>(rest_[i]);
    }
    rest_.remove_prefix(8);
    return value;
  }
  std::string Text() {
    const uint64_t size = Number();
    if (size > rest_.size()) {
      Fail();
      return std::string();
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  // Returns true if everything that was asked for was there.
  bool ok() const { return ok_; }
  // Returns true if, besides, nothing is left.
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  std::string_view rest_;
  bool ok_ = true;
};

// A checksum against damage, not against intent (FNV-1a).
inline uint64_t Checksum(std::string_view bytes) {
  uint64_t sum = 0xcbf29ce484222325;
  for (const char c : bytes) {
    sum = (sum ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  }
  return sum;
}

// The bytes with their checksum behind them.
inline std::string Seal(std::string_view bytes) {
  BytesWriter sum;
  sum.Number(Checksum(bytes));
  return std::string(bytes) + sum.bytes();
}
// The bytes before the checksum; nullopt if they are not those of Seal.
inline std::optional<std::string_view> Unseal(std::string_view sealed) {
  if (sealed.size() < 8) return std::nullopt;
  const std::string_view bytes = sealed.substr(0, sealed.size() - 8);
  if (BytesReader(sealed.substr(bytes.size())).Number() != Checksum(bytes)) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_BOOTSTRAP_BYTES_H_
