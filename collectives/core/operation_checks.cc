// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/operation_checks.h"

#include <limits>
#include <string>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "arrays/storage/storage.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

// Which parts of its memory an operation has, in units of `count` elements.
struct Parts {
  uint64_t src;
  uint64_t dst;
};

constexpr uint32_t Bit(OpKind kind) {
  return uint32_t{1} << static_cast<uint32_t>(kind);
}
bool IsOneOf(OpKind kind, uint32_t bits) {
  const uint32_t code = static_cast<uint32_t>(kind);
  return code < 32 && (bits >> code & 1) != 0;
}

bool HasReduction(OpKind kind) {
  return IsOneOf(kind, Bit(OpKind::kAllReduce) | Bit(OpKind::kReduce) |
                           Bit(OpKind::kReduceScatter));
}

// Engines would add up the bytes.
bool IsSumOfBools(OpKind kind, DType dtype, Reduction reduction) {
  return HasReduction(kind) && dtype == kBool &&
         (reduction == Reduction::kSum || reduction == Reduction::kAvg);
}

bool HasRoot(OpKind kind) {
  return IsOneOf(kind, Bit(OpKind::kReduce) | Bit(OpKind::kBroadcast) |
                           Bit(OpKind::kGather) | Bit(OpKind::kScatter) |
                           Bit(OpKind::kSend) | Bit(OpKind::kRecv));
}

inline bool IsUsable(const Comm& comm, const Array& array) {
  if (array.storage() == nullptr) return false;
  const Place place = array.place();
  return place.device() == comm.device && place.kind() != MemoryKind::kPinned &&
         array.IsContiguous();
}
// `name` is that of the argument, which is not usable.
[[gnu::cold]] std::string WhyNotUsable(const Comm& comm, const char* name,
                                       const Array& array) {
  if (array.storage() == nullptr) {
    return absl::StrCat(name, " was moved from: pass an array");
  }
  const Place place = array.place();
  if (place.device() != comm.device || place.kind() == MemoryKind::kPinned) {
    return absl::StrCat(name, " is in ", place.name(),
                        " and the communicator on ", comm.device.name(),
                        ": copy it there");
  }
  return absl::StrCat(name, " of shape ", ShapeText(array.shape()),
                      " is not C-contiguous: use Contiguous()");
}

// What this rank has of the operation.
inline Parts PartsOf(OpKind kind, bool is_root, uint64_t n) {
  switch (kind) {
    case OpKind::kAllReduce:
      return {1, 1};
    case OpKind::kReduce:
      return {1, is_root ? 1u : 0};
    case OpKind::kBroadcast:
      return {is_root ? 1u : 0, 1};
    case OpKind::kAllGather:
      return {1, n};
    case OpKind::kReduceScatter:
      return {n, 1};
    case OpKind::kAllToAll:
      return {n, n};
    case OpKind::kGather:
      return {1, is_root ? n : 0};
    case OpKind::kScatter:
      return {is_root ? n : 0, 1};
    case OpKind::kSend:
      return {1, 0};
    case OpKind::kRecv:
      return {0, 1};
  }
  return {0, 0};
}

// Returns true for the same elements, or none in common.
inline bool IsOverlapAllowed(const CheckedOperation& checked,
                             const Parts& parts, uint64_t part_bytes,
                             int rank) {
  const uint64_t src = reinterpret_cast<uint64_t>(checked.op.src);
  const uint64_t dst = reinterpret_cast<uint64_t>(checked.op.dst);
  if (checked.src_bytes == 0 || checked.dst_bytes == 0 ||
      src + checked.src_bytes <= dst || dst + checked.dst_bytes <= src) {
    return true;
  }
  const uint64_t offset = part_bytes * static_cast<uint64_t>(rank);
  return parts.src < parts.dst   ? src == dst + offset
         : parts.src > parts.dst ? dst == src + offset
                                 : src == dst;
}

