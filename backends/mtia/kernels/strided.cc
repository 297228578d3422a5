// SPDX-License-Identifier: Apache-2.0

#include "backends/mtia/kernels/strided.h"

#include <algorithm>
#include <type_traits>

#include "backends/tensor/dtype.h"

namespace devrt::mtia {
namespace {

using tensor::ComputeDtype;
using tensor::ComputeType;
using tensor::Narrow;
using tensor::VisitDtype;
using tensor::Widen;

template <typename T>
void LoadRow(const std::byte* from, int64_t stride, size_t n, std::byte* to) {
  using Computed = ComputeType<T>;
  constexpr int64_t kItem = sizeof(T);
  const auto element = [from](int64_t offset) {
    T value;
    std::memcpy(&value, from + offset, sizeof value);
    return Widen(value);
  };
  if (stride == kItem) {
    if constexpr (std::is_same_v<T, Computed>) {
      std::memcpy(to, from, n * sizeof(T));
    } else {
      Generate<Computed>(to, n, [element](size_t i) {
        return element(static_cast<int64_t>(i) * kItem);
      });
    }
  } else if (stride == 0) {
    const Computed value = element(0);
    Generate<Computed>(to, n, [value](size_t) { return value; });
  } else {
    for (size_t i = 0; i < n; ++i) {
      const Computed value = element(static_cast<int64_t>(i) * stride);
      std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
  }
}

template <typename T>
void StoreRow(const std::byte* from, size_t n, std::byte* to, int64_t stride) {
  constexpr int64_t kItem = sizeof(T);
  const auto* in = reinterpret_cast<const ComputeType<T>*>(from);
  if (stride == kItem) {
    if constexpr (std::is_same_v<T, ComputeType<T>>) {
      std::memcpy(to, from, n * sizeof(T));
    } else {
      Generate<T>(to, n, [in](size_t i) { return Narrow<T>(in[i]); });
    }
  } else {
    for (size_t i = 0; i < n; ++i) {
      const T value = Narrow<T>(in[i]);
      std::memcpy(to + static_cast<int64_t>(i) * stride, &value, sizeof value);
    }
  }
}

}  // namespace

LoadFn FindLoad(uint32_t dtype) {
  return VisitDtype(dtype, [](auto tag) -> LoadFn {
    return LoadRow<typename decltype(tag)::type>;
  });
}

StoreFn FindStore(uint32_t dtype) {
  return VisitDtype(dtype, [](auto tag) -> StoreFn {
    return StoreRow<typename decltype(tag)::type>;
  });
}

Cursor::Cursor(const Tensor& tensor, const Axes& axes) {
  dims_[0] = {1, 0, 0};
  for (size_t k = axes.size(); k-- > 0;) {
    const uint32_t axis = axes[k];
    elements_ *= tensor.shape[axis];
    if (tensor.shape[axis] != 1) {
      Append(tensor.shape[axis], tensor.strides[axis]);
    }
  }
}

void Cursor::Append(int64_t extent, int64_t stride) {
  Dim& outermost = dims_[count_ - 1];
  int64_t span = 0;
  if (outermost.extent == 1) {
    outermost = {extent, stride, 0};
  } else if (!__builtin_mul_overflow(outermost.extent, outermost.stride,
                                     &span) &&
             span == stride) {
    outermost.extent *= extent;
  } else {
    dims_[count_++] = {extent, stride, 0};
  }
}

// Rewinds by index * stride and not by extent * stride, which may overflow.
void Cursor::NextRow() {
  for (uint32_t k = 0; k < count_; ++k) {
    Dim& dim = dims_[k];
    if (k > 0 && dim.index + 1 < dim.extent) {
      ++dim.index;
      offset_ += dim.stride;
      return;
    }
    offset_ -= dim.index * dim.stride;
    dim.index = 0;
  }
}

RowLoader::RowLoader(uint32_t dtype, uint32_t as)
    : load_(FindLoad(dtype)),
      conversion_(FindConversion(dtype, as)),
      item_(DtypeSize(ComputeDtype(dtype))) {}

void RowLoader::LoadPart(const std::byte* from, int64_t stride, size_t n,
                         size_t done, void* to) {
  std::byte* const buffer =
      conversion_.first == nullptr ? static_cast<std::byte*>(to) : first_.bytes;
  load_(from, stride, n, buffer + done * item_);
}

void RowLoader::Convert(size_t n, void* to) {
  std::byte* const out = static_cast<std::byte*>(to);
  if (conversion_.second != nullptr) {
    conversion_.first(first_.bytes, n, second_.bytes);
    conversion_.second(second_.bytes, n, out);
  } else if (conversion_.first != nullptr) {
    conversion_.first(first_.bytes, n, out);
  }
}

void RowLoader::Load(const std::byte* from, int64_t stride, size_t n,
                     void* to) {
  LoadPart(from, stride, n, 0, to);
  Convert(n, to);
}

Reader::Reader(const Tensor& tensor, const std::byte* local, const Axes& axes,
               uint32_t dtype, uint32_t as)
    : cursor_(tensor, axes), local_(local), loader_(dtype, as) {}

void Reader::Read(size_t n, void* to) {
  for (size_t done = 0; done < n;) {
    const size_t part = std::min(n - done, static_cast<size_t>(cursor_.run()));
    loader_.LoadPart(local_ + cursor_.offset(), cursor_.stride(), part, done,
                     to);
    cursor_.Step(static_cast<int64_t>(part));
    done += part;
  }
  loader_.Convert(n, to);
}

Writer::Writer(const Tensor& tensor, std::byte* local, const Axes& axes,
               uint32_t dtype)
    : cursor_(tensor, axes),
      local_(local),
      store_(FindStore(dtype)),
      item_(DtypeSize(ComputeDtype(dtype))) {}

void Writer::Write(size_t n, const void* from) {
  const std::byte* in = static_cast<const std::byte*>(from);
  for (size_t left = n; left > 0;) {
    const size_t part = std::min(left, static_cast<size_t>(cursor_.run()));
    store_(in, part, local_ + cursor_.offset(), cursor_.stride());
    cursor_.Step(static_cast<int64_t>(part));
    in += part * item_;
    left -= part;
  }
}

}  // namespace devrt::mtia
