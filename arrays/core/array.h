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
// Order.  Every operation runs on the current stream of the device that holds
// the data, whichever device is current.  The operation first makes that stream
// wait, by events, for what other streams still do to the operands, and devrt
// records the operation as a use of them.  Therefore programs that use several
// streams need no waits of their own, and only the calls that say so wait on
// the host.
//
// The calling thread itself fills host memory, pinned memory too, and does
// copies and casts from host memory to host memory: it waits for pending uses,
// and the work is complete on return.  NoteUse tells devrt of work that devrt
// does not enqueue (E8).
//
// Memory.  The memory of a new array comes from the MemoryResource of its
// device, on the stream that is current at that moment: the array's home
// stream.  When the last array over the memory is gone, the memory goes back on
// that stream, after all uses, whatever is current then (E21).
//
// Views share the memory: a write through one view shows in all.  Strides are
// in BYTES and may be zero (broadcast) or negative.  An array has at most 32
// axes.
//
// Captures.  On a stream that another library captures into a graph, operations
// are recorded into the graph.  The graph uses their memory, temporaries
// included, at every launch; devrt gives that memory to nobody else while this
// graph, or one made from it, exists.
//
// An operation fails with FAILED_PRECONDITION and enqueues nothing if the
// stream's cache has too little memory for it, if work from before the capture
// is not complete, if the host would have to wait, or if it needs memory and
// the backend cannot tell when a graph is gone.  On such a backend, memory that
// a capture has used never goes back.
//
// What it is not: an expression graph, bound to a thread, or a full NumPy.
//
// Ownership: an Array is a counted reference; a copy of it is cheap and shares
// the memory.  A moved-from Array has no elements, its data() is null and its
// place is the host; calls on it or with it are INVALID_ARGUMENT ("... was
// moved from ...").
//
// Threads: any number of threads may read one Array object and operate on its
// memory.  Operations of several threads on one memory run in the order of the
// calls, each as a whole.  One exception is a strided or converting copy
// between two places: it is two operations, which read the source and later
// write the target (copy.h).  The program has to lock the assignment to an
// Array object, and accesses to plain host memory.
//
// Errors: INVALID_ARGUMENT (shapes, axes, dtypes, devices, read-only targets),
// UNIMPLEMENTED (the backend lacks "devrt.elementwise/0", or the operation
// lacks the dtype), RESOURCE_EXHAUSTED (memory), FAILED_PRECONDITION (inside a
// host function, in a forked child, after Shutdown but for plain host memory),
// and the errors of earlier work.  A call that fails has changed nothing.

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

// Extents or strides, one for each axis; no allocation up to five axes:
using Dims = absl::InlinedVector<int64_t, 5>;
using DimSpan = absl::Span<const int64_t>;

// A slice of one axis, as Python's: from `begin` in steps of `step` to `end`,
// which is not included.  Negative bounds count from the end of the axis,
// bounds beyond the axis are clamped, and nullopt is the end of the axis in the
// direction of the step.  A step of 0 is INVALID_ARGUMENT.
struct Slice {
  std::optional<int64_t> begin;
  std::optional<int64_t> end;
  int64_t step = 1;
};

// What FromPointer takes.
struct PointerOptions {
  // In bytes.  Empty: C-contiguous.
  Dims strides;
  // devrt keeps the owner until the last array over the memory is gone and
  // devrt's uses are complete.  Any thread that calls devrt may drop it.
  std::shared_ptr<void> owner;
  // Where the memory is.  nullopt: devrt asks the backends.  An address that no
  // backend knows counts as plain host memory, unchecked: a wrong address
  // faults at the first access.
  std::optional<Place> place;
  bool read_only = false;
  // A stream of the memory's device whose work may still use the memory.  It
  // becomes the array's home stream, and every use waits for its work so far.
  std::optional<StreamRef> stream;
};

