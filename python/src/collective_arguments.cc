// SPDX-License-Identifier: Apache-2.0
#include "python/src/collective_arguments.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/number.h"

namespace devrt::python {
namespace {

using collectives::OnFailure;
using collectives::OpKind;
using collectives::Reduction;

constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kProd,
                                     Reduction::kMin, Reduction::kMax,
                                     Reduction::kAvg};
constexpr std::pair<const char*, OnFailure> kOnFailure[] = {
    {"report", OnFailure::kReport},
    {"abort", OnFailure::kAbort},
    {"terminate", OnFailure::kTerminate}};

constexpr Py_ssize_t kOptions = 11;

[[noreturn]] void ThrowTypeError(nb::handle object, const char* what,
                                 const char* expected) {
  PyErr_Format(PyExc_TypeError, "%s is %R, expected %s", what, object.ptr(),
               expected);
  ThrowPythonError();
}

absl::Duration DurationOf(nb::handle seconds, const char* what) {
  constexpr char kExpected[] = "seconds, or None for no limit";
  if (seconds.is_none()) return absl::InfiniteDuration();
  if (PyBool_Check(seconds.ptr())) ThrowTypeError(seconds, what, kExpected);
  const double value = PyFloat_AsDouble(seconds.ptr());
  const bool has_failed = PyErr_Occurred() != nullptr;
  if (!has_failed && !std::isnan(value)) return absl::Seconds(value);
  const bool is_number =
      !has_failed || PyErr_ExceptionMatches(PyExc_OverflowError);
  PyErr_Clear();
  if (!is_number) ThrowTypeError(seconds, what, kExpected);
  PyErr_Format(g_exceptions.invalid_argument, "%s is %R, expected %s", what,
               seconds.ptr(), kExpected);
  ThrowPythonError();
}

bool BoolOf(nb::handle object, const char* what) {
  bool value = false;
  if (!ToBool(object.ptr(), what, &value)) ThrowPythonError();
  return value;
}

int Int32In(int64_t value, const char* what) {
  if (value >= INT32_MIN && value <= INT32_MAX) return static_cast<int>(value);
  Check(absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, ", which is out of range")));
  return 0;
}

OnFailure OnFailureOf(nb::handle object) {
  const std::string_view name = TextOf(object, "on_failure");
  for (const auto& [known, value] : kOnFailure) {
    if (name == known) return value;
  }
  Check(absl::InvalidArgumentError(
      absl::StrCat("on_failure is '", std::string(name),
                   "', expected 'report', 'abort' or 'terminate'")));
  return OnFailure::kAbort;
}

}  // namespace

int Int32Of(nb::handle object, const char* what) {
  PyObject* const given = object.ptr();
  if (__builtin_expect(PyLong_CheckExact(given), 1)) {
    return Int32In(IntOf(object, what), what);
  }
  if (!PyIndex_Check(given) || PyBool_Check(given) || IsForeignBool(given)) {
    ThrowTypeError(object, what, "an int");
  }
  const Ref number(PyNumber_Index(given));
  if (!number) ThrowPythonError();
  return Int32In(IntOf(number.get(), what), what);
}

std::vector<int> Int32sOf(nb::handle objects, const char* what) {
  if (Py_TYPE(objects.ptr())->tp_iter == nullptr &&
      !PySequence_Check(objects.ptr())) {
    ThrowTypeError(objects, what, "a list of ints");
  }
  std::vector<int> all;
  for (const nb::handle object : objects) all.push_back(Int32Of(object, what));
  return all;
}

std::string_view TextOf(nb::handle object, const char* what) {
  if (!PyUnicode_Check(object.ptr())) ThrowTypeError(object, what, "a str");
  Py_ssize_t size = 0;
  const char* const text = ToUtf8(object.ptr(), what, &size);
  if (text == nullptr) ThrowPythonError();
  return {text, static_cast<size_t>(size)};
}

absl::Time DeadlineOf(nb::handle seconds) {
  return absl::Now() + DurationOf(seconds, "timeout");
}

OpKind KindOf(std::string_view name) {
  for (uint32_t i = 0; i < DEVRT_COLLECTIVE_COUNT; ++i) {
    const auto kind = static_cast<OpKind>(i);
    if (name == ToString(kind)) return kind;
  }
  std::string known;
  for (uint32_t i = 0; i < DEVRT_COLLECTIVE_COUNT; ++i) {
    absl::StrAppend(&known, i == 0 ? "" : ", ",
                    ToString(static_cast<OpKind>(i)));
  }
  Check(absl::InvalidArgumentError(absl::StrCat(
      "operation is '", std::string(name), "', expected one of ", known)));
  return OpKind::kAllReduce;
}

Reduction ReductionOf(nb::handle object) {
  const std::string_view name = TextOf(object, "op");
  for (const Reduction reduction : kReductions) {
    if (name == ToString(reduction)) return reduction;
  }
  Check(absl::InvalidArgumentError(
      absl::StrCat("op is '", std::string(name),
                   "', expected 'sum', 'prod', 'min', 'max' or 'avg'")));
  return Reduction::kSum;
}

collectives::Options OptionsOf(nb::handle values) {
  if (!PyTuple_Check(values.ptr()) ||
      PyTuple_GET_SIZE(values.ptr()) != kOptions) {
    ThrowTypeError(values, "the tuple of options", "that of init()");
  }
  collectives::Options options;
  options.name = TextOf(values[0], "name");
  options.provider = TextOf(values[1], "provider");
  options.init_timeout = DurationOf(values[2], "init_timeout");
  options.timeout = DurationOf(values[3], "timeout");
  options.on_failure = OnFailureOf(values[4]);
  options.shared_device = BoolOf(values[5], "shared_device");
  options.order_across_communicators =
      BoolOf(values[6], "order_across_communicators");
  options.allow_mixed_versions = BoolOf(values[7], "allow_mixed_versions");
  options.check_signatures = BoolOf(values[8], "check_signatures");
  options.exchange_records = BoolOf(values[9], "exchange_records");
  options.watch = BoolOf(values[10], "watch");
  return options;
}

const Array& ArrayArgument(nb::handle object) {
  if (!IsArray(object.ptr())) {
    PyErr_Format(PyExc_TypeError, "expected a devrt.Array, not %s",
                 TypeName(object.ptr()));
    ThrowPythonError();
  }
  return ArrayOf(object.ptr());
}

}  // namespace devrt::python
