// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/execution.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "backends/mtia/engine/collective_data.h"
#include "backends/mtia/engine/faults.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/user_code.h"

namespace devrt::mtia {
namespace {

constexpr uint64_t kAlign = 64;
constexpr size_t kCompareBlock = 64;
constexpr int kUnread = 0xff;  // NaN: what a kernel must not have read
constexpr int32_t kIllegalAddress = 700;
constexpr int32_t kAssert = 710;

// The local address of `op->size` bytes at `ptr`, or nullptr with the fault of
// `op` set.
std::byte* Touch(Memory* memory, Op* op, const void* ptr) {
  const Resolved r = memory->Find(ptr);
  if (r.local != nullptr &&
      (r.space == Space::kHost ||
       (op->size <= r.size - r.offset && !r.is_pending))) {
    return r.local;
  }
  char text[120];
  std::snprintf(text, sizeof text,
                "touched [%p, +%" PRIu64 "), which is not live memory: it is ",
                ptr, op->size);
  op->fault_code = kIllegalAddress;
  op->fault_text = text + memory->Describe(ptr);
  if (r.is_pending) {
    op->fault_text +=
        ", before its stream-ordered allocation: no event orders it behind "
        "that";
  }
  return nullptr;
}

void BeginCopy(Memory* memory, Op* op) {
  if (op->staged || !op->split) return;
  const std::byte* const from = Touch(memory, op, op->src);
  if (from != nullptr) op->scratch.assign(from, from + op->size);
}

void EndCopy(Memory* memory, Op* op) {
  std::byte* const to = Touch(memory, op, op->dst);
  if (to == nullptr) return;
  if (op->staged || op->split) {
    std::memcpy(to, op->scratch.data(), op->size);
    return;
  }
  const std::byte* const from = Touch(memory, op, op->src);
  if (from == nullptr) return;
  std::memmove(to, from, op->size);
}

void EndFill(Memory* memory, Op* op) {
  std::byte* const to = Touch(memory, op, op->dst);
  if (to != nullptr) {
    std::memset(to, static_cast<int>(op->value & 0xff), op->size);
  }
}

void EndFree(Memory* memory, Op* op) {
  if (memory->EndOrdered(op->dst, op->block, true)) return;
  op->fault_code = kIllegalAddress;
  op->fault_text = "the free of " + memory->Describe(op->dst) +
                   " came before its allocation: no event orders it behind "
                   "that";
}

// True if a kernel finds poison in the range, and has to write all of it.
bool IsPoisoned(const Range& r) {
  return g_machine->config.poison_written && r.mode == DEVRT_ACCESS_WRITE;
}

// Reads all declared ranges.  A range that is not accessible faults only when
// the body asks for it.
void BeginKernel(Memory* memory, Op* op) {
  if (!op->split || memory == nullptr) return;
  uint64_t total = 0;
  for (const Range& r : op->ranges) total += r.size + 2 * kAlign;
  op->scratch.resize(total);
  const auto base = reinterpret_cast<uint64_t>(op->scratch.data());
  uint64_t offset = 0;
  bool writes = false;
  for (Range& r : op->ranges) {
    const auto want = reinterpret_cast<uint64_t>(r.ptr) % kAlign;
    while ((base + offset) % kAlign != want) ++offset;
    std::string why;
    const std::byte* const local =
        memory->Local(op->device, r.ptr, r.size, &why, op->id);
    r.scratch = local != nullptr ? offset : kNever;
    if (local == nullptr) continue;
    if (IsPoisoned(r)) {
      std::memset(op->scratch.data() + offset, kUnread, r.size);
    } else {
      std::memcpy(op->scratch.data() + offset, local, r.size);
    }
    offset += r.size;
    writes = writes || (r.mode & DEVRT_ACCESS_WRITE) != 0;
  }
  if (writes) op->snapshot = op->scratch;
}

// Writes back what the body changed.  What of a poisoned range it wrote cannot
// be told from the bytes, so that is all of the range.
void WriteBack(Memory* memory, Op* op) {
  for (const Range& r : op->ranges) {
    if (r.scratch == kNever || (r.mode & DEVRT_ACCESS_WRITE) == 0) continue;
    std::string why;
    std::byte* const to =
        memory->Local(op->device, r.ptr, r.size, &why, op->id);
    if (to == nullptr) {
      op->fault_code = kIllegalAddress;
      op->fault_text = why;
      return;
    }
    const std::byte* const now = op->scratch.data() + r.scratch;
    if (IsPoisoned(r)) {
      std::memcpy(to, now, r.size);
      continue;
    }
    const std::byte* const was = op->snapshot.data() + r.scratch;
    for (size_t i = 0; i < r.size; i += kCompareBlock) {
      const size_t n = std::min<size_t>(kCompareBlock, r.size - i);
      if (std::memcmp(now + i, was + i, n) == 0) continue;
      for (size_t k = i; k < i + n; ++k) {
        if (now[k] != was[k]) to[k] = now[k];
      }
    }
  }
}

// The declared range that covers [ptr, ptr + size) for `mode`, or nullptr.  A
// body that asks to read and write may only write: pointers that are not to
// const ask for both.
const Range* Declared(const Op* op, const std::byte* ptr, uint64_t size,
                      uint32_t mode) {
  const uint32_t needed =
      (mode & DEVRT_ACCESS_WRITE) != 0 ? DEVRT_ACCESS_WRITE : DEVRT_ACCESS_READ;
  for (const Range& r : op->ranges) {
    if (ptr < r.ptr || ptr > r.ptr + r.size) continue;
    if (size > static_cast<uint64_t>(r.ptr + r.size - ptr)) continue;
    if ((r.mode & needed) != 0) return &r;
  }
  return nullptr;
}

void SetFault(Op* op, int32_t code, const std::string& text) {
  if (op->fault_code != 0) return;  // the first fault stays
  op->fault_code = code;
  op->fault_text = text;
}

void* ContextLocal(const devrt_kernel_context_v0* context, const void* ptr,
                   uint64_t size, uint32_t mode) {
  Op* const op = static_cast<Op*>(context->impl);
  const auto* const bytes = static_cast<const std::byte*>(ptr);
  Memory* const memory = g_machine->memory.IfMade();
  std::string why = "the address is not device memory";
  if (memory != nullptr &&
      !memory->CheckSuballocations(ptr, size, op->id, &why)) {
    SetFault(op, kIllegalAddress, why);
    return nullptr;
  }
  if (op->declared && size != 0) {
    const Range* const range = Declared(op, bytes, size, mode);
    if (range == nullptr) {
      const bool writes = (mode & DEVRT_ACCESS_WRITE) != 0;
      char text[160];
      std::snprintf(text, sizeof text,
                    "undeclared access: %s [%p, +%" PRIu64
                    "), which no range covers that it declares as %s",
                    writes ? "writes" : "reads", ptr, size,
                    writes ? "written" : "read");
      SetFault(op, kIllegalAddress, text);
      return nullptr;
    }
    if (op->split && range->scratch != kNever) {
      return op->scratch.data() + range->scratch + (bytes - range->ptr);
    }
  }
  void* local = nullptr;
  if (memory != nullptr && size == 0) {
    local = memory->Find(ptr).local;
    if (local != nullptr) return local;
  } else if (memory != nullptr) {
    local = memory->Local(op->device, ptr, size, &why, op->id);
  }
  if (local == nullptr && size != 0) SetFault(op, kIllegalAddress, why);
  return local;
}

void ContextFail(const devrt_kernel_context_v0* context, const char* text,
                 uint64_t size) {
  SetFault(static_cast<Op*>(context->impl), kAssert,
           "device-side assertion: " + std::string(text, size));
}

void RunBody(Memory* memory, Op* op) {
  devrt_kernel_context_v0 context = {};
  context.struct_size = sizeof context;
  context.device = op->device;
  context.impl = op;
  context.local = &ContextLocal;
  context.fail = &ContextFail;
  {
    const UserCodeScope scope("a kernel body");
    op->body(op->arg, &context);
  }
  if (op->fault_code == 0 && op->split && memory != nullptr) {
    WriteBack(memory, op);
  }
}

// Runs a phase.  An exception, mostly of missing host memory, becomes a fault
// of the operation.
template <typename Phase>
void Guarded(Op* op, Phase phase) {
  try {
    phase();
  } catch (const std::exception& e) {
    SetFault(op, kLaunchFailure, std::string("it threw ") + e.what());
  } catch (...) {
    SetFault(op, kLaunchFailure,
             "it threw an object that is no std::exception");
  }
}

}  // namespace

void Execution::Begin(Op* op) const {
  if (op->dropped) return;
  Memory* const memory = memory_->IfMade();
  Guarded(op, [&] {
    if (op->kind == OpKind::kCopy) {
      BeginCopy(memory, op);
    } else if (op->kind == OpKind::kKernel && op->action == Action::kBody) {
      BeginKernel(memory, op);
    }
  });
}

Fault Execution::End(Op* op) const {
  if (op->dropped) return Fault();
  // A collective that has met a fault still leaves its outputs undefined.
  if (op->fault_code == 0 || op->kind == OpKind::kCollective) {
    Memory* const memory = memory_->IfMade();
    const bool collects = outcome_->is_on() && memory != nullptr;
    if (collects && op->kind == OpKind::kFree) {
      outcome_->EndBlock(*memory, op->dst);
    }
    Guarded(op, [&] {
      if (op->kind == OpKind::kCopy) {
        EndCopy(memory, op);
      } else if (op->kind == OpKind::kFill) {
        EndFill(memory, op);
      } else if (op->kind == OpKind::kKernel && op->action == Action::kBody) {
        RunBody(memory, op);
      } else if (op->kind == OpKind::kCollective) {
        WriteResults(memory, *config_, op);
      } else if (op->kind == OpKind::kAlloc) {
        memory->BeginOrdered(op->dst, op->block);
      } else if (op->kind == OpKind::kFree) {
        EndFree(memory, op);
      }
      if (collects && op->fault_code == 0) outcome_->AddWrites(*memory, *op);
    });
  }
  if (op->fault_code == 0) return Fault();
  return DescribeFault(*op, op->fault_code, op->fault_text, *config_);
}

void Execution::DropBlock(const Op* op) const {
  if (outcome_->is_on()) outcome_->EndBlock(*memory_->IfMade(), op->dst);
  static_cast<void>(memory_->IfMade()->EndOrdered(op->dst, op->block, false));
}

}  // namespace devrt::mtia
