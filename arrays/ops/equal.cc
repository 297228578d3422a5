// SPDX-License-Identifier: Apache-2.0
//
// ArrayEqual of operations.h.

#include <cstring>
#include <optional>
#include <utility>

#include "arrays/core/array_checks.h"
#include "arrays/core/kernels.h"
#include "devrt/arrays/operations.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

// The device whose kernels can compare both arrays; nullopt: the host compares.
std::optional<Device> ComputesAt(const Array& a, const Array& b) {
  for (const Array* array : {&a, &b}) {
    const std::optional<Device> device = array->place().device();
    if (device && internal::HasElementwise(*device) &&
        internal::HasReduce(*device)) {
      return device;
    }
  }
  return std::nullopt;
}

// The array, if kernels of the device can read its memory, as they can read
// pinned memory; otherwise a copy on the device.
absl::StatusOr<Array> Reachable(const Array& array, Device device,
                                CallSite site) {
  if (array.place().device() == device) return array;
  return array.To(device, false, site);
}

absl::StatusOr<bool> EqualOnDevice(const Array& a, const Array& b,
                                   Device device, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const Array left, Reachable(a, device, site));
  DEVRT_ASSIGN_OR_RETURN(const Array right, Reachable(b, device, site));
  DEVRT_ASSIGN_OR_RETURN(const Array same,
                         Apply(BinaryOp::kEqual, left, right, nullptr, site));
  DEVRT_ASSIGN_OR_RETURN(const Array all,
                         Reduce(ReduceOp::kAll, same, {}, site));
  DEVRT_ASSIGN_OR_RETURN(const Scalar answer, all.Item(site));
  return answer.Value<bool>();
}

// A bool: every byte but 0 is true.
struct Bool {
  unsigned char byte;
  friend bool operator!=(Bool a, Bool b) {
    return (a.byte == 0) != (b.byte == 0);
  }
};

// Elements need not be aligned.
template <typename T>
T Load(const void* elements, uint64_t byte) {
  T value;
  std::memcpy(&value, static_cast<const char*>(elements) + byte, sizeof value);
  return value;
}

template <typename T>
bool SameValues(const void* a, const void* b, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += sizeof(T)) {
    if (Load<T>(a, i) != Load<T>(b, i)) return false;
  }
  return true;
}

absl::StatusOr<Array> ToHost(const Array& array, DType dtype, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const Array there,
                         array.To(Place::Host(), dtype, false, site));
  return there.Contiguous(site);
}

bool AnyNegative(const Array& host) {
  for (uint64_t i = 0; i < host.nbytes(); i += sizeof(int64_t)) {
    if (Load<int64_t>(host.data(), i) < 0) return true;
  }
  return false;
}

absl::StatusOr<bool> EqualOnHost(const Array& a, const Array& b,
                                 CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(DType dtype, PromoteTypes(a.dtype(), b.dtype()));
  // No integer dtype holds both, and NumPy compares the values.
  if (a.dtype().is_integer() && b.dtype().is_integer() && !dtype.is_integer()) {
    const Array& with_sign = a.dtype() == kUInt64 ? b : a;
    DEVRT_ASSIGN_OR_RETURN(const Array values, ToHost(with_sign, kInt64, site));
    if (AnyNegative(values)) return false;
    dtype = kUInt64;
  }
  if (dtype.is_floating() && dtype.size() == 2) dtype = kFloat32;
  DEVRT_ASSIGN_OR_RETURN(const Array left, ToHost(a, dtype, site));
  DEVRT_ASSIGN_OR_RETURN(const Array right, ToHost(b, dtype, site));
  const void* const x = left.data();
  const void* const y = right.data();
  if (dtype == kFloat32 || dtype == kComplex64) {
    return SameValues<float>(x, y, left.nbytes());
  }
  if (dtype == kFloat64 || dtype == kComplex128) {
    return SameValues<double>(x, y, left.nbytes());
  }
  if (dtype == kBool) return SameValues<Bool>(x, y, left.nbytes());
  return std::memcmp(x, y, left.nbytes()) == 0;
}

// Casts dtypes without arithmetic to one that holds all of their values.
absl::StatusOr<Array> Computable(const Array& array, CallSite site) {
  if (array.dtype().kind() != DTypeKind::kFloat8) return array;
  return array.Cast(kFloat32, site);
}

}  // namespace

absl::StatusOr<bool> ArrayEqual(const Array& a, const Array& b, CallSite site) {
  for (const Array* const array : {&a, &b}) {
    DEVRT_RETURN_IF_ERROR(
        internal::CheckNotMovedFrom(array->storage(), "ArrayEqual"));
  }
  if (a.shape() != b.shape()) return false;
  if (a.size() == 0) return true;
  DEVRT_ASSIGN_OR_RETURN(const Array left, Computable(a, site));
  DEVRT_ASSIGN_OR_RETURN(const Array right, Computable(b, site));
  const std::optional<Device> device = ComputesAt(left, right);
  if (device) return EqualOnDevice(left, right, *device, site);
  return EqualOnHost(left, right, site);
}

}  // namespace devrt
