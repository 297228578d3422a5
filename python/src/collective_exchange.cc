// SPDX-License-Identifier: Apache-2.0
#include "python/src/collective_exchange.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace devrt::python {
namespace {

using Found = absl::StatusOr<std::optional<std::string>>;

constexpr double kTellingSeconds = 1;
constexpr absl::Duration kPutLimit = absl::Seconds(5);
constexpr auto kEndLimit = std::chrono::milliseconds(500);

// The calls of all exchanges that run on threads of their own.  Never
// destroyed: such a thread may outlive the interpreter.
struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  bool have_ended = false;
  int running = 0;
};

Calls& TheCalls() {
  static Calls* const calls = new Calls;
  return *calls;
}

absl::Status Ended() {
  return absl::CancelledError("the Python interpreter ends");
}

// Makes a call that takes the GIL, on this thread if Python knows it.  Returns
// null if the call has not returned by the deadline.
Found CallApart(absl::Time deadline, std::function<Found()> call) {
  if (PyGILState_GetThisThreadState() != nullptr) return call();
  Calls& calls = TheCalls();
  std::unique_lock<std::mutex> lock(calls.mutex);
  if (calls.have_ended) return Ended();
  const auto found = std::make_shared<std::optional<Found>>();
  try {
    std::thread([&calls, found, call = std::move(call)]() mutable {
      Found result = call();
      call = nullptr;  // may take the GIL, so it ends before the mutex is taken
      const std::lock_guard<std::mutex> at_end(calls.mutex);
      *found = std::move(result);
      --calls.running;
      calls.changed.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no thread could be started: ", error.what()));
  }
  ++calls.running;
  calls.changed.wait_until(lock, absl::ToChronoTime(deadline), [&] {
    return calls.have_ended || found->has_value();
  });
  if (found->has_value()) return **std::move(found);
  if (calls.have_ended) return Ended();
  return std::nullopt;
}

// "ValueError: no bytes", of an exception.
std::string ErrorText(PyObject* raised) {
  const Ref text(WithoutUnwind([&] { return PyObject_Str(raised); }));
  const char* const utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const char* const said =
      utf8 != nullptr && utf8[0] != '\0' ? utf8 : "without a text";
  std::string all = absl::StrCat(TypeName(raised), ": ", said);
  PyErr_Clear();
  return all;
}

// Returns the text of the exception that is set, and clears it.
std::string TakeErrorText() {
  const Ref raised = TakeRaised();
  return ErrorText(raised.get());
}

// Returns what a method of the function returned.
absl::StatusOr<Ref> CallMethod(nb::handle owner, const char* name,
                               PyObject* arguments) {
  const Ref owned(arguments);
  const Ref method(owned ? WithoutUnwind([&] {
    return PyObject_GetAttrString(owner.ptr(), name);
  })
                         : nullptr);
  Ref returned(method ? CallPython(method.get(), owned.get()) : nullptr);
  if (!returned) return absl::UnavailableError(TakeErrorText());
  return returned;
}

}  // namespace

std::shared_ptr<Exchange> Exchange::Make(nb::object all_gather) {
  return std::shared_ptr<Exchange>(new Exchange(std::move(all_gather)),
                                   [](Exchange* exchange) {
                                     const Locked lock;
                                     delete exchange;
                                   });
}

absl::StatusOr<std::vector<std::string>> Exchange::AllGather(
    const std::string& mine, absl::Time deadline) {
  const Locked lock;
  try {
    const Ref arguments(Py_BuildValue(
        "(y#d)", mine.data(), static_cast<Py_ssize_t>(mine.size()),
        absl::ToDoubleSeconds(deadline - absl::Now())));
    const Ref returned(
        arguments ? CallPython(all_gather_.ptr(), arguments.get()) : nullptr);
    if (!returned) ThrowPythonError();
    if (Py_TYPE(returned.get())->tp_iter == nullptr) {
      return absl::DataLossError(
          absl::StrCat("the bootstrap returned ", TypeName(returned.get()),
                       ", expected a list with the bytes of each rank"));
    }
    const Ref parts(
        WithoutUnwind([&] { return PySequence_List(returned.get()); }));
    if (!parts) ThrowPythonError();
    std::vector<std::string> all;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(parts.get()); ++i) {
      PyObject* const part = PyList_GET_ITEM(parts.get(), i);
      if (!PyBytes_Check(part)) {
        return absl::DataLossError(absl::StrCat("the bootstrap returned ",
                                                TypeName(part), " for rank ", i,
                                                ", expected bytes"));
      }
      all.emplace_back(PyBytes_AS_STRING(part),
                       static_cast<size_t>(PyBytes_GET_SIZE(part)));
    }
    return all;
  } catch (const std::exception&) {
    return absl::CancelledError(
        absl::StrCat("the bootstrap raised ", KeepException()));
  }
}

