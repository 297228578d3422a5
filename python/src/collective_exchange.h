// SPDX-License-Identifier: Apache-2.0
//
// Exchange: a Python function by which ranks exchange bytes, as a Bootstrap.

#ifndef DEVRT_PYTHON_SRC_COLLECTIVE_EXCHANGE_H_
#define DEVRT_PYTHON_SRC_COLLECTIVE_EXCHANGE_H_

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "devrt/collectives/bootstrap.h"
#include "python/src/bindings.h"

namespace devrt::python {

// The function by which Python's ranks exchange bytes, and the exception that
// the function raised.  Ends with the GIL held.
class Exchange {
 public:
  explicit Exchange(nb::object all_gather)
      : all_gather_(std::move(all_gather)) {}

  absl::StatusOr<std::vector<std::string>> AllGather(const std::string& mine,
                                                     absl::Time deadline) {
    const nb::gil_scoped_acquire lock;
    try {
      const nb::bytes bytes(mine.data(), mine.size());
      const double seconds = absl::ToDoubleSeconds(deadline - absl::Now());
      std::vector<std::string> all;
      for (const nb::handle part : nb::list(all_gather_(bytes, seconds))) {
        const auto text = nb::cast<nb::bytes>(part);
        all.emplace_back(text.c_str(), text.size());
      }
      return all;
    } catch (...) {
      raised_ = std::current_exception();
      return absl::CancelledError("the bootstrap raised an exception");
    }
  }
  // Bootstrap::Put and Get, by methods of the function.  On a thread of devrt,
  // where nobody could catch an exception.
  bool HasStore() const { return nb::hasattr(all_gather_, "put"); }
  absl::Status Put(std::string_view name, const std::string& bytes) {
    const nb::gil_scoped_acquire lock;
    try {
      all_gather_.attr("put")(std::string(name),
                              nb::bytes(bytes.data(), bytes.size()));
      return absl::OkStatus();
    } catch (const std::exception& e) {
      return absl::UnavailableError(e.what());
    }
  }
  absl::StatusOr<std::optional<std::string>> Get(std::string_view name,
                                                 int rank,
                                                 absl::Time deadline) {
    const nb::gil_scoped_acquire lock;
    try {
      const double seconds = absl::ToDoubleSeconds(deadline - absl::Now());
      const nb::object found =
          all_gather_.attr("get")(std::string(name), rank, seconds);
      if (found.is_none()) return std::nullopt;
      const auto bytes = nb::cast<nb::bytes>(found);
      return std::string(bytes.c_str(), bytes.size());
    } catch (const std::exception& e) {
      return absl::UnavailableError(e.what());
    }
  }
  void Rethrow() const {
    if (raised_ != nullptr) std::rethrow_exception(raised_);
  }

 private:
  nb::object all_gather_;
  std::exception_ptr raised_;
};

inline std::shared_ptr<Exchange> MakeExchange(nb::object all_gather) {
  return std::shared_ptr<Exchange>(new Exchange(std::move(all_gather)),
                                   [](Exchange* exchange) {
                                     const nb::gil_scoped_acquire lock;
                                     delete exchange;
                                   });
}

inline collectives::BootstrapCallbacks CallbacksOf(
    const std::shared_ptr<Exchange>& exchange, int rank, int size) {
  collectives::BootstrapCallbacks callbacks;
  callbacks.rank = rank;
  callbacks.size = size;
  callbacks.all_gather = [exchange](std::string mine, absl::Time deadline) {
    return exchange->AllGather(mine, deadline);
  };
  if (exchange->HasStore()) {
    callbacks.put = [exchange](std::string_view name, std::string bytes) {
      return exchange->Put(name, bytes);
    };
    callbacks.get = [exchange](std::string_view name, int from,
                               absl::Time deadline) {
      return exchange->Get(name, from, deadline);
    };
  }
  return callbacks;
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_COLLECTIVE_EXCHANGE_H_
