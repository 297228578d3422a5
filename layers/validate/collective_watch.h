// SPDX-License-Identifier: Apache-2.0
//
// CollectiveWatch: the calls of devrt.collectives/0, for the Watcher.
//
// Threads: any.

#ifndef DEVRT_LAYERS_VALIDATE_COLLECTIVE_WATCH_H_
#define DEVRT_LAYERS_VALIDATE_COLLECTIVE_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "layers/validate/layer_state.h"

namespace devrt::race {

// The submissions, copied.
inline std::vector<Collectives> CopyGroup(
    const devrt_submission_v0* submissions, uint32_t count) {
  const auto element = [](const auto* first, uint32_t i) {
    using Struct = std::remove_cv_t<std::remove_pointer_t<decltype(first)>>;
    const auto* const bytes = reinterpret_cast<const std::byte*>(first);
    return plugin::ReadStruct(reinterpret_cast<const Struct*>(
        bytes + static_cast<size_t>(i) * first->struct_size));
  };
  std::vector<Collectives> group;
  for (uint32_t i = 0; submissions != nullptr && i < count; ++i) {
    const devrt_submission_v0 given = element(submissions, i);
    Collectives& of = group.emplace_back();
    of.comm = given.comm;
    of.stream = given.stream;
    for (uint32_t k = 0; given.ops != nullptr && k < given.op_count; ++k) {
      of.calls.push_back(element(given.ops, k));
    }
  }
  return group;
}

class CollectiveWatch {
 protected:
  using CallId = layer::CallId;
  template <CallId kId>
  using Id = std::integral_constant<CallId, kId>;

  template <typename Call>
  devrt_status Handle(Id<CallId::collectives_comm_begin>, Call call,
                      uint32_t device, uint32_t ranks, uint32_t rank,
                      const void* id, uint64_t size,
                      const devrt_comm_options_v0* options, devrt_comm* comm) {
    devrt_status status = call(device, ranks, rank, id, size, options, comm);
    if (status == nullptr) {
      g_layer.validator->BeginComm(device0_, *comm, id, size, ranks, rank);
    }
    return status;
  }

  // Noted before the call: afterwards the child may be ready.
  template <typename Call>
  devrt_status Handle(Id<CallId::collectives_comm_split>, Call call,
                      devrt_comm comm, int32_t color, int32_t key,
                      const devrt_comm_options_v0* options, devrt_comm* child) {
    const Meetings::Child noted =
        g_layer.validator->SplitComm(comm, color, key);
    devrt_status status = call(comm, color, key, options, child);
    EndChild(noted, status, child);
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::collectives_comm_shrink>, Call call,
                      devrt_comm comm, const uint32_t* gone, uint32_t count,
                      uint32_t abort_first, devrt_comm* child) {
    const Meetings::Child noted =
        g_layer.validator->ShrinkComm(comm, gone, count);
    devrt_status status = call(comm, gone, count, abort_first, child);
    EndChild(noted, status, child);
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::collectives_comm_destroy>, Call call,
                      devrt_comm comm) {
    // Before the call: afterwards another thread may get the handle.
    Meetings::Taken taken = g_layer.validator->TakeComm(comm);
    devrt_status status = call(comm);
    g_layer.validator->EndComm(comm, std::move(taken), status == nullptr);
    return status;
  }

  // In the mode "throw" a group with a finding is not passed on.
  template <typename Call>
  devrt_status Handle(Id<CallId::collectives_submit>, Call call,
                      const devrt_submission_v0* submissions, uint32_t count) {
    std::vector<Collectives> group = CopyGroup(submissions, count);
    std::vector<Caller> callers;
    for (const Collectives& of : group) {
      callers.push_back(CallerOn("", of.stream));
      OpId& op = callers.back().op;
      // The simulator makes one operation for each stream of the group.
      if (!is_simulated_ || group.size() > 1) {
        op = OpId();
      } else if (op.known()) {
        op.kind = OpId::Kind::kOwn;
      }
    }
    devrt_status status =
        Verdict(g_layer.validator->EnqueueGroup(callers, &group));
    if (status == nullptr) status = call(submissions, count);
    if (status == nullptr) {
      g_layer.validator->EndGroup(group);
    } else {
      g_layer.validator->RetractGroup(group);
    }
    UpdatePages();
    return status;
  }

  static void EndChild(const Meetings::Child& noted, devrt_status status,
                       const devrt_comm* child) {
    const bool accepted = status == nullptr;
    g_layer.validator->EndChild(noted, accepted ? *child : nullptr, accepted);
  }

  DeviceKey device0_ = 0;
  bool is_simulated_ = false;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_COLLECTIVE_WATCH_H_