class Check {
 public:
  Check(Comm* comm, const Operation& operation, CheckedOperation* checked)
      : comm_(comm),
        operation_(operation),
        kind_(operation.kind()),
        checked_(*checked) {}

  absl::Status Run() {
    if (static_cast<uint32_t>(kind_) >= DEVRT_COLLECTIVE_COUNT) {
      return Invalid(
          absl::StrCat("there is no kind ", static_cast<uint32_t>(kind_)));
    }
    const int root = operation_.raw().root_or_peer;
    if (HasRoot(kind_) && (root < 0 || root >= comm_->size)) {
      return Invalid(absl::StrCat(IsPointToPoint() ? "peer " : "root ", root,
                                  " is no rank: there are ", comm_->size,
                                  ", counted from 0"));
    }
    if (IsPointToPoint() && root == comm_->rank) {
      return Invalid(absl::StrCat("peer ", root,
                                  " is this rank itself: copy the array, or "
                                  "give another rank"));
    }
    parts_ = PartsOf(kind_, HasRoot(kind_) && root == comm_->rank,
                     static_cast<uint64_t>(comm_->size));
    DEVRT_RETURN_IF_ERROR(operation_.has_arrays() ? FromArrays()
                                                  : FromPointers());
    DEVRT_RETURN_IF_ERROR(CheckType());
    Remember();
    return CheckOverlap();
  }

