// SPDX-License-Identifier: Apache-2.0
//
// DLPackBlock: the memory behind a tensor that devrt exported.  One block of
// the heap holds the struct, its shape and strides, a reference to the storage
// and the consumer's stream (E28).

#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_BLOCK_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "arrays/storage/object_cache.h"
#include "arrays/storage/outside_use.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/streams/stream.h"
#include "streams/common/deferred_deletion.h"

namespace devrt::internal {

class DLPackBlock final : public DeferredObject {
 public:
  // kBuffer for strides that DLPack cannot express or consumers do not accept.
  static absl::Status CheckLayout(const Array& array);
  // Makes the block for an array that passes CheckLayout.
  static DLPackBlock* New(const Array& array, DLDevice device, uint64_t flags);
  ~DLPackBlock() override;
  static void operator delete(void* block) {
    PutObjectBlock(OfExports::kKind, block);
  }

  // When the consumer releases the tensor, everything that it submitted to
  // `stream` by then is a use of the memory.  nullopt:
  // ExchangeSettings::release decides.
  void SetUser(std::optional<StreamRef> stream, bool writes);
  // Notes the consumer's use up to now.  The end of the block notes it again,
  // unless ForgetUser was called.
  void NoteUse();
  bool IsUser(StreamRef stream) const {
    return user_.has_value() && user_->stream() == stream;
  }
  void ForgetUser() { has_user_ = false; }
  DLManagedTensorVersioned* versioned() { return &versioned_; }
  DLManagedTensor* legacy();

  // The block of a tensor that devrt exported; nullptr for other tensors.
  static DLPackBlock* Of(const DLManagedTensorVersioned* tensor);
  static DLPackBlock* Of(const DLManagedTensor* tensor);
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  // Takes the storage out of the block, whose end then does nothing.
  std::shared_ptr<Storage> TakeStorage() { return std::move(storage_); }

 private:
  DLPackBlock() = default;
  // Tensors of so many axes have blocks of one size, which threads keep.
  static constexpr size_t kKeptDims = 5;
  static void* operator new(size_t size, size_t dims) {
    constexpr size_t kBytes = 2 * sizeof(int64_t);  // of an axis
    return dims <= kKeptDims
               ? TakeObjectBlock(OfExports::kKind, size + kKeptDims * kBytes)
               : ::operator new(size + dims * kBytes);
  }
  static void operator delete(void* block, size_t) { operator delete(block); }

  static void DeleteVersioned(DLManagedTensorVersioned* tensor);
  static void DeleteLegacy(DLManagedTensor* tensor);
  // May be called on any thread at any time (E29, E30).
  static void Release(DLPackBlock* block);

  DLManagedTensorVersioned versioned_;
  DLManagedTensor legacy_;
  std::shared_ptr<Storage> storage_;
  std::optional<OutsideUse> user_;
  bool has_user_ = false;
  bool writes_ = true;
  // The shape and strides follow.
};

// BorrowNoSync with strides that the caller has computed.
absl::Status Borrow(const Array& array, const int64_t* strides, DLTensor* out,
                    CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_BLOCK_H_
