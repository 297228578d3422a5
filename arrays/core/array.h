// SPDX-License-Identifier: Apache-2.0
//
// Array: a shape, strides and a dtype over counted memory, on any device or the
// host.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Device gpu, devrt::GetDevice("mtia:1"));
//   DEVRT_ASSIGN_OR_RETURN(
//       auto x, devrt::Array::Full({4, 3}, devrt::kFloat32, 1.0, gpu));
//   DEVRT_ASSIGN_OR_RETURN(auto column, x.Index(1, 2));       // a view, (4,)
//   DEVRT_ASSIGN_OR_RETURN(auto sum, devrt::Add(column, 0.5));
//   DEVRT_ASSIGN_OR_RETURN(auto host, sum.To(devrt::Place::Host()));
//   std::cout << host << "\n";
//
// Order.  Every operation runs on the current stream of the data's device: on
// whatever device is current, nothing else is asked.  It first orders that
// stream after what other streams still do to its operands, by events, and is
// itself remembered as a use of them; so programs that use several streams need
// no waits of their own, and no call waits on the host but those that say so.
// Host memory, pinned too, is the calling thread's to work on: filling it, and
// copies and casts from host memory to host memory, wait for its pending uses
// and are complete on return.
// Work that devrt does not enqueue itself is told by NoteUse (E8).
//
// Memory.  A new array's memory comes from its device's MemoryResource on the
// stream that is current then, which becomes its home stream; it goes back
// there when the last array over it is gone, behind all uses.  Nothing that is
// current at that moment matters (E21).
//
// Views share the memory; writing through one is seen by all.  Strides are in
// BYTES, may be zero (broadcast) or negative.  At most 32 axes.
//
// Captures.  On a stream that another library captures into a graph, operations
// are recorded.  The graph uses their memory at every launch, temporaries of
// theirs included: it is given to nobody else while that graph, or one that
// came of it, is left.  FAILED_PRECONDITION, with nothing enqueued: the cache
// has not enough for it, work from before the capture is not complete, a wait
// of the host, or a backend that cannot tell when a graph is gone and an
// operation that needs memory; what such a capture has used is never given
// back.
//
// What it is not: an expression graph, nor thread-local, nor a NumPy.
//
// Ownership: an Array is a counted reference; copies are cheap and share.  A
// moved-from Array has no elements, its data() is null and its place the host;
// calls on it or with it are INVALID_ARGUMENT ("... was moved from ...").
// Threads: any number may read one Array object and operate on what it names;
// operations of several threads on one memory are ordered in the order of their
// calls, each as a whole.  A copy that is no block of bytes is two between
// places: one reads the source, a later one writes the target (copy.h).  The
// program's to lock are assigning to one object, and plain host memory.
// Errors: INVALID_ARGUMENT (shapes, axes, dtypes, devices, read-only targets),
// UNIMPLEMENTED (the backend lacks "devrt.elementwise/0", or no such dtype for
// that operation), RESOURCE_EXHAUSTED (memory), FAILED_PRECONDITION (inside a
// host function, after Shutdown, in a forked child), and those of earlier work
// on the device.  A call that fails has changed nothing.

#ifndef DEVRT_ARRAYS_CORE_ARRAY_H_
#define DEVRT_ARRAYS_CORE_ARRAY_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devrt/arrays/dtype.h"
#include "devrt/arrays/place.h"
#include "devrt/arrays/scalar.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

namespace internal {
class Storage;
}  // namespace internal

// Extents or strides; no allocation up to five axes.
using Dims = absl::InlinedVector<int64_t, 5>;
using DimSpan = absl::Span<const int64_t>;

// A slice of one axis: from `begin` in steps of `step` up to, without, `end`.
// Negative bounds count from the end; bounds are clamped, as Python does;
// nullopt: as far as the step goes.  A step of 0 is INVALID_ARGUMENT.
struct Slice {
  std::optional<int64_t> begin;
  std::optional<int64_t> end;
  int64_t step = 1;
};

