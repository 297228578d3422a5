// SPDX-License-Identifier: Apache-2.0

#include "collectives/core/operation_checks.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {
namespace {

// Which parts of its memory an operation has, in units of `count` elements.
struct Parts {
  uint64_t src;
  uint64_t dst;
};

bool HasReduction(OpKind kind) {
  return kind == OpKind::kAllReduce || kind == OpKind::kReduce ||
         kind == OpKind::kReduceScatter;
}

bool HasRoot(OpKind kind) {
  return kind == OpKind::kReduce || kind == OpKind::kBroadcast ||
         kind == OpKind::kGather || kind == OpKind::kScatter ||
         kind == OpKind::kSend || kind == OpKind::kRecv;
}

// What this rank has of the operation.
Parts PartsOf(OpKind kind, bool is_root, uint64_t n) {
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
    parts_ = PartsOf(kind_, HasRoot(kind_) && root == comm_->rank,
                     static_cast<uint64_t>(comm_->size));
    DEVRT_RETURN_IF_ERROR(operation_.has_arrays() ? FromArrays()
                                                  : FromPointers());
    DEVRT_RETURN_IF_ERROR(CheckType());
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
    if (array.storage() == nullptr) {
      return Invalid(absl::StrCat(name, " was moved from: pass an array"));
    }
    const Place place = array.place();
    if (place.device() != comm_->device ||
        place.kind() == MemoryKind::kPinned) {
      return Invalid(absl::StrCat(name, " is in ", place.name(),
                                  " and the communicator on ",
                                  comm_->device.name(), ": copy it there"));
    }
    if (!array.IsContiguous()) {
      return Invalid(absl::StrCat(name, " of shape ", ShapeText(array.shape()),
                                  " is not C-contiguous: use Contiguous()"));
    }
    return absl::OkStatus();
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
    if (HasReduction(kind_) && dtype_ == kBool &&
        (reduction == Reduction::kSum || reduction == Reduction::kAvg)) {
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

  // OK for the same elements, or none in common.
  absl::Status CheckOverlap() const {
    const uint64_t src = reinterpret_cast<uint64_t>(checked_.op.src);
    const uint64_t dst = reinterpret_cast<uint64_t>(checked_.op.dst);
    const uint64_t src_bytes = checked_.src_bytes;
    const uint64_t dst_bytes = checked_.dst_bytes;
    if (src_bytes == 0 || dst_bytes == 0) return absl::OkStatus();
    if (src + src_bytes <= dst || dst + dst_bytes <= src) {
      return absl::OkStatus();
    }
    const uint64_t part = checked_.op.count * dtype_.size();
    const uint64_t offset = part * static_cast<uint64_t>(comm_->rank);
    const bool in_place = parts_.src < parts_.dst   ? src == dst + offset
                          : parts_.src > parts_.dst ? dst == src + offset
                                                    : src == dst;
    if (in_place) return absl::OkStatus();
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

}  // namespace

absl::StatusOr<bool> Supports(Comm* comm, OpKind kind, DType dtype,
                              Reduction reduction) {
  const uint32_t op = static_cast<uint32_t>(kind);
  const uint32_t how =
      HasReduction(kind) ? static_cast<uint32_t>(reduction) : 0;
  const uint32_t code = dtype == kBool ? kUInt8.code() : dtype.code();
  const uint32_t key = op << 24 | how << 20 | code;
  if (key == comm->last_supported) return true;
  const auto known = comm->supported.find(key);
  if (known != comm->supported.end()) {
    if (known->second) comm->last_supported = key;
    return known->second;
  }
  uint32_t yes = 0;
  DEVRT_RETURN_IF_ERROR(comm->Take(
      comm->provider.table->supports(comm->provider.self, op, code, how, &yes),
      "supports"));
  return comm->supported[key] = yes != 0;
}

absl::Status CheckOperation(Comm* comm, const Operation& operation,
                            CheckedOperation* checked) {
  return Check(comm, operation, checked).Run();
}

}  // namespace devrt::collectives::internal
