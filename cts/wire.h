// SPDX-License-Identifier: Apache-2.0
//
// What a worker tells its supervisor through a pipe: lines of a kind and a
// text.

#ifndef DEVRT_CTS_WIRE_H_
#define DEVRT_CTS_WIRE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace devrt::cts {

enum class MessageKind : uint32_t {
  kOpened = 1,   // the backend is open; the text is of ToText
  kBegin,        // a test begins; its index
  kFailure,      // a check failed
  kSkipped,      // why
  kUnsupported,  // why
  kMayDie,       // the process may end by a signal
  kUnwritten,    // a slot that answered UNIMPLEMENTED, a newline, its text
  kCalled,       // slots that were called so far, separated by blanks
  kEnd,          // the test is over
  kLeaving,      // all tests are over; the process ends
  kNotOpened,    // the plugin could not be opened; why
  kAbsent,       // ... since what it drives is not there; what it said
  kNoDevice,     // a device that was asked for does not exist; which
};

struct Message {
  MessageKind kind;
  std::string text;
};

// To the pipe `fd`; false when nobody reads any more.
bool Send(int fd, MessageKind kind, std::string_view text);

// Takes what a pipe gave, piece by piece.
class MessageReader {
 public:
  void Add(std::string_view bytes) { bytes_.append(bytes); }
  std::optional<Message> Next();

 private:
  std::string bytes_;
};

// What a worker knows of the opened backend.
struct Opened {
  uint64_t capabilities = 0;
  bool is_virtual = false;           // a simulator decides what runs when
  std::vector<std::string> devices;  // "acme:0: Acme 9000"
};
std::string ToText(const Opened& opened);
Opened OpenedFromText(std::string_view text);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_WIRE_H_
