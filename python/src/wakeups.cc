// SPDX-License-Identifier: Apache-2.0
//
// Awaits in event loops: a descriptor becomes readable once streams have
// reached a point (devrt/_awaiting.py).
//
// The driver's callback may touch neither Python nor the driver, so it stores
// the number of the await and writes to the descriptor.  The event loop, which
// watches descriptors anyway, fetches the numbers.

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "devrt/streams/host_func.h"
#include "devrt/streams/sync.h"
#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/public_class.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

// Lives as long as the loop or a driver may use it.
struct Shared {
  Shared() : descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() {
    if (descriptor >= 0) close(descriptor);
    sync::Forget(this);
  }

  void Note(uint64_t number, absl::Status status) {
    sync::Release(this);  // for a race detector
    {
      const std::lock_guard<std::mutex> lock(mutex);
      due.emplace_back(number, std::move(status));
    }
    const uint64_t one = 1;
    // Fails only if 2^64 - 2 notes are unread, and one of them wakes the loop.
    (void)!write(descriptor, &one, sizeof one);
  }

  const int descriptor;
  std::mutex mutex;
  std::vector<std::pair<uint64_t, absl::Status>> due;
};

class Wakeups {
 public:
  Wakeups() : shared_(std::make_shared<Shared>()) {
    if (shared_->descriptor >= 0) return;
    Check(absl::ResourceExhaustedError(
        std::string("await: no descriptor for the event loop: ") +
        std::strerror(errno)));
  }

  int Descriptor() const { return shared_->descriptor; }

  void Launch(nb::object stream, nb::object number) {
    const StreamRef ref = StreamOf(stream.ptr());
    const auto wanted = static_cast<uint64_t>(IntOf(number, "number"));
    const SiteHere site;
    Check(WithoutLock([&] {
      return LaunchHostFunc(
          ref,
          [shared = shared_, wanted](absl::Status status) {
            shared->Note(wanted, std::move(status));
          },
          site);
    }));
  }

  nb::list Take() {
    uint64_t count;
    (void)!read(shared_->descriptor, &count, sizeof count);
    std::vector<std::pair<uint64_t, absl::Status>> due;
    {
      const std::lock_guard<std::mutex> lock(shared_->mutex);
      due.swap(shared_->due);
    }
    sync::Acquire(shared_.get());
    nb::list list;
    for (const auto& [number, status] : due) {
      nb::object error = nb::none();
      if (!status.ok()) {
        PyObject* made = MakeException(status);
        if (made == nullptr) ThrowPythonError();
        error = nb::steal(made);
      }
      list.append(nb::make_tuple(number, error));
    }
    return list;
  }

 private:
  std::shared_ptr<Shared> shared_;
};

}  // namespace

void BindWakeups(nb::module_& module) {
  nb::class_<Wakeups> wakeups(
      module, "_Wakeups",
      "What wakes one event loop when streams have reached a point.");
  wakeups.def(nb::init<>())
      .def("fileno", &Wakeups::Descriptor,
           "The descriptor, readable while there are numbers to take.")
      .def("launch", &Wakeups::Launch, nb::arg("stream"), nb::arg("number"),
           "Makes take() return `number` once the earlier work of `stream` is "
           "over.")
      .def("take", &Wakeups::Take,
           "Returns the numbers that are due, each with the error of the work "
           "or\n"
           "None.");
}

}  // namespace devrt::python
