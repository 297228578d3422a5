// SPDX-License-Identifier: Apache-2.0
//
// The C functions of devrt_exchange.h, and WrapArray and UnwrapArray of
// exchange_handle.h, whose handles these functions take.  The C functions catch
// exceptions, because an allocation may throw std::bad_alloc.

#include "devrt/arrays/devrt_exchange.h"

#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "arrays/exchange/dlpack_block.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "devrt/arrays/exchange_handle.h"
#include "runtime/common/thread_end.h"

// The array, and its strides in elements, which borrowed tensors point to.
struct devrt_array {
  explicit devrt_array(devrt::Array a) noexcept : array(std::move(a)) {
    const auto item = static_cast<int64_t>(array.item_size());
    int64_t* next = strides;
    for (const int64_t stride : array.strides()) *next++ = stride / item;
  }
  const devrt::Array array;
  int64_t strides[devrt::internal::kMaxDims];
};

namespace devrt {

namespace {

std::string& LastError() {
  thread_local std::string text;
  return text;
}

absl::Status NullError(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat(what, " is null"));
}

// Returns 0, or -1 and keeps the status's text for the thread.  Catches
// exceptions, but lets a callback of the program end the thread.
template <typename F>
int Answer(F f) {
  try {
    const absl::Status status = f();
    if (status.ok()) return 0;
    LastError() = std::string(status.message());
  } catch (const std::exception& e) {
    try {
      LastError() = e.what();
    } catch (...) {
    }
  } catch (...) {
    internal::PassThreadEnd();
    LastError() = "an exception was thrown inside devrt";
  }
  return -1;
}

const char* KindOf(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return "MemoryError";
  return absl::IsInvalidArgument(status) ? "ValueError" : "BufferError";
}

int Allocate(DLTensor* prototype, DLManagedTensorVersioned** out,
             void* error_ctx,
             void (*set_error)(void*, const char*, const char*)) {
  absl::Status status;
  try {
    if (prototype == nullptr || out == nullptr) {
      status = NullError("the prototype or the result");
    } else {
      absl::StatusOr<DLManagedTensorVersioned*> made = AllocateLike(*prototype);
      if (made.ok()) {
        *out = *made;
        return 0;
      }
      status = made.status();
    }
    const std::string text(status.message());
    if (set_error != nullptr) {
      set_error(error_ctx, KindOf(status), text.c_str());
    }
  } catch (const std::exception& e) {
    if (set_error != nullptr) set_error(error_ctx, "MemoryError", e.what());
  } catch (...) {
    internal::PassThreadEnd();
  }
  return -1;
}

int FromObject(void* object, DLManagedTensorVersioned** out) {
  return Answer([&]() -> absl::Status {
    if (object == nullptr || out == nullptr) return NullError("the array");
    auto made = ExportNoSync(static_cast<devrt_array*>(object)->array);
    if (made.ok()) *out = *made;
    return made.status();
  });
}

int ToObject(DLManagedTensorVersioned* tensor, void** out) {
  return Answer([&]() -> absl::Status {
    if (out == nullptr) return NullError("the result");
    // Allocates before it takes the tensor: after an error the tensor is still
    // the caller's.
    struct Free {
      void operator()(void* room) const { ::operator delete(room); }
    };
    std::unique_ptr<void, Free> room(::operator new(sizeof(devrt_array)));
    auto array = FromDLPack(tensor);
    if (array.ok()) *out = new (room.release()) devrt_array(*std::move(array));
    return array.status();
  });
}

int Borrow(void* object, DLTensor* out) {
  return Answer([&]() -> absl::Status {
    if (object == nullptr || out == nullptr) return NullError("the array");
    auto* const handle = static_cast<devrt_array*>(object);
    return internal::Borrow(handle->array, handle->strides, out,
                            CallSite::Here());
  });
}

int WorkStream(DLDeviceType type, int32_t id, void** out) {
  return Answer([&]() -> absl::Status {
    if (out == nullptr) return NullError("the result");
    auto stream = CurrentWorkStream(type, id);
    if (stream.ok()) *out = *stream;
    return stream.status();
  });
}

}  // namespace

devrt_array* WrapArray(Array array) {
  return new devrt_array(std::move(array));
}

const Array& UnwrapArray(const devrt_array* handle) { return handle->array; }

}  // namespace devrt

extern "C" {

const DLPackExchangeAPI* devrt_exchange_api_v0(void) {
  static constexpr DLPackExchangeAPI kApi = {
      {{DLPACK_MAJOR_VERSION, 3}, nullptr},
      &devrt::Allocate,
      &devrt::FromObject,
      &devrt::ToObject,
      &devrt::Borrow,
      &devrt::WorkStream,
  };
  return &kApi;
}

void devrt_array_release_v0(devrt_array* array) { delete array; }

devrt_array* devrt_array_retain_v0(const devrt_array* array) {
  return array == nullptr ? nullptr : new devrt_array(array->array);
}

const char* devrt_exchange_last_error_v0(void) {
  return devrt::LastError().c_str();
}
}