// What FromPointer takes.
struct PointerOptions {
  // In bytes; empty: C-contiguous.
  Dims strides;
  // Kept until the last array over the memory is gone and devrt's uses of it
  // are complete, then dropped, on any thread of devrt's callers.
  std::shared_ptr<void> owner;
  // Where the memory is; nullopt: asked of the backends.  What none knows is
  // taken for plain host memory, unchecked: a wrong address faults when read.
  std::optional<Place> place;
  bool read_only = false;
  // Work on it may still run there: the array's home stream, whose work so far
  // comes before every use.  Of the memory's device.
  std::optional<StreamRef> stream;
};

class DEVRT_EXPORT Array {
 public:
  Array(const Array&) = default;
  Array& operator=(const Array&) = default;
  Array(Array&& other) noexcept
      : storage_(std::move(other.storage_)),
        data_(other.data_),
        shape_(std::move(other.shape_)),
        strides_(std::move(other.strides_)),
        size_(std::exchange(other.size_, 0)),
        dtype_(other.dtype_),
        read_only_(other.read_only_) {
    other.shape_.clear();
    other.strides_.clear();
  }
  Array& operator=(Array&& other) noexcept;
  ~Array() = default;

  // ---- New arrays.  Without a place: Place::Current() -----------------------

  // Undefined elements, C-contiguous.  INVALID_ARGUMENT: a negative extent,
  // more than 32, or more than 2^63 - 1 bytes.
  static absl::StatusOr<Array> Empty(DimSpan shape, DType dtype,
                                     const Place& place,
                                     CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Empty(DimSpan shape, DType dtype,
                                     CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Zeros(DimSpan shape, DType dtype,
                                     const Place& place,
                                     CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Zeros(DimSpan shape, DType dtype,
                                     CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Full(DimSpan shape, DType dtype, Scalar value,
                                    const Place& place,
                                    CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Full(DimSpan shape, DType dtype, Scalar value,
                                    CallSite site = CallSite::Here());
  // begin, begin + step, ... up to, without, end; ceil((end - begin) / step)
  // elements, numpy.arange's values.  They come from pinned memory; where there
  // is none left, from plain memory, with a wait.  INVALID_ARGUMENT: a step of
  // 0, not finite.
  static absl::StatusOr<Array> Arange(Scalar begin, Scalar end, Scalar step,
                                      DType dtype, const Place& place,
                                      CallSite site = CallSite::Here());
  // A copy of C-contiguous host memory; `data` may be changed on return, which
  // waits for the copy and so for the current stream.
  static absl::StatusOr<Array> FromHost(const void* data, DimSpan shape,
                                        DType dtype, const Place& place,
                                        CallSite site = CallSite::Here());
  template <typename T>
  static absl::StatusOr<Array> FromVector(const std::vector<T>& values,
                                          const Place& place,
                                          CallSite site = CallSite::Here()) {
    static_assert(!std::is_same_v<T, bool>,
                  "std::vector<bool> has no elements in memory: give a "
                  "std::vector<uint8_t>, then ViewAs(kBool), or FromHost");
    const int64_t extent = static_cast<int64_t>(values.size());
    return FromHost(values.data(), {&extent, 1}, DTypeOf<T>(), place, site);
  }

  // Memory that somebody else allocated, without a copy.  Order is kept among
  // the views of one array: of two calls over the same memory neither array
  // knows what is done through the other, nor with a block of AllocateMemory
  // what is done by pointer.  Make views of one array; or tell it by NoteUse
  // and wait by OrderBefore, on each.
  //   INVALID_ARGUMENT  null with elements; `place` is not where a backend says
  //                     that the memory is; the shape and strides leave the
  //                     block that it lies in, where its size is known; cached
  //                     memory that was freed (only while it is); strides
  //                     that leave the address space
  static absl::StatusOr<Array> FromPointer(void* data, DimSpan shape,
                                           DType dtype,
                                           PointerOptions options = {},
                                           CallSite site = CallSite::Here());

  // ---- What it is -----------------------------------------------------------

  DimSpan shape() const { return shape_; }
  DimSpan strides() const { return strides_; }  // bytes
  int ndim() const { return static_cast<int>(shape_.size()); }
  DType dtype() const { return dtype_; }
  uint64_t item_size() const { return dtype_.size(); }
  int64_t size() const { return size_; }  // elements
  uint64_t nbytes() const {
    return static_cast<uint64_t>(size_) * dtype_.size();
  }
  // The first element; null for arrays without elements.  A device's address
  // unless place().host_accessible().
  void* data() const { return size_ == 0 ? nullptr : data_; }
  // `data` as T; the dtype is the caller's to know.
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data());
  }
  Place place() const;
  // That of place(): of a device's memory, and of pinned and managed memory;
  // nullopt for plain host memory.
  std::optional<Device> device() const { return place().device(); }
  bool read_only() const;
  // Another view of the same memory, which refuses writes.
  Array AsReadOnly() const;

  bool IsContiguous() const;  // in C order; extents of 1 do not count
  bool IsFortranContiguous() const;
  // Whether both are over one memory, wherever in it.
  bool SharesStorage(const Array& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }

  // ---- Views: no copy, no work on a device; the memory is shared ------------
  // Axes may be negative: -1 is the last.

  // numpy's a[..., slice, ...].  INVALID_ARGUMENT: no such axis, a step of 0.
  absl::StatusOr<Array> SliceAxis(int axis, Slice slice) const;
  // Leaves `axis` out.  INVALID_ARGUMENT: index not in [-extent, extent).
  absl::StatusOr<Array> Index(int axis, int64_t index) const;
  // All axes in reverse order.
  Array Transpose() const;
  // `axes` is a permutation of the axes.
  absl::StatusOr<Array> Permute(absl::Span<const int> axes) const;
  // Needs no copy or fails: INVALID_ARGUMENT names Contiguous().  One extent
  // may be -1: what is left over.
  absl::StatusOr<Array> Reshape(DimSpan shape) const;
  // A new axis of extent 1 before `axis`, which may be ndim().
  absl::StatusOr<Array> ExpandDims(int axis) const;
  // Without that axis, or without all axes of extent 1.  INVALID_ARGUMENT: its
  // extent is not 1.
  absl::StatusOr<Array> Squeeze(int axis) const;
  Array Squeeze() const;
  // By NumPy's rules.  The result cannot be written where elements overlap.
  absl::StatusOr<Array> BroadcastTo(DimSpan shape) const;
  // The same bytes as another dtype of the same size.
  absl::StatusOr<Array> ViewAs(DType dtype) const;

  // ---- Copies ---------------------------------------------------------------

  // This array if it is C-contiguous, else a copy that is, in the same place.
  absl::StatusOr<Array> Contiguous(CallSite site = CallSite::Here()) const;
  // A C-contiguous copy in the same place.  Of host memory, pinned too, by the
  // calling thread, as Cast is.
  absl::StatusOr<Array> Copy(CallSite site = CallSite::Here()) const;
  // This array if it is there with that dtype, else a C-contiguous copy.  To
  // the host: complete on return, unless non_blocking and the target is pinned.
  absl::StatusOr<Array> To(const Place& place, bool non_blocking = false,
                           CallSite site = CallSite::Here()) const;
  absl::StatusOr<Array> To(const Place& place, DType dtype,
                           bool non_blocking = false,
                           CallSite site = CallSite::Here()) const;
  // To(place(), dtype).  The conversions are those of devrt_tensor.h.
  absl::StatusOr<Array> Cast(DType dtype,
                             CallSite site = CallSite::Here()) const;
  // Elements of this array := those of `from`, broadcast and cast, from any
  // place; see copy.h.
  absl::Status CopyFrom(const Array& from, bool non_blocking = false,
                        CallSite site = CallSite::Here()) const;
  // Elements := value.  Waits only for host memory, pinned too.
  absl::Status Fill(Scalar value, CallSite site = CallSite::Here()) const;
  // The only element, on the host: waits for what writes it.  INVALID_ARGUMENT:
  // size() is not 1.
  absl::StatusOr<Scalar> Item(CallSite site = CallSite::Here()) const;

  // ---- Order and life -------------------------------------------------------

  // Work that devrt did not enqueue uses the memory on `stream`: what was
  // submitted to it up to now; RecordUse: and up to the end of the memory, also
  // if its Stream ends before (dlpack.h).
  absl::Status NoteUse(StreamRef stream, bool writes = true,
                       CallSite site = CallSite::Here()) const;
  absl::Status RecordUse(StreamRef stream,
                         CallSite site = CallSite::Here()) const;
  // What is submitted to `stream` from now on comes after all uses of the
  // memory so far; nothing is issued if there are none on other streams.
  absl::Status OrderBefore(StreamRef stream,
                           CallSite site = CallSite::Here()) const;
  // Waits on the host for all uses that devrt knows of (dlpack.h), alone (E43).
  absl::Status Ready(CallSite site = CallSite::Here()) const;
  // Whether no use that devrt knows of is pending.  Never waits.
  absl::StatusOr<bool> IsReady(CallSite site = CallSite::Here()) const;
  // Where the memory was allocated, or what it was imported with; nullopt where
  // that is no stream: pinned and plain host memory, an import without one.
  std::optional<StreamRef> home_stream() const;
  // The memory goes back on `stream`, of its device (E21), instead of its
  // home stream.  If its Stream has ended by then: on the home stream, behind
  // what it was given.  The native stream, and the owner of an adopted one, is
  // kept as by RecordUse.
  absl::Status SetDeallocationStream(StreamRef stream) const;

  // ---- Text -----------------------------------------------------------------

  struct TextOptions {
    int64_t threshold = 1000;  // more elements than that are shortened
    int64_t edge_items = 3;    // kept at each end of a shortened axis
    int precision = 8;         // digits after the point at most
    CallSite site = {};        // who asks, in timelines and reports
  };
  // "array([[1., 2.], [3., 4.]], dtype=float32, device='mtia:0')", laid out
  // over lines as NumPy 2.4 does, with the shape where the brackets do not show
  // it.  The values that are shown are fetched, with a wait; if they cannot be,
  // the error stands in their place.
  std::string ToString(const TextOptions& options) const;
  std::string ToString() const { return ToString(TextOptions()); }

  // For devrt's own layers.
  Array(std::shared_ptr<internal::Storage> storage, char* data, Dims shape,
        Dims strides, DType dtype, bool read_only = false);
  // C-contiguous from the beginning of `storage`.
  Array(std::shared_ptr<internal::Storage> storage, DimSpan shape, DType dtype);
  const std::shared_ptr<internal::Storage>& storage() const { return storage_; }
  // Of an array that ends next: nothing else may be called then.
  std::shared_ptr<internal::Storage> TakeStorage() {
    return std::move(storage_);
  }
  // The same memory with other geometry; the caller vouches for it.
  Array ViewOf(char* data, Dims shape, Dims strides) const;

 private:
  std::shared_ptr<internal::Storage> storage_;
  char* data_ = nullptr;  // of the element with all indices 0
  Dims shape_;
  Dims strides_;
  int64_t size_ = 0;
  DType dtype_;
  bool read_only_ = false;
};

// See Array::ToString.
DEVRT_EXPORT std::ostream& operator<<(std::ostream& os, const Array& array);

// "(2, 3)", "(4,)", "()".
DEVRT_EXPORT std::string ShapeText(DimSpan shape);

// The shape that both broadcast to, by NumPy's rules.  INVALID_ARGUMENT names
// both shapes and the axis.
DEVRT_EXPORT absl::StatusOr<Dims> BroadcastShapes(DimSpan a, DimSpan b);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_CORE_ARRAY_H_
