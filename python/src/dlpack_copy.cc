// SPDX-License-Identifier: Apache-2.0
#include "python/src/dlpack_copy.h"

#include "arrays/exchange/dlpack_memory.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/errors.h"
#include "python/src/gil.h"

namespace devrt::python {
namespace {

bool IsOfHost(const Place& place) {
  return place.kind() == MemoryKind::kHost ||
         place.kind() == MemoryKind::kPinned;
}

bool Prepare(const internal::TensorMemory& memory, DLPackImport* how) {
  if (!memory.place.has_value()) return true;
  const Place& from = *memory.place;
  if (IsOfHost(from) && how->place.has_value() &&
      how->place->kind() == MemoryKind::kHost) {
    how->place.reset();
  }
  if (!IsCopyWanted(from, *how)) return true;
  const Place to = how->place.value_or(from);
  if (!IsOfHost(from) && !IsOfHost(to)) return true;
  if (memory.own.has_value() && !WaitBefore(*memory.own)) return false;
  return WaitForCurrentStream(from) && WaitForCurrentStream(to);
}

}  // namespace

bool IsCopyWanted(const Place& from, const DLPackImport& how) {
  return how.copy.value_or(from != how.place.value_or(from));
}

bool PrepareCopy(const Array& own, DLPackImport* how) {
  return IsPlainImport(*how) || Prepare({own.place(), own}, how);
}

bool PrepareCopy(const DLManagedTensorVersioned& tensor, DLPackImport* how) {
  return IsPlainImport(*how) ||
         Prepare(WithoutLock([&] { return internal::MemoryOf(tensor); }), how);
}

bool PrepareCopy(const DLManagedTensor& tensor, DLPackImport* how) {
  return IsPlainImport(*how) ||
         Prepare(WithoutLock([&] { return internal::MemoryOf(tensor); }), how);
}

bool CheckNotCopied(const DLManagedTensorVersioned& tensor, PyObject* producer,
                    const DLPackImport& how) {
  if (how.copy != false || tensor.version.major != DLPACK_MAJOR_VERSION ||
      (tensor.flags & DLPACK_FLAG_BITMASK_IS_COPIED) == 0) {
    return true;
  }
  PyErr_Format(g_exceptions.copy_required,
               "copy is False, and %s has given a copy of its memory",
               TypeName(producer));
  return false;
}

}  // namespace devrt::python
