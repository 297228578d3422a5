// SPDX-License-Identifier: Apache-2.0
//
// The SIGSEGV handler of the process.  It asks the listeners whether the
// address belongs to them, and calls the former handler if it belongs to
// none.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_SEGV_HANDLER_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_SEGV_HANDLER_H_

#include <cstddef>
#include <cstdint>

namespace devrt::mtia {

enum class Access { kUnknown, kRead, kWrite };

struct AccessFault {
  const std::byte* address = nullptr;
  const void* instruction = nullptr;
  Access access = Access::kUnknown;
};

class SegvListener {
 public:
  // Returns true if the access can be repeated now, false if the handler of
  // before has to decide.  Async-signal-safe.
  virtual bool OnSegv(const AccessFault& fault) noexcept = 0;

 protected:
  ~SegvListener() = default;
};

// Adds a listener.  The first call installs the handler, which is never
// removed. Returns false, and adds nothing, if there are too many listeners or
// the system refuses.  Thread-safe.
bool AddSegvListener(SegvListener* listener);
// Removes a listener.  No other thread may access the listener's memory then.
void RemoveSegvListener(SegvListener* listener);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_SEGV_HANDLER_H_
