// SPDX-License-Identifier: Apache-2.0
#include "cts/wire.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace devrt::cts {
namespace {

struct Header {
  uint32_t kind;
  uint32_t size;
};

}  // namespace

bool Send(int fd, MessageKind kind, std::string_view text) {
  const Header header = {static_cast<uint32_t>(kind),
                         static_cast<uint32_t>(text.size())};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(text);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t n = write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    rest.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

std::optional<Message> MessageReader::Next() {
  Header header;
  if (bytes_.size() < sizeof header) return std::nullopt;
  std::memcpy(&header, bytes_.data(), sizeof header);
  if (bytes_.size() - sizeof header < header.size) return std::nullopt;
  Message message = {static_cast<MessageKind>(header.kind),
                     bytes_.substr(sizeof header, header.size)};
  bytes_.erase(0, sizeof header + header.size);
  return message;
}

std::string ToText(const Opened& opened) {
  return absl::StrCat(opened.capabilities, "\n", opened.is_virtual ? 1 : 0,
                      "\n", absl::StrJoin(opened.devices, "\n"));
}

Opened OpenedFromText(std::string_view text) {
  std::vector<std::string> lines = absl::StrSplit(
      absl::string_view(text.data(), text.size()), '\n', absl::SkipEmpty());
  Opened opened;
  if (lines.size() < 2 || !absl::SimpleAtoi(lines[0], &opened.capabilities)) {
    return opened;
  }
  opened.is_virtual = lines[1] == "1";
  opened.devices.assign(lines.begin() + 2, lines.end());
  return opened;
}

}  // namespace devrt::cts
