// SPDX-License-Identifier: Apache-2.0
#include "devrt/arrays/array.h"

#include <utility>

#include "arrays/core/geometry.h"
#include "arrays/storage/storage.h"

namespace devrt {

Array::Array(std::shared_ptr<internal::Storage> storage, char* data, Dims shape,
             Dims strides, DType dtype, bool read_only)
    : storage_(std::move(storage)),
      data_(data),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      size_(internal::CountElements(shape_)),
      dtype_(dtype),
      read_only_(read_only) {}

Array::Array(std::shared_ptr<internal::Storage> storage, DimSpan shape,
             DType dtype)
    : storage_(std::move(storage)),
      data_(static_cast<char*>(storage_->base())),
      shape_(shape.begin(), shape.end()),
      strides_(shape_),  // copied for its size; the values follow
      size_(internal::MakeContiguous(strides_.data(), shape, dtype.size())),
      dtype_(dtype) {}

Array& Array::operator=(Array&& other) noexcept {
  if (this == &other) return *this;
  storage_ = std::move(other.storage_);
  data_ = other.data_;
  shape_ = std::move(other.shape_);
  strides_ = std::move(other.strides_);
  size_ = std::exchange(other.size_, 0);
  dtype_ = other.dtype_;
  read_only_ = other.read_only_;
  other.shape_.clear();
  other.strides_.clear();
  return *this;
}

Array Array::ViewOf(char* data, Dims shape, Dims strides) const {
  return Array(storage_, data, std::move(shape), std::move(strides), dtype_,
               read_only_);
}

Place Array::place() const {
  return storage_ != nullptr ? storage_->place() : Place::Host();
}

bool Array::read_only() const { return read_only_; }

Array Array::AsReadOnly() const {
  Array view = *this;
  view.read_only_ = true;
  return view;
}

bool Array::IsContiguous() const {
  return internal::IsContiguous(shape_, strides_, item_size());
}

bool Array::IsFortranContiguous() const {
  return internal::IsContiguous(Dims(shape_.rbegin(), shape_.rend()),
                                Dims(strides_.rbegin(), strides_.rend()),
                                item_size());
}

}  // namespace devrt
