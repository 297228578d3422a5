// SPDX-License-Identifier: Apache-2.0
//
// Exchange: a Python function by which ranks exchange bytes, as a Bootstrap.
//
// The end of the interpreter blocks a thread that is inside Python for ever
// (WithoutUnwind in gil.h).  The end of a communicator joins the thread that
// exchanges records, so Put and Get call Python on one more thread, which
// nobody joins.  EndExchanges ends the waits for these calls.

#ifndef DEVRT_PYTHON_SRC_COLLECTIVE_EXCHANGE_H_
#define DEVRT_PYTHON_SRC_COLLECTIVE_EXCHANGE_H_

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "devrt/collectives/bootstrap.h"
#include "python/src/bindings.h"

namespace devrt::python {

// The function by which Python's ranks exchange bytes, and the exception that
// the function raised.
class Exchange {
 public:
  // Ends on any thread, and takes the GIL for that.  Needs the GIL here.
  static std::shared_ptr<Exchange> Make(nb::object all_gather);

  // The calls of a bootstrap, which keep the exchange.  put and get are there
  // if the function has these methods.
  static collectives::BootstrapCallbacks CallbacksOf(
      const std::shared_ptr<Exchange>& exchange, int rank, int size);

  // Raises what the function has raised, unless the creation has `result` for
  // another reason.  A signal's exception is raised anyway.
  void Rethrow(absl::StatusCode result) const;
  // For the garbage collector, since the function may have the communicator
  // that keeps the exchange.  After Clear its calls fail.
  int Traverse(visitproc visit, void* arg) const {
    Py_VISIT(all_gather_.ptr());
    return 0;
  }
  void Clear() { all_gather_ = nb::none(); }

  // The creation has ended well.  From now on only a signal's exception is
  // kept, until RethrowSignal raises it: others would keep their frames alive,
  // which may have the communicator.
  void EndCreation();
  void RethrowSignal();

 private:
  using Found = absl::StatusOr<std::optional<std::string>>;

  explicit Exchange(nb::object all_gather)
      : all_gather_(std::move(all_gather)) {}

  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& mine,
                                                     absl::Time deadline);
  // Calls the function's method give_up, or the function itself with a second
  // for the others to come.  Its errors are no reason of this rank's.
  void GiveUp(const std::string& mine, absl::Time deadline);
  // These need no GIL.  Nobody could catch their exception, so its text is in
  // the status.
  Found Put(const std::string& name, const std::string& bytes);
  Found Get(const std::string& name, int rank, absl::Time deadline);

  // Keeps the first exception for the functions above, and returns its text.
  // In a handler.
  std::string KeepException();

  nb::object all_gather_;
  std::exception_ptr raised_;
  bool is_signal_ = false;  // of raised_: no Exception, as KeyboardInterrupt
  bool is_created_ = false;
};

// Slots of a class with a function OwnExchange(): the exchange that nothing but
// the object keeps, or nullptr.
template <typename Owner>
struct ExchangeSlots {
  static std::shared_ptr<Exchange> Of(PyObject* self) {
    return nb::inst_ready(self) ? nb::inst_ptr<Owner>(self)->OwnExchange()
                                : nullptr;
  }
  static int Traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    const std::shared_ptr<Exchange> exchange = Of(self);
    return exchange != nullptr ? exchange->Traverse(visit, arg) : 0;
  }
  static int Clear(PyObject* self) {
    if (const std::shared_ptr<Exchange> exchange = Of(self)) exchange->Clear();
    return 0;
  }
  static inline PyType_Slot slots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(&Traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(&Clear)},
      {0, nullptr}};
};

// Lets no further Put and Get begin, ends the waits for those that run, and
// gives these half a second to return.  For the end of the interpreter, while
// its threads still run.  Call without the GIL.
void EndExchanges();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_COLLECTIVE_EXCHANGE_H_