 private:
  bool IsPointToPoint() const {
    return kind_ == OpKind::kSend || kind_ == OpKind::kRecv;
  }
  absl::Status Invalid(const std::string& what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(comm_->Text(), ": ", ToString(kind_), ": ", what));
  }

  // `name` is that of the argument.
  absl::Status CheckArray(const char* name, const Array& array) const {
    return IsUsable(*comm_, array) ? absl::OkStatus()
                                   : Invalid(WhyNotUsable(*comm_, name, array));
  }

  absl::Status CheckWritable(const char* name, const Array& array) const {
    return array.read_only() ? Invalid(absl::StrCat(
                                   name, " is read-only: pass another array"))
                             : absl::OkStatus();
  }

  absl::Status FromArrays() {
    const std::optional<Array>& in = operation_.in();
    const std::optional<Array>& out = operation_.out();
    const char* const in_name =
        kind_ == OpKind::kBroadcast || IsPointToPoint() ? "x" : "in";
    const char* const out_name = in_name[0] == 'x' ? "x" : "out";
    const Array* const any = parts_.src != 0 ? &*in : &*out;
    if (parts_.src != 0) {
      DEVRT_RETURN_IF_ERROR(CheckArray(in_name, *in));
    }
    if (parts_.dst != 0) {
      DEVRT_RETURN_IF_ERROR(CheckArray(out_name, *out));
      DEVRT_RETURN_IF_ERROR(CheckWritable(out_name, *out));
    }
    if (parts_.src != 0 && parts_.dst != 0 && in->dtype() != out->dtype()) {
      return Invalid(absl::StrCat("in has ", in->dtype().name(), " and out ",
                                  out->dtype().name(), ": Cast one of them"));
    }
    const bool by_src = parts_.src != 0;
    const uint64_t elements = static_cast<uint64_t>(any->size());
    const uint64_t parts = by_src ? parts_.src : parts_.dst;
    if (elements % parts != 0) {
      return Invalid(absl::StrCat(by_src ? in_name : out_name, " has ",
                                  elements, " elements, which ", parts,
                                  " ranks cannot share equally"));
    }
    const uint64_t count = elements / parts;
    if (by_src && parts_.dst != 0 &&
        static_cast<uint64_t>(out->size()) != count * parts_.dst) {
      return Invalid(absl::StrCat("out has ", out->size(), " elements and in ",
                                  in->size(), ": out needs ",
                                  count * parts_.dst));
    }
    Fill(any->dtype(), count, parts_.src != 0 ? in->data() : nullptr,
         parts_.dst != 0 ? out->data() : nullptr);
    return absl::OkStatus();
  }

  absl::Status FromPointers() {
    const RawOperation& raw = operation_.raw();
    const uint64_t most =
        std::numeric_limits<uint64_t>::max() /
        (raw.dtype.size() * static_cast<uint64_t>(comm_->size));
    if (raw.count > most) {
      return Invalid(absl::StrCat("count is ", raw.count, ", at most ", most,
                                  " fit into an address space"));
    }
    if (raw.count > 0 && parts_.src != 0 && raw.src == nullptr) {
      return Invalid("src is null");
    }
    if (raw.count > 0 && parts_.dst != 0 && raw.dst == nullptr) {
      return Invalid("dst is null");
    }
    Fill(raw.dtype, raw.count, parts_.src != 0 ? raw.src : nullptr,
         parts_.dst != 0 ? raw.dst : nullptr);
    return absl::OkStatus();
  }

  void Fill(DType dtype, uint64_t count, const void* src, void* dst) {
    dtype_ = dtype;
    devrt_collective_v0& op = checked_.op;
    op.struct_size = sizeof op;
    op.op = static_cast<uint32_t>(kind_);
    // Engines have no bool.
    op.dtype = dtype == kBool ? kUInt8.code() : dtype.code();
    op.reduction = HasReduction(kind_)
                       ? static_cast<uint32_t>(operation_.raw().reduction)
                       : 0;
    op.root_or_peer = HasRoot(kind_) ? operation_.raw().root_or_peer : 0;
    op.count = count;
    op.src = src;
    op.dst = dst;
    checked_.src_bytes = parts_.src * count * dtype.size();
    checked_.dst_bytes = parts_.dst * count * dtype.size();
  }

  absl::Status CheckType() const {
    const Reduction reduction = operation_.raw().reduction;
    if (HasReduction(kind_) && reduction > Reduction::kAvg) {
      return Invalid(absl::StrCat("there is no reduction ",
                                  static_cast<uint32_t>(reduction)));
    }
    if (IsSumOfBools(kind_, dtype_, reduction)) {
      return Invalid(absl::StrCat("bool has no ", ToString(reduction),
                                  ": use max for any, or min for all"));
    }
    DEVRT_ASSIGN_OR_RETURN(const bool has,
                           Supports(comm_, kind_, dtype_, reduction));
    if (has) return absl::OkStatus();
    return absl::UnimplementedError(absl::StrCat(
        comm_->Text(), ": ", ToString(kind_), " of ", dtype_.name(),
        HasReduction(kind_) ? absl::StrCat(" with ", ToString(reduction)) : "",
        " does not exist in ", comm_->info.name, " ", comm_->info.version));
  }

  // For CheckPlainly.
  void Remember() const {
    auto& known = comm_->known;
    known.raw.kind = kind_;
    known.raw.dtype = dtype_;
    known.raw.reduction = operation_.raw().reduction;
    known.raw.root_or_peer = operation_.raw().root_or_peer;
    known.op = checked_.op;
    known.src_parts = parts_.src;
    known.dst_parts = parts_.dst;
    known.bytes_of_all = dtype_.size() * static_cast<uint64_t>(comm_->size);
  }

  absl::Status CheckOverlap() const {
    if (IsOverlapAllowed(checked_, parts_, checked_.op.count * dtype_.size(),
                         comm_->rank)) {
      return absl::OkStatus();
    }
    return Invalid(
        "in and out overlap, and are not the same elements: use two arrays, "
        "or work in place");
  }

  Comm* const comm_;
  const Operation& operation_;
  const OpKind kind_;
  Parts parts_{};
  DType dtype_ = kFloat32;
  CheckedOperation& checked_;
};

// Returns true if an operation may touch the array, and need not convert it.
bool IsPlain(const Array& array, Device device, bool writes) {
  const devrt::internal::Storage* const storage = array.storage().get();
  return storage != nullptr && storage->place().kind() == MemoryKind::kDevice &&
         storage->place().device() == device && array.IsContiguous() &&
         !(writes && array.read_only());
}

