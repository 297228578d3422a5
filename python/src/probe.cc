// SPDX-License-Identifier: Apache-2.0
//
// Kernels that keep a stream busy, for devrt.testing.

#include "devrt/streams/probe.h"

#include <optional>
#include <string>
#include <utility>

#include "python/src/bindings.h"
#include "python/src/call_site.h"
#include "python/src/public_class.h"

namespace devrt::python {
namespace {

void SpinFor(nb::object nanoseconds, nb::object stream) {
  const int64_t time = IntOf(nanoseconds, "nanoseconds");
  if (time < 0) {
    PyErr_Format(g_exceptions.invalid_argument,
                 "nanoseconds is %lld, expected 0 or more",
                 static_cast<long long>(time));
    ThrowPythonError();
  }
  const StreamRef on = StreamOf(stream.ptr());
  const SiteHere site;
  Check(
      WithoutLock([&] { return Spin(on, static_cast<uint64_t>(time), site); }));
}

void Fault(const std::string& form, nb::object stream) {
  static const std::pair<const char*, FaultForm> kForms[] = {
      {"null_write", FaultForm::kNullWrite},
      {"misaligned", FaultForm::kMisaligned},
      {"assert", FaultForm::kAssert},
      {"trap", FaultForm::kTrap}};
  for (const auto& known : kForms) {
    if (form != known.first) continue;
    const StreamRef on = StreamOf(stream.ptr());
    const SiteHere site;
    Check(WithoutLock([&] { return CommitFault(on, known.second, site); }));
    return;
  }
  Check(absl::InvalidArgumentError(
      "form is '" + form +
      "', expected 'null_write', 'misaligned', 'assert' or 'trap'"));
}

class FlagObject {
 public:
  explicit FlagObject(nb::object device)
      : device_(DeviceOf(device.ptr())), flag_(Make(device_)) {}
  FlagObject(const FlagObject&) = delete;
  FlagObject& operator=(const FlagObject&) = delete;
  ~FlagObject() {
    if (!flag_.has_value()) return;
    std::optional<Flag> ending = std::move(flag_);
    const Unlocked unlocked;
    ending.reset();
  }

  void WaitOn(nb::object stream, nb::object timeout) {
    const StreamRef on = StreamOf(stream.ptr());
    const uint64_t time = CountOf(timeout, "timeout_ns");
    const SiteHere site;
    Check(WithoutLock([&] { return flag_->WaitOn(on, time, site); }));
  }
  std::string Repr() const {
    return "<devrt.testing.Flag of " + device_.name() + ">";
  }
  void Set() {
    Check(WithoutLock([&] { return flag_->Set(); }));
  }
  void Clear() {
    Check(WithoutLock([&] { return flag_->Clear(); }));
  }
  void SetOn(nb::object stream) {
    const StreamRef on = StreamOf(stream.ptr());
    const SiteHere site;
    Check(WithoutLock([&] { return flag_->SetOn(on, site); }));
  }

 private:
  static std::optional<Flag> Make(Device device) {
    return Check(WithoutLock([&] { return Flag::Create(device); }));
  }
  Device device_;
  std::optional<Flag> flag_;
};

}  // namespace

void BindProbe(nb::module_& module) {
  module.def("_spin", &SpinFor, nb::arg("nanoseconds"),
             nb::arg("stream") = nb::none());
  module.def("_commit_fault", &Fault, nb::arg("form"),
             nb::arg("stream") = nb::none());
  nb::class_<FlagObject> flag(
      module, "Flag",
      "A flag that kernels wait for.  Cleared at first.\n\n"
      "Flag(device=None).  Keep it until every kernel that waits for it is\n"
      "complete.");
  MakePublic(flag, "devrt.testing",
             "a devrt.testing.Flag cannot be pickled or copied: it is memory "
             "that kernels wait on");
  flag.def(nb::init<nb::object>(), nb::arg("device") = nb::none())
      .def("wait_on", &FlagObject::WaitOn, nb::arg("stream") = nb::none(),
           nb::kw_only(), nb::arg("timeout_ns") = 0,
           "Holds `stream` until the flag is set, or for timeout_ns of the "
           "device's\n"
           "clock.  0 holds it for ever.")
      .def("__repr__", &FlagObject::Repr)
      .def("set", &FlagObject::Set, "Sets the flag from the host, at once.")
      .def("clear", &FlagObject::Clear, "Clears the flag from the host.")
      .def("set_on", &FlagObject::SetOn, nb::arg("stream") = nb::none(),
           "Sets the flag in the order of `stream`.");
}

}  // namespace devrt::python
