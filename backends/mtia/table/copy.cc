// SPDX-License-Identifier: Apache-2.0
//
// Copies and fills (docs/reference/simulator-rules.md 5).
#include <algorithm>
#include <cstring>
#include <string>

#include "backends/mtia/engine/cost.h"
#include "backends/mtia/engine/dependencies.h"
#include "backends/mtia/memory/block.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/submit.h"

namespace devrt::mtia {
namespace {

// Stands for the number of the next submission.
constexpr uint64_t kNext = UINT64_MAX - 1;

enum PageableChoice : uint32_t { kStaged, kSync, kLate };
constexpr uint32_t kPageableChoices = 3;

bool IsDevice(const Resolved& r) { return r.space == Space::kDevice; }

std::string Where(const Resolved& r) {
  switch (r.space) {
    case Space::kHost:
      return "pageable host memory";
    case Space::kDevice:
      return "memory of device mtia:" + std::to_string(r.device);
    case Space::kPinned:
      return "pinned host memory";
    case Space::kRegistered:
      return "registered host memory";
  }
  return "unknown memory";
}

// NULL if the memory is live and `size` bytes of it lie in one allocation.
devrt_status CheckRange(const Resolved& r, const char* what, uint64_t size) {
  std::string why;
  if (!g_machine->memory.IfMade()->CheckSuballocations(r.base + r.offset, size,
                                                       kNext, &why)) {
    return InvalidArgument(std::string("the ") + what + " is " + why);
  }
  if (r.closed != kNotClosed) {
    return InvalidArgument(std::string("the ") + what + " is " +
                           g_machine->memory.IfMade()->Describe(r.base) +
                           ": use after its stream-ordered free");
  }
  if (r.local == nullptr) {
    return InvalidArgument(std::string("the ") + what +
                           " is a device or pinned address that is not "
                           "allocated");
  }
  if (r.space != Space::kHost && (size > r.size || r.offset > r.size - size)) {
    return InvalidArgument(
        std::string("the ") + what + " range of " + std::to_string(size) +
        " bytes at offset " + std::to_string(r.offset) +
        " leaves its allocation of " + std::to_string(r.size) + " bytes");
  }
  return nullptr;
}

devrt_status CheckOverlap(const void* dst, const void* src, uint64_t size) {
  const auto* const a = static_cast<const std::byte*>(dst);
  const auto* const b = static_cast<const std::byte*>(src);
  if (a + size <= b || b + size <= a) return nullptr;
  return InvalidArgument("source and destination overlap");
}

// NULL if the device of `s` may access `r`.
devrt_status CheckAccess(const StreamCore* s, const Resolved& r,
                         const char* what, const char* remedy) {
  if (!IsDevice(r) || r.device == s->device ||
      g_machine->memory.IfMade()->PeerEnabled(s->device, r.device)) {
    return nullptr;
  }
  return InvalidArgument(
      std::string("the ") + what + " is " + Where(r) +
      ", which the stream's device mtia:" + std::to_string(s->device) +
      " may not access; " + remedy);
}

uint32_t KindOf(const Resolved& dst, const Resolved& src) {
  if (IsDevice(dst)) return IsDevice(src) ? DEVRT_COPY_D2D : DEVRT_COPY_H2D;
  return IsDevice(src) ? DEVRT_COPY_D2H : DEVRT_COPY_H2H;
}

EngineClass EngineOf(uint32_t kind, bool peer) {
  if (peer) return EngineClass::kP2P;
  if (kind == DEVRT_COPY_H2D) return EngineClass::kH2D;
  if (kind == DEVRT_COPY_D2H) return EngineClass::kD2H;
  return EngineClass::kCompute;
}

const char* NameOf(EngineClass engine) {
  switch (engine) {
    case EngineClass::kH2D:
      return "copy H2D";
    case EngineClass::kD2H:
      return "copy D2H";
    case EngineClass::kP2P:
      return "copy P2P";
    default:
      return "copy D2D";
  }
}

PageableChoice ChoosePageable() {
  switch (g_machine->config.pageable) {
    case Pageable::kStaged:
      return kStaged;
    case Pageable::kSync:
      return kSync;
    case Pageable::kLate:
      return kLate;
    case Pageable::kExplore:
      break;
  }
  // asap is the run that others are compared with.
  Decisions& decisions = g_machine->decisions;
  const bool draws = g_machine->config.strategy != StrategyKind::kAsap &&
                     !decisions.replaying();
  const uint32_t preferred = draws ? decisions.Uniform(kPageableChoices) : 0;
  return static_cast<PageableChoice>(
      decisions.Choose(ChoiceKind::kPageable, kPageableChoices, preferred));
}

Op* MakeCopy(Submission* submission, EngineClass engine, void* dst,
             const void* src, uint64_t size) {
  Op* const op = submission->NewOp(OpKind::kCopy, engine, NameOf(engine));
  op->dst = dst;
  op->src = src;
  op->size = size;
  op->split = size <= g_machine->config.split_limit;
  return op;
}

// Waits for the copy that was just submitted.  If the wait fails, the copy does
// nothing.
devrt_status WaitForCopy(Submission* submission) {
  const Point copy{submission->core(), submission->core()->issued};
  Points& want = submission->call().me()->want;
  want.clear();
  want.push_back(copy);
  devrt_status error = submission->call().Wait();
  if (error != nullptr) g_machine->scheduler.Drop(copy);
  return error;
}

// Copies from host to host, after all work of the stream, in the calling
// thread.
devrt_status CopyHost(Submission* submission, void* dst, const void* src,
                      uint64_t size) {
  Points& want = submission->call().me()->want;
  want.clear();
  AddPredecessors(g_machine->streams, submission->core(), &want);
  if (devrt_status error = submission->call().Wait()) return error;
  std::memmove(dst, src, size);
  HostThread* const me = submission->call().me();
  const uint64_t copy = me->host_copies++;
  Outcome& outcome = g_machine->history.outcome;
  if (outcome.is_on()) outcome.AddHostCopy(me->index, copy, dst, size);
  return nullptr;
}

devrt_status CheckCopy(const StreamCore* s, const Resolved& to,
                       const Resolved& from, void* dst, const void* src,
                       uint64_t size, uint32_t kind) {
  if (devrt_status error = CheckRange(to, "destination", size)) return error;
  if (devrt_status error = CheckRange(from, "source", size)) return error;
  const uint32_t actual = KindOf(to, from);
  if (kind != DEVRT_COPY_INFER && kind != actual) {
    return MakeError(DEVRT_INVALID_ARGUMENT, 21,
                     "copy kind " + std::to_string(kind) +
                         " does not fit: the destination is " + Where(to) +
                         ", the source " + Where(from));
  }
  if (devrt_status error = CheckOverlap(dst, src, size)) return error;
  constexpr const char* kRemedy = "enable the peer or use copy_peer_async";
  if (devrt_status error = CheckAccess(s, to, "destination", kRemedy)) {
    return error;
  }
  return CheckAccess(s, from, "source", kRemedy);
}

// NULL if both devices exist, one of them is that of `s`, and the other works.
// Submission has asked for faults of the device of `s`.
devrt_status CheckPeerDevices(const StreamCore* s, uint32_t dst_device,
                              uint32_t src_device) {
  for (const uint32_t device : {dst_device, src_device}) {
    if (devrt_status error = CheckDevice(device)) return error;
  }
  if (s->device != dst_device && s->device != src_device) {
    return InvalidArgument(
        "the stream's device mtia:" + std::to_string(s->device) +
        " is neither source nor destination");
  }
  const uint32_t other = s->device == dst_device ? src_device : dst_device;
  return g_machine->faults.DeviceError(other, "copy_peer_async");
}

// NULL if both sides are live memory of the devices that the call names.
devrt_status CheckPeerSides(const Resolved& to, uint32_t dst_device,
                            const Resolved& from, uint32_t src_device,
                            uint64_t size) {
  if (devrt_status bad = CheckRange(to, "destination", size)) return bad;
  if (devrt_status bad = CheckRange(from, "source", size)) return bad;
  if (!IsDevice(to) || to.device != dst_device) {
    return InvalidArgument(
        "the destination is " + Where(to) +
        ", not of device mtia:" + std::to_string(dst_device));
  }
  if (!IsDevice(from) || from.device != src_device) {
    return InvalidArgument(
        "the source is " + Where(from) +
        ", not of device mtia:" + std::to_string(src_device));
  }
  return nullptr;
}

}  // namespace

devrt_status Backend::copy_async(devrt_stream stream, void* dst,
                                 const void* src, uint64_t size,
                                 uint32_t kind) {
  Submission submission(Slot::copy_async, stream);
  if (!submission.ok()) return submission.error();
  devrt_status error = nullptr;
  const Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  const Resolved to = memory->Find(dst);
  const Resolved from = memory->Find(src);
  StreamCore* const s = submission.core();
  error = CheckCopy(s, to, from, dst, src, size, kind);
  if (error != nullptr) return error;
  const uint32_t actual = KindOf(to, from);
  if (actual == DEVRT_COPY_H2H) return CopyHost(&submission, dst, src, size);
  error = submission.MakeRoom();
  if (error != nullptr) return error;
  const bool peer = (IsDevice(to) && to.device != s->device) ||
                    (IsDevice(from) && from.device != s->device);
  const bool pageable = to.space == Space::kHost || from.space == Space::kHost;
  const PageableChoice mode = pageable ? ChoosePageable() : kLate;
  Op* const op = MakeCopy(&submission, EngineOf(actual, peer), dst, src, size);
  if (mode == kStaged && actual == DEVRT_COPY_H2D) {
    const auto* const bytes = static_cast<const std::byte*>(src);
    op->scratch.assign(bytes, bytes + size);
    op->staged = true;
  }
  g_machine->scheduler.Submit(op);
  const bool waits =
      mode == kSync || (mode == kStaged && actual == DEVRT_COPY_D2H);
  return waits ? WaitForCopy(&submission) : nullptr;
}

devrt_status Backend::copy_peer_async(devrt_stream stream, void* dst,
                                      uint32_t dst_device, const void* src,
                                      uint32_t src_device, uint64_t size) {
  Submission submission(Slot::copy_peer_async, stream);
  if (!submission.ok()) return submission.error();
  StreamCore* const s = submission.core();
  devrt_status error = CheckPeerDevices(s, dst_device, src_device);
  if (error != nullptr) return error;
  const Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  const Resolved to = memory->Find(dst);
  const Resolved from = memory->Find(src);
  error = CheckPeerSides(to, dst_device, from, src_device, size);
  if (error != nullptr) return error;
  if (devrt_status bad = CheckOverlap(dst, src, size)) return bad;
  if (devrt_status bad = submission.MakeRoom()) return bad;
  const bool peer = dst_device != src_device;
  Op* const op =
      MakeCopy(&submission, EngineOf(DEVRT_COPY_D2D, peer), dst, src, size);
  if (peer &&
      !memory->PeerEnabled(s->device,
                           s->device == dst_device ? src_device : dst_device)) {
    // Staged through the host: one transfer after the other.
    op->engine = EngineClass::kD2H;
    op->duration = CostOf(*op, g_machine->config);
    op->engine = EngineClass::kH2D;
    op->duration += CostOf(*op, g_machine->config);
    op->engine = EngineClass::kP2P;
  }
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::fill_async(devrt_stream stream, void* dst, uint32_t value,
                                 uint64_t size) {
  Submission submission(Slot::fill_async, stream);
  if (!submission.ok()) return submission.error();
  devrt_status error = nullptr;
  const Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  const Resolved to = memory->Find(dst);
  if (devrt_status bad = CheckRange(to, "destination", size)) return bad;
  if (!IsDevice(to)) {
    return InvalidArgument("the destination of a fill is " + Where(to) +
                           ", not device memory");
  }
  if (devrt_status bad = CheckAccess(submission.core(), to, "destination",
                                     "use a stream of that device")) {
    return bad;
  }
  if (devrt_status bad = submission.MakeRoom()) return bad;
  Op* const op = submission.NewOp(OpKind::kFill, EngineClass::kCompute, "fill");
  op->dst = dst;
  op->value = value;
  op->size = size;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

}  // namespace devrt::mtia
