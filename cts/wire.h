// SPDX-License-Identifier: Apache-2.0
//
// Messages of a worker to its supervisor through a pipe: lines with a kind and
// a text.

#ifndef DEVRT_CTS_WIRE_H_
#define DEVRT_CTS_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace devrt::cts {

enum class MessageKind : uint32_t {
  kOpened = 1,   // the backend is open; the text comes from ToText
  kBegin,        // a test begins; its index
  kFailure,      // a check failed
  kSkipped,      // the reason
  kUnsupported,  // the reason
  kMayDie,       // the process may end by a signal
  kUnwritten,    // a slot that answered UNIMPLEMENTED, a newline, its text
  kCalled,       // slots that were called so far, separated by blanks
  kEnd,          // the test is over
  kLeaving,      // all tests are over; the process ends
  kNotOpened,    // the plugin could not be opened; the reason
  kAbsent,       // ... because its hardware is absent; its answer
  kNoDevice,     // a requested device does not exist; its ordinal
};

struct Message {
  MessageKind kind;
  std::string text;
};

// Writes to the pipe `fd`; false if the pipe has no reader any more.
bool Send(int fd, MessageKind kind, std::string_view text);

// Assembles messages from the bytes of a pipe.
class MessageReader {
 public:
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  std::optional<Message> Next();

 private:
  std::string bytes_;
};

// Facts about the opened backend.
struct Opened {
  uint64_t capabilities = 0;
  bool is_virtual = false;           // a simulator decides the order of work
  std::vector<std::string> devices;  // "acme:0: Acme 9000"
};
std::string ToText(const Opened& opened);
Opened OpenedFromText(std::string_view text);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_WIRE_H_
