// SPDX-License-Identifier: Apache-2.0
//
// devrt.launch/0: kernels whose bodies are functions of the host.
#include "backends/mtia/table/launch.h"

#include <algorithm>
#include <string>

#include "backends/mtia/table/backend.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

// Reads the declared accesses: sorted, and joined where they overlap.
void TakeRanges(const devrt_launch_desc_v0& desc, std::vector<Range>* out) {
  for (uint32_t i = 0; i < desc.access_count; ++i) {
    const devrt_access_v0& access = desc.accesses[i];
    if (access.size == 0) continue;
    out->push_back({static_cast<std::byte*>(access.ptr), access.size,
                    access.mode, kNever});
  }
  if (out->size() < 2) return;
  std::sort(out->begin(), out->end(), [](const Range& a, const Range& b) {
    return a.ptr != b.ptr ? a.ptr < b.ptr : a.size < b.size;
  });
  size_t last = 0;
  for (size_t i = 1; i < out->size(); ++i) {
    Range& before = (*out)[last];
    const Range& next = (*out)[i];
    std::byte* const end = before.ptr + before.size;
    if (next.ptr < end || (next.ptr == end && next.mode == before.mode)) {
      before.size = static_cast<uint64_t>(std::max(end, next.ptr + next.size) -
                                          before.ptr);
      before.mode |= next.mode;
    } else {
      (*out)[++last] = next;
    }
  }
  out->resize(last + 1);
}

devrt_status CheckAccesses(const devrt_launch_desc_v0& desc) {
  constexpr uint32_t kBoth = DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE;
  for (uint32_t i = 0; i < desc.access_count; ++i) {
    const devrt_access_v0& access = desc.accesses[i];
    if (access.size > UINTPTR_MAX - reinterpret_cast<uintptr_t>(access.ptr)) {
      return InvalidArgument("access " + std::to_string(i) + " of " +
                             std::to_string(access.size) +
                             " bytes passes the end of memory");
    }
    const uint32_t mode = access.mode;
    if (mode != 0 && (mode & ~kBoth) == 0) continue;
    if (mode == (kBoth | DEVRT_ACCESS_REDUCE)) continue;
    return InvalidArgument("access " + std::to_string(i) + " has mode " +
                           std::to_string(mode) +
                           "; expected READ, WRITE, both, or both and REDUCE");
  }
  return nullptr;
}

}  // namespace

devrt_status SubmitKernel(Submission* submission,
                          const devrt_launch_desc_v0& desc) {
  if (devrt_status error = CheckAccesses(desc)) return error;
  const Config& config = g_machine->config;
  if (devrt_status error = submission->MakeRoomForKernel()) return error;
  Op* const op =
      submission->NewOp(OpKind::kKernel, EngineClass::kCompute, "kernel");
  if (op->label.empty() && desc.name != nullptr) op->label = desc.name;
  TakeRanges(desc, &op->ranges);
  op->declared = desc.access_count != 0;
  uint64_t bytes = 0;
  bool reduces = false;
  for (const Range& r : op->ranges) {
    bytes += r.size;
    reduces = reduces || (r.mode & DEVRT_ACCESS_REDUCE) != 0;
  }
  // A reduction between another kernel's reading and writing would be lost, but
  // atomic operations lose nothing.
  op->split = !op->ranges.empty() && bytes <= config.split_limit && !reduces;
  op->duration = desc.duration_ns;
  op->body = desc.body;
  op->destroy = desc.destroy;
  op->arg = desc.arg;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::launch(devrt_stream stream,
                             const devrt_launch_desc_v0* given) {
  const devrt_launch_desc_v0 desc = devrt::plugin::ReadStruct(given);
  Submission submission(Slot::launch, stream);
  if (!submission.ok()) return submission.error();
  if (desc.body == nullptr) return InvalidArgument("the kernel has no body");
  return SubmitKernel(&submission, desc);
}

const devrt_launch_v0 kLaunchTable = {sizeof(devrt_launch_v0), 0,
                                      devrt::plugin::Thunk<&Backend::launch>};

}  // namespace devrt::mtia
