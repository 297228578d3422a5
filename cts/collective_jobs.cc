// SPDX-License-Identifier: Apache-2.0
#include "cts/collective_jobs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "cts/tensors.h"

namespace devrt::cts {
namespace {

constexpr const char* kNames[] = {
    "all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter",
    "all_to_all", "gather", "scatter",   "send",       "recv"};
static_assert(std::size(kNames) == DEVRT_COLLECTIVE_COUNT);
constexpr const char* kReductions[] = {"sum", "prod", "min", "max", "avg"};
constexpr uint32_t kReductionCount = std::size(kReductions);

bool IsReduction(uint32_t op) {
  return op == DEVRT_COLLECTIVE_ALL_REDUCE || op == DEVRT_COLLECTIVE_REDUCE ||
         op == DEVRT_COLLECTIVE_REDUCE_SCATTER;
}
bool HasRoot(uint32_t op) {
  return op == DEVRT_COLLECTIVE_REDUCE || op == DEVRT_COLLECTIVE_BROADCAST ||
         op == DEVRT_COLLECTIVE_GATHER || op == DEVRT_COLLECTIVE_SCATTER;
}

uint64_t PartSize(const Job& job) { return job.count * SizeOf(job.dtype); }

uint32_t Operator(uint32_t reduction) {
  switch (reduction) {
    case DEVRT_COLLECTIVE_PROD:
      return DEVRT_OP_MUL;
    case DEVRT_COLLECTIVE_MIN:
      return DEVRT_OP_MINIMUM;
    case DEVRT_COLLECTIVE_MAX:
      return DEVRT_OP_MAXIMUM;
    default:
      return DEVRT_OP_ADD;
  }
}

long double SizeOfNumber(const Number& n) {
  return n.kind == Number::Kind::kInteger
             ? std::fabs(static_cast<long double>(n.integer))
             : std::hypot(n.re, n.im);
}

// One element of all ranks, in their order.
struct Fold {
  Number value;
  long double scale = 0;  // what the rounding errors are relative to
};

Fold FoldOf(const Job& job, const std::vector<const uint8_t*>& elements) {
  Fold fold = {Load(job.dtype, elements[0]), 0};
  fold.scale = SizeOfNumber(fold.value);
  const auto ranks = static_cast<long double>(elements.size());
  for (size_t i = 1; i < elements.size(); ++i) {
    const Number next = Load(job.dtype, elements[i]);
    const long double size = SizeOfNumber(next);
    switch (job.reduction) {
      case DEVRT_COLLECTIVE_PROD:
        fold.scale *= size;
        break;
      case DEVRT_COLLECTIVE_MIN:
      case DEVRT_COLLECTIVE_MAX:
        fold.scale = 0;  // exact
        break;
      default:
        fold.scale += size;
    }
    fold.value = Compute(Operator(job.reduction), job.dtype, fold.value, next);
    if (!IsInteger(job.dtype)) continue;
    uint8_t wrapped[16];
    Store(job.dtype, fold.value, wrapped);
    fold.value = Load(job.dtype, wrapped);
  }
  if (job.reduction == DEVRT_COLLECTIVE_AVG) {
    fold.value.integer /= static_cast<Wide>(elements.size());
    fold.value.re /= ranks;
    fold.value.im /= ranks;
    fold.scale /= ranks;
  }
  fold.scale *= 2 * ranks * EpsilonOf(job.dtype);
  return fold;
}

// The reduction of `rank`'s part of the sources.
Bytes Reduced(const Job& job, const std::vector<Bytes>& sources, size_t part,
              std::vector<long double>* tolerances) {
  const size_t item = SizeOf(job.dtype);
  Bytes out(PartSize(job));
  for (uint64_t i = 0; i < job.count; ++i) {
    std::vector<const uint8_t*> elements;
    for (const Bytes& source : sources) {
      elements.push_back(source.data() + part * PartSize(job) + i * item);
    }
    const Fold fold = FoldOf(job, elements);
    Store(job.dtype, fold.value, out.data() + i * item);
    if (tolerances != nullptr) tolerances->push_back(fold.scale);
  }
  return out;
}

Bytes PartOf(const Job& job, const Bytes& from, size_t part) {
  const auto begin =
      from.begin() + static_cast<ptrdiff_t>(part * PartSize(job));
  return Bytes(begin, begin + static_cast<ptrdiff_t>(PartSize(job)));
}

Bytes Expect(const Job& job, const std::vector<Bytes>& sources, size_t rank,
             std::vector<long double>* tolerances) {
  const size_t ranks = sources.size();
  const auto root = static_cast<size_t>(job.root);
  Bytes out;
  const auto add = [&out](const Bytes& part) {
    out.insert(out.end(), part.begin(), part.end());
  };
  switch (job.op) {
    case DEVRT_COLLECTIVE_ALL_REDUCE:
      return Reduced(job, sources, 0, tolerances);
    case DEVRT_COLLECTIVE_REDUCE:
      if (rank == root) out = Reduced(job, sources, 0, tolerances);
      break;
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
      return Reduced(job, sources, rank, tolerances);
    case DEVRT_COLLECTIVE_BROADCAST:
      return PartOf(job, sources[root], 0);
    case DEVRT_COLLECTIVE_GATHER:
      if (rank != root) break;
      [[fallthrough]];
    case DEVRT_COLLECTIVE_ALL_GATHER:
      for (const Bytes& source : sources) add(PartOf(job, source, 0));
      break;
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      for (const Bytes& source : sources) add(PartOf(job, source, rank));
      break;
    case DEVRT_COLLECTIVE_SCATTER:
      return PartOf(job, sources[root], rank);
    default:  // the ring
      return PartOf(job, sources[(rank + ranks - 1) % ranks], 0);
  }
  return out;
}

}  // namespace

std::string TextOf(const Job& job) {
  std::string text =
      absl::StrCat(kNames[job.op], "(", DtypeName(job.dtype), " x ", job.count);
  if (IsReduction(job.op))
    absl::StrAppend(&text, ", ", kReductions[job.reduction]);
  if (HasRoot(job.op)) absl::StrAppend(&text, ", root ", job.root);
  return absl::StrCat(text, job.in_place ? ", in place)" : ")");
}

std::vector<Job> JobsOf(const CollectiveTable& table, uint32_t dtype,
                        uint64_t count) {
  std::vector<Job> jobs;
  for (uint32_t op = 0; op < DEVRT_COLLECTIVE_RECV; ++op) {
    const uint32_t reductions = IsReduction(op) ? kReductionCount : 1;
    for (uint32_t how = 0; how < reductions; ++how) {
      if (!table.Supports(op, dtype, how)) continue;
      if (op == DEVRT_COLLECTIVE_SEND &&
          !table.Supports(DEVRT_COLLECTIVE_RECV, dtype, how)) {
        continue;
      }
      jobs.push_back({op, dtype, how, HasRoot(op) ? 1 : 0, count, false});
    }
  }
  return jobs;
}

uint64_t SourceSize(const Job& job, size_t ranks, size_t rank) {
  const bool is_root = static_cast<size_t>(job.root) == rank;
  switch (job.op) {
    case DEVRT_COLLECTIVE_REDUCE_SCATTER:
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      return ranks * PartSize(job);
    case DEVRT_COLLECTIVE_SCATTER:
      return is_root ? ranks * PartSize(job) : 0;
    case DEVRT_COLLECTIVE_BROADCAST:
      return is_root ? PartSize(job) : 0;
    default:
      return PartSize(job);
  }
}

uint64_t ResultSize(const Job& job, size_t ranks, size_t rank) {
  const bool is_root = static_cast<size_t>(job.root) == rank;
  switch (job.op) {
    case DEVRT_COLLECTIVE_ALL_GATHER:
    case DEVRT_COLLECTIVE_ALL_TO_ALL:
      return ranks * PartSize(job);
    case DEVRT_COLLECTIVE_GATHER:
      return is_root ? ranks * PartSize(job) : 0;
    case DEVRT_COLLECTIVE_REDUCE:
      return is_root ? PartSize(job) : 0;
    default:
      return PartSize(job);
  }
}

uint64_t SourceOffset(const Job& job, size_t rank) {
  const bool is_part = job.op == DEVRT_COLLECTIVE_ALL_GATHER ||
                       job.op == DEVRT_COLLECTIVE_GATHER;
  return is_part ? rank * PartSize(job) : 0;
}

uint64_t ResultOffset(const Job& job, size_t rank) {
  const bool is_part = job.op == DEVRT_COLLECTIVE_REDUCE_SCATTER ||
                       job.op == DEVRT_COLLECTIVE_SCATTER;
  return is_part ? rank * PartSize(job) : 0;
}

CollectiveOps OpsOf(const Job& job, size_t ranks, size_t rank, uint8_t* src,
                    uint8_t* dst) {
  devrt_collective_v0 op = {};
  op.struct_size = sizeof op;
  op.op = job.op;
  op.dtype = job.dtype;
  op.reduction = job.reduction;
  op.root_or_peer = job.root;
  op.count = job.count;
  if (job.op != DEVRT_COLLECTIVE_SEND) {
    if (SourceSize(job, ranks, rank) != 0) op.src = src;
    if (ResultSize(job, ranks, rank) != 0) op.dst = dst;
    return {op};
  }
  devrt_collective_v0 receive = op;
  op.src = src;
  op.root_or_peer = static_cast<int32_t>((rank + 1) % ranks);
  receive.op = DEVRT_COLLECTIVE_RECV;
  receive.dst = dst;
  receive.root_or_peer = static_cast<int32_t>((rank + ranks - 1) % ranks);
  // In the other order on every second rank.
  if (rank % 2 != 0) return {receive, op};
  return {op, receive};
}

Bytes Expected(const Job& job, const std::vector<Bytes>& sources, size_t rank) {
  return Expect(job, sources, rank, nullptr);
}

std::string Difference(const Job& job, const std::vector<Bytes>& sources,
                       size_t rank, const uint8_t* got) {
  std::vector<long double> tolerances;
  const Bytes want = Expect(job, sources, rank, &tolerances);
  const size_t item = SizeOf(job.dtype);
  for (size_t i = 0; i < want.size() / item; ++i) {
    const uint8_t* const element = want.data() + i * item;
    const bool is_right =
        tolerances.empty()
            ? std::memcmp(got + i * item, element, item) == 0
            : Matches(job.dtype, got + i * item, element, true, tolerances[i]);
    if (is_right) continue;
    return absl::StrCat(TextOf(job), " of ", sources.size(), " ranks: element ",
                        i, " of rank ", rank, " is ",
                        TextOf(job.dtype, got + i * item), ", not ",
                        TextOf(job.dtype, element));
  }
  return "";
}

// ---- RankMemory

RankMemory::RankMemory(Test& t, const std::vector<uint32_t>& devices) {
  for (const uint32_t device : devices) {
    device_.emplace_back(t, device, 2 * kRoom);
    host_.emplace_back(t, device, 2 * kRoom);
  }
}

void RankMemory::Upload(const Ranks& ranks, size_t rank, uint64_t size) const {
  const RawStream& s = ranks.stream(rank);
  s.Copy(device_src(rank), src(rank), size, DEVRT_COPY_H2D);
  s.Copy(device_dst(rank), dst(rank), size, DEVRT_COPY_H2D);
}

void RankMemory::Download(const Ranks& ranks, size_t rank,
                          uint64_t size) const {
  const RawStream& s = ranks.stream(rank);
  s.Copy(src(rank), device_src(rank), size, DEVRT_COPY_D2H);
  s.Copy(dst(rank), device_dst(rank), size, DEVRT_COPY_D2H);
}

bool RunJob(const Ranks& ranks, const RankMemory& memory, const Job& job) {
  Test& t = ranks.table().t();
  const size_t n = ranks.size();
  constexpr uint64_t kBeside = 64;
  const uint64_t used = n * PartSize(job) + kBeside;
  t.Require(used <= RankMemory::kRoom, "a job fits its memory");
  std::vector<Bytes> sources(n), before(n);
  std::vector<CollectiveOps> ops;
  for (size_t r = 0; r < n; ++r) {
    // In place, the operation has its smaller buffer in the larger one.
    uint8_t* const base = memory.device_src(r);
    std::fill_n(memory.src(r), used, uint8_t{0xa5});
    std::fill_n(memory.dst(r), used, uint8_t{0x5a});
    const uint64_t from = job.in_place ? SourceOffset(job, r) : 0;
    sources[r].resize(SourceSize(job, n, r));
    for (size_t i = 0; i < sources[r].size(); i += SizeOf(job.dtype)) {
      RandomSmall(t.random(), job.dtype, &sources[r][i]);
    }
    std::copy(sources[r].begin(), sources[r].end(), memory.src(r) + from);
    before[r].assign(memory.src(r), memory.src(r) + used);
    memory.Upload(ranks, r, used);
    ops.push_back(OpsOf(
        job, n, r, base + from,
        job.in_place ? base + ResultOffset(job, r) : memory.device_dst(r)));
  }
  ranks.Sync();
  if (!t.Ok(ranks.SubmitAll(ops), TextOf(job))) return false;
  for (size_t r = 0; r < n; ++r) memory.Download(ranks, r, used);
  ranks.Sync();
  for (size_t r = 0; r < n; ++r) {
    uint8_t* const got =
        job.in_place ? memory.src(r) + ResultOffset(job, r) : memory.dst(r);
    const std::string wrong = Difference(job, sources, r, got);
    if (!wrong.empty()) {
      t.Fail(wrong);
      return false;
    }
    // Without the result, all is as before.
    const uint64_t size = ResultSize(job, n, r);
    const uint64_t at = job.in_place ? ResultOffset(job, r) : 0;
    if (job.in_place) {
      std::copy_n(before[r].begin() + static_cast<ptrdiff_t>(at), size, got);
    } else {
      std::fill_n(got, size, uint8_t{0x5a});
    }
    const bool is_kept =
        std::equal(before[r].begin(), before[r].end(), memory.src(r)) &&
        std::all_of(memory.dst(r), memory.dst(r) + used,
                    [](uint8_t byte) { return byte == 0x5a; });
    if (!t.Expect(is_kept, absl::StrCat(TextOf(job), ": rank ", r,
                                        " keeps every byte beside its "
                                        "result"))) {
      return false;
    }
  }
  return true;
}

}  // namespace devrt::cts