// A shape, strides and a dtype over memory that arrays share.
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

  // C-contiguous, with undefined elements.  INVALID_ARGUMENT: a negative
  // extent, more than 32 extents, or more than 2^63 - 1 bytes.
  static absl::StatusOr<Array> Empty(DimSpan shape, DType dtype,
                                     const Place& place,
                                     CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Empty(DimSpan shape, DType dtype,
                                     CallSite site = CallSite::Here());
  // C-contiguous, with all elements 0.  Errors of Empty.
  static absl::StatusOr<Array> Zeros(DimSpan shape, DType dtype,
                                     const Place& place,
                                     CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Zeros(DimSpan shape, DType dtype,
                                     CallSite site = CallSite::Here());
  // C-contiguous, with all elements `value`.  Errors of Empty, and of Scalar
  // for a value that the dtype cannot hold.
  static absl::StatusOr<Array> Full(DimSpan shape, DType dtype, Scalar value,
                                    const Place& place,
                                    CallSite site = CallSite::Here());
  static absl::StatusOr<Array> Full(DimSpan shape, DType dtype, Scalar value,
                                    CallSite site = CallSite::Here());
  // The values of numpy.arange: begin, begin + step, ..., without end, which
  // are ceil((end - begin) / step) elements.  devrt writes them into pinned
  // memory and copies them; without free pinned memory it uses plain host
  // memory and waits.  INVALID_ARGUMENT: a step of 0, or a number that is not
  // finite.
  static absl::StatusOr<Array> Arange(Scalar begin, Scalar end, Scalar step,
                                      DType dtype, const Place& place,
                                      CallSite site = CallSite::Here());
  // A copy of C-contiguous host memory.  The call waits for the copy, and so
  // for the current stream: the caller may change `data` afterwards.
  static absl::StatusOr<Array> FromHost(const void* data, DimSpan shape,
                                        DType dtype, const Place& place,
                                        CallSite site = CallSite::Here());
  // FromHost with one axis, of the elements of `values`.
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

  // An array over memory that the caller allocated, without a copy.
  //
  // devrt orders operations among the views of one array.  Arrays from two
  // calls over the same memory do not know of each other's uses, and no array
  // knows of work that a program does through the pointer.  Make views of one
  // array, or call NoteUse and OrderBefore on each array.
  //   INVALID_ARGUMENT  null with elements; a backend says that the memory is
  //                     not in `place`; elements outside the block of memory,
  //                     where its size is known, or the address space; memory
  //                     that was freed into the cache of an allocator
  static absl::StatusOr<Array> FromPointer(void* data, DimSpan shape,
                                           DType dtype,
                                           PointerOptions options = {},
                                           CallSite site = CallSite::Here());

  // ---- What it is -----------------------------------------------------------

  // Extents, strides in bytes, and number of the axes:
  DimSpan shape() const { return shape_; }
  DimSpan strides() const { return strides_; }
  int ndim() const { return static_cast<int>(shape_.size()); }
  // The type of the elements.
  DType dtype() const { return dtype_; }
  // Bytes of one element.
  uint64_t item_size() const { return dtype_.size(); }
  int64_t size() const { return size_; }  // elements
  // Bytes: size() times item_size().
  uint64_t nbytes() const {
    return static_cast<uint64_t>(size_) * dtype_.size();
  }
  // The address of the first element; null for arrays without elements.  The
  // host may use the address if place().host_accessible().
  void* data() const { return size_ == 0 ? nullptr : data_; }
  // `data` as T, which the caller has to know; the dtype is not checked.
  template <typename T>
  T* data_as() const {
    return static_cast<T*>(data());
  }
  // Where the memory is.
  Place place() const;
  // The device of place(), also for pinned and managed memory; nullopt for
  // plain host memory.
  std::optional<Device> device() const { return place().device(); }
  // Returns true if writes through this array are refused.
  bool read_only() const;
  // Another view of the same memory, which refuses writes.
  Array AsReadOnly() const;

  // In C order, or in Fortran order.  Strides of extents of 1 do not count:
  bool IsContiguous() const;
  bool IsFortranContiguous() const;
  // Returns true if both arrays are views of one memory, overlapping or not.
  bool SharesStorage(const Array& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }

  // ---- Views: no copy, no work on a device; the memory is shared ------------
  // Axes may be negative: -1 is the last.

  // NumPy's a[..., slice, ...].  INVALID_ARGUMENT: no such axis, a step of 0.
  absl::StatusOr<Array> SliceAxis(int axis, Slice slice) const;
  // NumPy's a[..., index, ...]: the result has no such axis.  INVALID_ARGUMENT:
  // an index outside [-extent, extent).
  absl::StatusOr<Array> Index(int axis, int64_t index) const;
  // All axes in reverse order.
  Array Transpose() const;
  // `axes` is a permutation of the axes.
  absl::StatusOr<Array> Permute(absl::Span<const int> axes) const;
  // Never copies.  One extent may be -1, which devrt computes from the others.
  // INVALID_ARGUMENT if strides cannot describe the shape: call Contiguous()
  // first.
  absl::StatusOr<Array> Reshape(DimSpan shape) const;
  // A new axis of extent 1 before `axis`, which may be ndim().
  absl::StatusOr<Array> ExpandDims(int axis) const;
  // Drops the axis, or all axes of extent 1.  INVALID_ARGUMENT: the axis has
  // another extent.
  absl::StatusOr<Array> Squeeze(int axis) const;
  Array Squeeze() const;
  // By NumPy's rules.  The result cannot be written to if elements overlap.
  absl::StatusOr<Array> BroadcastTo(DimSpan shape) const;
  // The same bytes as another dtype of the same size.
  absl::StatusOr<Array> ViewAs(DType dtype) const;

  // ---- Copies ---------------------------------------------------------------

  // Returns this array if it is C-contiguous, otherwise a C-contiguous copy in
  // the same place.
  absl::StatusOr<Array> Contiguous(CallSite site = CallSite::Here()) const;
  // A C-contiguous copy in the same place.  The calling thread copies host
  // memory, pinned memory too.
  absl::StatusOr<Array> Copy(CallSite site = CallSite::Here()) const;
  // Returns this array if it has the place and the dtype, otherwise a
  // C-contiguous copy.  A copy to the host is complete on return, except with
  // non_blocking to pinned memory.
  absl::StatusOr<Array> To(const Place& place, bool non_blocking = false,
                           CallSite site = CallSite::Here()) const;
  absl::StatusOr<Array> To(const Place& place, DType dtype,
                           bool non_blocking = false,
                           CallSite site = CallSite::Here()) const;
  // To(place(), dtype), with the conversions of devrt_tensor.h.
  absl::StatusOr<Array> Cast(DType dtype,
                             CallSite site = CallSite::Here()) const;
  // Copies the elements of `from`, broadcast and cast, from any place (copy.h).
  absl::Status CopyFrom(const Array& from, bool non_blocking = false,
                        CallSite site = CallSite::Here()) const;
  // Sets all elements to `value`.  Waits only for host memory, pinned memory
  // too.
  absl::Status Fill(Scalar value, CallSite site = CallSite::Here()) const;
  // The only element.  Waits for the work that writes it.  INVALID_ARGUMENT:
  // size() is not 1.
  absl::StatusOr<Scalar> Item(CallSite site = CallSite::Here()) const;

  // ---- Order and life -------------------------------------------------------

  // Tells devrt of work that devrt did not enqueue: everything that `stream`
  // was given up to now may use the memory.
  absl::Status NoteUse(StreamRef stream, bool writes = true,
                       CallSite site = CallSite::Here()) const;
  // Afterwards, everything that the native stream is given up to the end of the
  // memory may use the memory, also after the Stream has ended (dlpack.h).
  absl::Status RecordUse(StreamRef stream,
                         CallSite site = CallSite::Here()) const;
  // Makes `stream` wait for all uses of the memory so far.  Calls no backend if
  // no other stream uses the memory.
  absl::Status OrderBefore(StreamRef stream,
                           CallSite site = CallSite::Here()) const;
  // Waits on the host for all uses that devrt knows of (dlpack.h), and for
  // nothing else (E43).
  absl::Status Ready(CallSite site = CallSite::Here()) const;
  // Returns true if no use that devrt knows of is pending.  Never waits.
  absl::StatusOr<bool> IsReady(CallSite site = CallSite::Here()) const;
  // The stream that the memory was allocated on or imported with.  nullopt for
  // pinned and plain host memory, and for an import without a stream.
  std::optional<StreamRef> home_stream() const;
  // The memory will go back on `stream`, of its device, instead of the home
  // stream (E21).  If the Stream has ended by then, the memory goes back on the
  // home stream, after what `stream` was given.  devrt keeps the native stream,
  // and the owner of an adopted one, as RecordUse does.
  absl::Status SetDeallocationStream(StreamRef stream) const;

  // ---- Text -----------------------------------------------------------------

  // How ToString writes an array.
  struct TextOptions {
    int64_t threshold = 1000;  // arrays with more elements are shortened
    int64_t edge_items = 3;    // shown at each end of a shortened axis
    int precision = 8;         // at most so many digits after the point
    CallSite site = {};        // the caller, for timelines and reports
  };
  // "array([[1., 2.], [3., 4.]], dtype=float32, device='mtia:0')", in lines as
  // NumPy 2.4 breaks them, and with the shape where the brackets do not show
  // it.  Fetches the values that are shown, with a wait.  If that fails, the
  // error stands in the place of the values.
  std::string ToString(const TextOptions& options) const;
  std::string ToString() const { return ToString(TextOptions()); }

  // For devrt's own code:
  Array(std::shared_ptr<internal::Storage> storage, char* data, Dims shape,
        Dims strides, DType dtype, bool read_only = false);
  Array(std::shared_ptr<internal::Storage> storage, DimSpan shape, DType dtype);
  const std::shared_ptr<internal::Storage>& storage() const { return storage_; }
  // For devrt's own code.  Afterwards the array may only be destroyed.
  std::shared_ptr<internal::Storage> TakeStorage() {
    return std::move(storage_);
  }
  // For devrt's own code.  A view with another geometry, which the caller has
  // checked.
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

// The shape as Python writes it: "(2, 3)", "(4,)", "()".
DEVRT_EXPORT std::string ShapeText(DimSpan shape);

// The shape that `a` and `b` broadcast to, by NumPy's rules.  INVALID_ARGUMENT
// if there is none; the error names both shapes and the axis.
DEVRT_EXPORT absl::StatusOr<Dims> BroadcastShapes(DimSpan a, DimSpan b);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_CORE_ARRAY_H_
