// SPDX-License-Identifier: Apache-2.0
//
// The process's SIGSEGV handler: asks the listeners whether the address is
// theirs, and passes everything else to the handler that was there before.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_SEGV_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_SEGV_H_

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
  // Async-signal-safe.  True: the access may be tried again.  False: the
  // previous handler decides.
  virtual bool OnSegv(const AccessFault& fault) noexcept = 0;

 protected:
  ~SegvListener() = default;
};

// Installs the handler, which then stays for good, at the first call.  False
// when there are too many listeners or the system refuses; nothing is watched
// then.  Thread-safe.
bool AddSegvListener(SegvListener* listener);
// No access to the listener's memory may be under way in another thread.
void RemoveSegvListener(SegvListener* listener);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_SEGV_H_
