// SPDX-License-Identifier: Apache-2.0

#include "arrays/exchange/dlpack_block.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "arrays/exchange/exchange_error.h"
#include "runtime/registry/process_state.h"

namespace devrt::internal {

absl::Status DLPackBlock::CheckLayout(const Array& array) {
  if (array.size() == 0) return absl::OkStatus();
  const int64_t item = static_cast<int64_t>(array.item_size());
  const DimSpan shape = array.shape();
  const DimSpan strides = array.strides();
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t stride = strides[i];
    // The size of an element is a power of two.
    if (shape[i] == 1 || (stride >= 0 && (stride & (item - 1)) == 0)) continue;
    return BufferError(absl::StrCat(
        "axis ", i, " has a stride of ", stride, " bytes, which ",
        stride < 0 ? "is negative" : "is no multiple of an element's ",
        stride < 0 ? "" : absl::StrCat(item),
        " and so cannot be exported: export a copy (copy=true, or "
        "Contiguous())"));
  }
  return absl::OkStatus();
}

DLPackBlock* DLPackBlock::New(const Array& array, DLDevice device,
                              uint64_t flags) {
  const DimSpan extents = array.shape();
  const DimSpan steps = array.strides();
  const size_t ndim = extents.size();
  const bool empty = array.size() == 0;
  auto* const block = new (ndim) DLPackBlock;
  int64_t* const shape = reinterpret_cast<int64_t*>(block + 1);
  int64_t* const strides = shape + ndim;
  const int64_t item = static_cast<int64_t>(array.item_size());
  int64_t next = 1;  // the stride of C order
  for (size_t i = ndim; i-- > 0;) {
    shape[i] = extents[i];
    strides[i] = next;
    if (empty) continue;
    // Divides only if it must, because a division is slow.
    if (shape[i] > 1 && steps[i] != next * item) strides[i] = steps[i] / item;
    next *= shape[i];
  }
  DLManagedTensorVersioned& t = block->versioned_;
  t.version = {DLPACK_MAJOR_VERSION, 3};
  t.manager_ctx = block;
  t.deleter = &DeleteVersioned;
  t.flags = flags;
  t.dl_tensor.data = array.data();
  t.dl_tensor.device = device;
  t.dl_tensor.ndim = static_cast<int32_t>(ndim);
  t.dl_tensor.dtype = {array.dtype().dlpack_code(), array.dtype().dlpack_bits(),
                       1};
  t.dl_tensor.shape = ndim == 0 ? nullptr : shape;
  t.dl_tensor.strides = ndim == 0 ? nullptr : strides;
  t.dl_tensor.byte_offset = 0;
  block->storage_ = array.storage();
  return block;
}

void DLPackBlock::SetUser(std::optional<StreamRef> stream, bool writes) {
  if (stream.has_value()) {
    user_.emplace(*stream, KeptStream(*stream));
  }
  writes_ = writes;
  has_user_ = true;
}

DLPackBlock::~DLPackBlock() {
  if (storage_ == nullptr) return;
  NoteUse();
  // The call that is under way did not end this storage.
  const EndSiteScope unknown({});
  user_.reset();
  storage_.reset();
}

void DLPackBlock::NoteUse() {
  const Place& place = storage_->place();
  if (!has_user_ || !place.device().has_value()) return;
  storage_->NoteOutsideUse(user_, writes_);
}

DLManagedTensor* DLPackBlock::legacy() {
  legacy_ = {versioned_.dl_tensor, this, &DeleteLegacy};
  return &legacy_;
}

DLPackBlock* DLPackBlock::Of(const DLManagedTensorVersioned* tensor) {
  if (tensor->deleter != &DeleteVersioned) return nullptr;
  return static_cast<DLPackBlock*>(tensor->manager_ctx);
}

DLPackBlock* DLPackBlock::Of(const DLManagedTensor* tensor) {
  if (tensor->deleter != &DeleteLegacy) return nullptr;
  return static_cast<DLPackBlock*>(tensor->manager_ctx);
}

void DLPackBlock::DeleteVersioned(DLManagedTensorVersioned* tensor) {
  Release(static_cast<DLPackBlock*>(tensor->manager_ctx));
}

void DLPackBlock::DeleteLegacy(DLManagedTensor* tensor) {
  Release(static_cast<DLPackBlock*>(tensor->manager_ctx));
}

void DLPackBlock::Release(DLPackBlock* block) {
  if (IsProcessOpen()) {
    DeferArrayRelease(block);
    return;
  }
  // The backends have ended, or belong to the parent process: leaves the
  // storage alone (E39).
  if (block->storage_->place().device().has_value() || IsForkedChild()) {
    alignas(std::shared_ptr<Storage>) char kept[sizeof block->storage_];
    new (kept) std::shared_ptr<Storage>(std::move(block->storage_));
  }
  delete block;
}

}  // namespace devrt::internal