// Passes an operation of a known kind without a mistake.  What it does not
// pass, Check does, or refuses.
bool CheckPlainly(const Comm& comm, const Operation& operation,
                  CheckedOperation* checked) {
  const auto& known = comm.known;
  const Parts parts = {known.src_parts, known.dst_parts};
  const RawOperation& raw = operation.raw();
  if (raw.kind != known.raw.kind || raw.reduction != known.raw.reduction ||
      raw.root_or_peer != known.raw.root_or_peer) {
    return false;
  }
  DType dtype = raw.dtype;
  uint64_t count = raw.count;
  const void* src = parts.src != 0 ? raw.src : nullptr;
  void* dst = parts.dst != 0 ? raw.dst : nullptr;
  if (operation.has_arrays()) {
    const std::optional<Array>& in = operation.in();
    const std::optional<Array>& out = operation.out();
    if (parts.src == 0 || parts.dst == 0 ||
        !IsPlain(*in, comm.device, /*writes=*/false) ||
        !IsPlain(*out, comm.device, /*writes=*/true) ||
        in->dtype() != out->dtype()) {
      return false;
    }
    dtype = in->dtype();
    const uint64_t elements = static_cast<uint64_t>(in->size());
    count = parts.src == 1 ? elements : elements / parts.src;
    if (count * parts.src != elements ||
        count * parts.dst != static_cast<uint64_t>(out->size())) {
      return false;
    }
    src = in->data();
    dst = out->data();
  }
  uint64_t bytes_of_all = 0;
  if (dtype != known.raw.dtype || (parts.src != 0 && src == nullptr) ||
      (parts.dst != 0 && dst == nullptr) ||
      __builtin_mul_overflow(count, known.bytes_of_all, &bytes_of_all)) {
    return false;
  }
  const uint64_t part_bytes = count * dtype.size();
  checked->op = known.op;
  checked->op.count = count;
  checked->op.src = src;
  checked->op.dst = dst;
  checked->src_bytes = parts.src * part_bytes;
  checked->dst_bytes = parts.dst * part_bytes;
  return IsOverlapAllowed(*checked, parts, part_bytes, comm.rank);
}

}  // namespace

absl::Status CheckRegistered(const Comm& comm, const Array& array) {
  if (IsUsable(comm, array)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      comm.Text(), ": Register: ", WhyNotUsable(comm, "array", array)));
}

absl::StatusOr<bool> Supports(Comm* comm, OpKind kind, DType dtype,
                              Reduction reduction) {
  if (IsSumOfBools(kind, dtype, reduction)) return false;
  const uint32_t op = static_cast<uint32_t>(kind);
  const uint32_t how =
      HasReduction(kind) ? static_cast<uint32_t>(reduction) : 0;
  const uint32_t code = dtype == kBool ? kUInt8.code() : dtype.code();
  const uint32_t key = op << 24 | how << 20 | code;
  const auto known = comm->supported.find(key);
  if (known != comm->supported.end()) return known->second;
  uint32_t yes = 0;
  DEVRT_RETURN_IF_ERROR(comm->Take(
      comm->provider.table->supports(comm->provider.self, op, code, how, &yes),
      "supports"));
  return comm->supported[key] = yes != 0;
}

namespace {

// Not inline, because of the room for its texts.
ABSL_ATTRIBUTE_NOINLINE absl::Status CheckFully(Comm* comm,
                                                const Operation& operation,
                                                CheckedOperation* checked) {
  return Check(comm, operation, checked).Run();
}

}  // namespace

absl::Status CheckOperation(Comm* comm, const Operation& operation,
                            CheckedOperation* checked) {
  if (ABSL_PREDICT_TRUE(CheckPlainly(*comm, operation, checked))) {
    return absl::OkStatus();
  }
  return CheckFully(comm, operation, checked);
}

}  // namespace devrt::collectives::internal
