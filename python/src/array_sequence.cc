// SPDX-License-Identifier: Apache-2.0
//
// Makes host arrays of numbers and nested lists of numbers.

#include <cstring>
#include <optional>
#include <vector>

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"

namespace devrt::python {
namespace {

constexpr size_t kMaxDepth = 32;

bool IsSequence(PyObject* object) {
  return PyList_Check(object) || PyTuple_Check(object) || PyRange_Check(object);
}

bool RaiseNoNumber(PyObject* object) {
  const char* remedy = "";
  if (IsArray(object)) {
    remedy = ArrayOf(object).size() == 1
                 ? "; x.item() is its number"
                 : "; to stack arrays, out = devrt.empty((n, *x.shape), "
                   "x.dtype), and out[i] = x for each";
  }
  PyErr_Format(PyExc_TypeError,
               "lists of arrays hold numbers and lists, not %s%s",
               TypeName(object), remedy);
  return false;
}

// The numbers in C order, and their shape.
struct Collected {
  Dims shape;
  std::vector<Number> numbers;
  // The common kind of the numbers without a dtype, and the common dtype of the
  // others. nullopt if there are none.
  std::optional<DTypeKind> kind;
  std::optional<DType> dtype;
};

bool RaiseRagged(size_t depth) {
  PyErr_Format(g_exceptions.invalid_argument,
               "the lists are ragged: along axis %zu they differ in length or "
               "depth",
               depth);
  return false;
}

DTypeKind Higher(DTypeKind a, DTypeKind b) {
  // kUnsigned ranks above kSigned, as only integers beyond int64 have it.
  const auto rank = [](DTypeKind kind) {
    switch (kind) {
      case DTypeKind::kBool:
        return 0;
      case DTypeKind::kSigned:
        return 1;
      case DTypeKind::kUnsigned:
        return 2;
      case DTypeKind::kComplex:
        return 4;
      default:
        return 3;
    }
  };
  return rank(a) > rank(b) ? a : b;
}

bool Promoted(DType a, DType b, std::optional<DType>* dtype) {
  const absl::StatusOr<DType> both = a == b ? a : PromoteTypes(a, b);
  if (!both.ok()) {
    Raise(both.status());
    return false;
  }
  *dtype = *both;
  return true;
}

bool CollectNumber(PyObject* object, Collected* collected) {
  Number number;
  const int is_number = ToNumber(object, &number);
  if (is_number < 0) return false;
  if (is_number == 0) return RaiseNoNumber(object);
  collected->numbers.push_back(number);
  if (!number.dtype.has_value()) {
    const DTypeKind kind =
        number.huge ? DTypeKind::kSigned : number.value.kind();
    collected->kind = Higher(collected->kind.value_or(kind), kind);
    return true;
  }
  const DType known = collected->dtype.value_or(*number.dtype);
  return Promoted(known, *number.dtype, &collected->dtype);
}

bool Collect(PyObject* object, size_t depth, bool first, Collected* collected) {
  if (!IsSequence(object)) {
    if (depth != collected->shape.size()) return RaiseRagged(depth);
    return CollectNumber(object, collected);
  }
  // A copy: converting a number can run code that changes the list.
  const Ref items(PySequence_Tuple(object));
  if (!items) return false;
  const Py_ssize_t count = PyTuple_GET_SIZE(items.get());
  if (first) {
    if (depth == kMaxDepth) {
      PyErr_Format(g_exceptions.invalid_argument,
                   "lists are nested deeper than %zu, the most axes there are",
                   kMaxDepth);
      return false;
    }
    collected->shape.push_back(count);
  } else if (depth >= collected->shape.size() ||
             collected->shape[depth] != count) {
    return RaiseRagged(depth);
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (!Collect(PyTuple_GET_ITEM(items.get(), i), depth + 1, first && i == 0,
                 collected)) {
      return false;
    }
  }
  return true;
}

// Chooses the dtype of the array.  In a list Python's numbers are not weak.
// Returns false with an exception set on failure.
bool FindDType(const Collected& collected, std::optional<DType>* dtype) {
  *dtype = collected.dtype;
  if (collected.kind.has_value()) {
    const DType own = DefaultDType(*collected.kind);
    return Promoted(dtype->value_or(own), own, dtype);
  }
  if (!dtype->has_value()) *dtype = kFloat64;  // the list has no numbers
  return true;
}

}  // namespace

std::optional<Array> FromSequence(PyObject* object,
                                  std::optional<DType> wanted) {
  Collected collected;
  if (!Collect(object, 0, true, &collected)) return std::nullopt;
  if (!wanted.has_value() && !FindDType(collected, &wanted)) {
    return std::nullopt;
  }
  const DType dtype = *wanted;
  std::vector<char> bytes(collected.numbers.size() * dtype.size());
  for (size_t i = 0; i < collected.numbers.size(); ++i) {
    Scalar value(0);
    if (!ToElement(collected.numbers[i], dtype, &value)) return std::nullopt;
    const absl::StatusOr<Scalar::Element> element = value.As(dtype);
    if (!element.ok()) {
      Raise(element.status());
      return std::nullopt;
    }
    std::memcpy(bytes.data() + i * dtype.size(), element->bytes, dtype.size());
  }
  const SiteHere site;
  absl::StatusOr<Array> made = WithoutLock([&] {
    return Array::FromHost(bytes.data(), collected.shape, dtype, Place::Host(),
                           site);
  });
  if (made.ok()) return *std::move(made);
  Raise(made.status());
  return std::nullopt;
}

}  // namespace devrt::python