std::string Exchange::KeepException() {
  try {
    throw;
  } catch (const nb::python_error& error) {
    const bool is_signal = !error.matches(PyExc_Exception);
    if (raised_ == nullptr && (is_signal || !is_created_)) {
      raised_ = std::current_exception();
      is_signal_ = is_signal;
    }
    return ErrorText(error.value().ptr());
  } catch (const std::exception& error) {
    if (raised_ == nullptr && !is_created_) raised_ = std::current_exception();
    return error.what();
  }
}

void Exchange::Rethrow(absl::StatusCode result) const {
  if (raised_ == nullptr) return;
  if (result == absl::StatusCode::kCancelled || is_signal_) {
    std::rethrow_exception(raised_);
  }
}

void Exchange::EndCreation() {
  raised_ = nullptr;
  is_created_ = true;
}

void Exchange::RethrowSignal() {
  if (is_signal_ && raised_ != nullptr) {
    std::rethrow_exception(std::exchange(raised_, nullptr));
  }
}

void Exchange::GiveUp(const std::string& mine, absl::Time deadline) {
  const Locked lock;
  try {
    const bool has_method = nb::hasattr(all_gather_, "give_up");
    const double limit = absl::ToDoubleSeconds(deadline - absl::Now());
    const Ref arguments(Py_BuildValue(
        "(y#d)", mine.data(), static_cast<Py_ssize_t>(mine.size()),
        has_method ? limit : std::min(limit, kTellingSeconds)));
    PyObject* const function = all_gather_.ptr();
    const Ref method(has_method ? WithoutUnwind([function] {
      return PyObject_GetAttrString(function, "give_up");
    })
                                : nullptr);
    PyObject* const called = has_method ? method.get() : function;
    const Ref returned(arguments && called != nullptr
                           ? CallPython(called, arguments.get())
                           : nullptr);
    if (!returned) ThrowPythonError();
  } catch (const std::exception&) {
    KeepException();
  }
}

Found Exchange::Put(const std::string& name, const std::string& bytes) {
  const Locked lock;
  const auto done = CallMethod(
      all_gather_, "put",
      Py_BuildValue("(s#y#)", name.data(), static_cast<Py_ssize_t>(name.size()),
                    bytes.data(), static_cast<Py_ssize_t>(bytes.size())));
  if (!done.ok()) return done.status();
  return std::nullopt;
}

Found Exchange::Get(const std::string& name, int rank, absl::Time deadline) {
  const Locked lock;
  const auto found = CallMethod(
      all_gather_, "get",
      Py_BuildValue("(s#id)", name.data(), static_cast<Py_ssize_t>(name.size()),
                    rank, absl::ToDoubleSeconds(deadline - absl::Now())));
  if (!found.ok()) return found.status();
  if (found->get() == Py_None) return std::nullopt;
  if (!PyBytes_Check(found->get())) {
    return absl::UnavailableError(absl::StrCat(
        "get returned ", TypeName(found->get()), ", expected bytes or None"));
  }
  return std::string(PyBytes_AS_STRING(found->get()),
                     static_cast<size_t>(PyBytes_GET_SIZE(found->get())));
}

collectives::BootstrapCallbacks Exchange::CallbacksOf(
    const std::shared_ptr<Exchange>& exchange, int rank, int size) {
  collectives::BootstrapCallbacks callbacks;
  callbacks.rank = rank;
  callbacks.size = size;
  callbacks.all_gather = [exchange](std::string mine, absl::Time deadline) {
    return exchange->AllGather(mine, deadline);
  };
  callbacks.give_up = [exchange](std::string mine, absl::Time deadline) {
    exchange->GiveUp(mine, deadline);
  };
  if (!nb::hasattr(exchange->all_gather_, "put")) return callbacks;
  callbacks.put = [exchange](std::string_view name, std::string bytes) {
    return CallApart(
               absl::Now() + kPutLimit,
               [exchange, name = std::string(name), bytes = std::move(bytes)] {
                 return exchange->Put(name, bytes);
               })
        .status();
  };
  callbacks.get = [exchange](std::string_view name, int from,
                             absl::Time deadline) {
    return CallApart(deadline,
                     [exchange, name = std::string(name), from, deadline] {
                       return exchange->Get(name, from, deadline);
                     });
  };
  return callbacks;
}

void EndExchanges() {
  Calls& calls = TheCalls();
  std::unique_lock<std::mutex> lock(calls.mutex);
  calls.have_ended = true;
  calls.changed.notify_all();
  calls.changed.wait_for(lock, kEndLimit, [&] { return calls.running == 0; });
}

}  // namespace devrt::python
