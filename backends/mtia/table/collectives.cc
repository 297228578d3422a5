// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0: ranks are devices of the machine, or share them.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "backends/mtia/engine/collective_data.h"
#include "backends/mtia/engine/collective_text.h"
#include "backends/mtia/engine/user_code.h"
#include "backends/mtia/kernels/collective.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/collective_submit.h"
#include "backends/mtia/table/device_call.h"
#include "backends/mtia/table/poll.h"
#include "backends/tensor/tensor.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

using internal::FaultClass;

// A thread that polls so often lets timeouts pass, and gets no error: another
// process would come at any time.  A multiple of 64, so that the threaded
// driver pauses at each further poll.
constexpr uint32_t kMostPolls = 4'992;

// A call for a rank's place, which must be live.
class CommCall : public Call {
 public:
  CommCall(Slot slot, devrt_comm handle) : Call(slot) {
    if (!refused()) comm_ = g_machine->collectives.Find(handle, &error_);
  }
  Comm* comm() const { return comm_; }

 private:
  Comm* comm_ = nullptr;
};

CommOptions ReadOptions(const devrt_comm_options_v0* given) {
  CommOptions options;
  if (given == nullptr) return options;
  const devrt_comm_options_v0 read = devrt::plugin::ReadStruct(given);
  options.shared_device = read.shared_device != 0;
  options.timeout = read.timeout_ns;
  if (read.name != nullptr) options.name = read.name;
  return options;
}

devrt_comm HandleOfComm(const Comm* comm) {
  return comm == nullptr ? nullptr
                         : reinterpret_cast<devrt_comm>(HandleOf(*comm));
}

// Where aborts of the rule abort_hangs wait, until the machine ends.
struct Hanging {
  std::mutex mutex;
  std::condition_variable ended;
  uint64_t machines = 0;
};
Hanging& TheHanging() {
  static auto* const hanging = new Hanging();
  return *hanging;
}

// The number of the machine.  Read inside the machine, so that it is known
// before a reset can end it.
uint64_t NumberOfMachine() {
  Hanging& hanging = TheHanging();
  const std::lock_guard<std::mutex> lock(hanging.mutex);
  return hanging.machines;
}

void HangUntilEndOf(uint64_t machine) {
  Hanging& hanging = TheHanging();
  std::unique_lock<std::mutex> lock(hanging.mutex);
  while (hanging.machines == machine) hanging.ended.wait(lock);
}

}  // namespace

void EndHangingAborts() {
  Hanging& hanging = TheHanging();
  const std::lock_guard<std::mutex> lock(hanging.mutex);
  ++hanging.machines;
  hanging.ended.notify_all();
}

devrt_status Backend::collectives_info(devrt_collectives_info_v0* info) {
  constexpr devrt_collectives_info_v0 kInfo = {sizeof kInfo, 100, "mtia",
                                               "0.1.0", ""};
  devrt::plugin::WriteStruct(info, kInfo);
  return nullptr;
}

devrt_status Backend::collectives_supports(uint32_t op, uint32_t dtype,
                                           uint32_t reduction, uint32_t* yes) {
  *yes =
      op < DEVRT_COLLECTIVE_COUNT && tensor::DtypeSize(dtype) != 0 &&
              (!HasReduction(op) || FindRankFold(reduction, dtype) != nullptr)
          ? 1
          : 0;
  return nullptr;
}

devrt_status Backend::unique_id(void* bytes, uint64_t* size) {
  Call call(Slot::unique_id);
  if (call.refused()) return call.error();
  const std::string id = g_machine->collectives.NewId();
  if (*size < id.size()) {
    return InvalidArgument("the room for a unique id has " +
                           std::to_string(*size) + " bytes; expected " +
                           std::to_string(id.size()));
  }
  std::memcpy(bytes, id.data(), id.size());
  *size = id.size();
  return nullptr;
}

devrt_status Backend::comm_begin(uint32_t device, uint32_t ranks, uint32_t rank,
                                 const void* id, uint64_t size,
                                 const devrt_comm_options_v0* options,
                                 devrt_comm* out) {
  DeviceCall call(Slot::comm_begin, device);
  if (call.refused()) return call.error();
  if (id == nullptr || size == 0 || size > DEVRT_COLLECTIVES_MAX_ID) {
    return InvalidArgument("a unique id of " + std::to_string(size) +
                           " bytes does not exist; expected 1 to " +
                           std::to_string(DEVRT_COLLECTIVES_MAX_ID));
  }
  call.NoteSite();
  call.DecideAtEnd();
  Comm* comm = nullptr;
  const std::string name(static_cast<const char*>(id), size);
  devrt_status error = g_machine->collectives.BeginComm(
      device, ranks, rank, name, ReadOptions(options), &comm);
  if (error == nullptr) *out = HandleOfComm(comm);
  return error;
}

devrt_status Backend::comm_poll(devrt_comm handle, uint32_t* state) {
  CommCall call(Slot::comm_poll, handle);
  if (call.refused()) return call.error();
  bool pending = false;
  if (devrt_status error =
          g_machine->collectives.Poll(*call.comm(), &pending)) {
    return error;
  }
  const bool was_pending = pending;
  HostThread* const me = call.me();
  if (pending && t_user_code == nullptr) {
    // As a query of a stream (poll.h), but that it has no point.
    ++me->polled_same;
    if (me->polled_any < kMostPolls) ++me->polled_any;
    me->polled = {};
    me->want.clear();
    me->want_next = 0;
    if (devrt_status error = g_machine->driver->SoftWait(me)) return error;
    devrt_status error = nullptr;
    const Comm* const comm = g_machine->collectives.Find(handle, &error);
    if (comm == nullptr) return error;
    error = g_machine->collectives.Poll(*comm, &pending);
    if (error != nullptr) return error;
  }
  g_machine->history.trace.Add(18, pending ? 0 : 1, me->index);
  // A loop that waits for work polls a communicator that is ready each time:
  // that must not end the count, as the last "not ready" was of the work.
  const bool has_waited = was_pending || me->polled.stream == nullptr;
  if (has_waited && !pending) ResetPollCounts(me);
  *state = pending ? DEVRT_COMM_PENDING : DEVRT_COMM_READY;
  return nullptr;
}

devrt_status Backend::collectives_submit(const devrt_submission_v0* submissions,
                                         uint32_t count) {
  Call call(Slot::comm_submit);
  if (call.refused()) return call.error();
  CollectiveGroup group(&call);
  devrt_status error = group.Read(submissions, count);
  return error != nullptr ? error : group.Submit();
}

devrt_status Backend::comm_revoke(devrt_comm handle) {
  CommCall call(Slot::comm_revoke, handle);
  if (call.refused()) return call.error();
  call.NoteSite();
  call.DecideAtEnd();
  g_machine->collectives.Revoke(call.comm());
  return nullptr;
}

devrt_status Backend::comm_abort(devrt_comm handle) {
  uint64_t machine = 0;
  {
    CommCall call(Slot::comm_abort, handle);
    if (call.refused()) return call.error();
    call.NoteSite();
    if (g_machine->fault_rules.empty() ||
        !g_machine->fault_rules.HitsRank(FaultClass::kAbortHangs,
                                         call.comm()->rank)) {
      call.DecideAtEnd();
      g_machine->collectives.Abort(call.comm(),
                                   "was aborted" + SiteText(call.me()->site));
      return nullptr;
    }
    machine = NumberOfMachine();
  }
  HangUntilEndOf(machine);
  return nullptr;
}

devrt_status Backend::comm_split(devrt_comm handle, int32_t color, int32_t key,
                                 const devrt_comm_options_v0* given,
                                 devrt_comm* child) {
  CommCall call(Slot::comm_split, handle);
  if (call.refused()) return call.error();
  call.DecideAtEnd();
  const CommOptions options = ReadOptions(given);
  Comm* made = nullptr;
  devrt_status error = g_machine->collectives.Split(
      call.comm(), color, key, given != nullptr ? &options : nullptr, &made);
  if (error == nullptr) *child = HandleOfComm(made);
  return error;
}

devrt_status Backend::comm_shrink(devrt_comm handle, const uint32_t* gone,
                                  uint32_t gone_count, uint32_t abort_first,
                                  devrt_comm* child) {
  CommCall call(Slot::comm_shrink, handle);
  if (call.refused()) return call.error();
  if (gone == nullptr && gone_count != 0) {
    return InvalidArgument("comm_shrink: gone is NULL, and gone_count is " +
                           std::to_string(gone_count) +
                           "; expected the ranks that are gone");
  }
  call.DecideAtEnd();
  std::vector<uint32_t> ranks(gone, gone + gone_count);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  Comm* made = nullptr;
  devrt_status error = g_machine->collectives.Shrink(call.comm(), ranks,
                                                     abort_first != 0, &made);
  if (error == nullptr) *child = HandleOfComm(made);
  return error;
}

devrt_status Backend::comm_finish(devrt_comm handle) {
  CommCall call(Slot::comm_finish, handle);
  if (call.refused()) return call.error();
  call.DecideAtEnd();
  return g_machine->collectives.Finish(call.comm());
}

devrt_status Backend::comm_destroy(devrt_comm handle) {
  CommCall call(Slot::comm_destroy, handle);
  if (call.refused()) return call.error();
  call.DecideAtEnd();
  g_machine->collectives.Destroy(call.comm());
  return nullptr;
}

devrt_status Backend::buffer_register(devrt_comm handle, void* ptr,
                                      uint64_t size, void** out) {
  CommCall call(Slot::buffer_register, handle);
  if (call.refused()) return call.error();
  if (devrt_status error = g_machine->collectives.CheckReady(*call.comm())) {
    return error;
  }
  Place* const place = call.comm()->place();
  const Memory* const memory = g_machine->memory.IfMade();
  std::string why = "there is no device memory";
  if (size == 0 || memory == nullptr ||
      memory->Local(place->device, ptr, size, &why) == nullptr) {
    return InvalidArgument("the range to register is no memory of mtia:" +
                           std::to_string(place->device) + ": " +
                           (size == 0 ? "it is empty" : why));
  }
  const uint64_t number = ++place->registered;
  place->buffers.insert(number);
  *out = reinterpret_cast<void*>(number);
  return nullptr;
}

devrt_status Backend::buffer_deregister(devrt_comm handle, void* buffer) {
  CommCall call(Slot::buffer_deregister, handle);
  if (call.refused()) return call.error();
  Place* const place = call.comm()->place();
  const auto number = reinterpret_cast<uint64_t>(buffer);
  if (place == nullptr || place->buffers.erase(number) == 0) {
    return InvalidArgument("no buffer is registered as " +
                           std::to_string(number));
  }
  return nullptr;
}

const devrt_collectives_v0 kCollectivesTable = {
    sizeof(devrt_collectives_v0),
    DEVRT_COLLECTIVES_STREAM_ORDERED | DEVRT_COLLECTIVES_ABORT |
        DEVRT_COLLECTIVES_REVOKE | DEVRT_COLLECTIVES_SPLIT |
        DEVRT_COLLECTIVES_SHRINK | DEVRT_COLLECTIVES_REGISTER |
        DEVRT_COLLECTIVES_SHARED_DEVICE | DEVRT_COLLECTIVES_OWN_DEADLINES |
        DEVRT_COLLECTIVES_COMPARES,
    devrt::plugin::Thunk<&Backend::collectives_info>,
    devrt::plugin::Thunk<&Backend::collectives_supports>,
    devrt::plugin::Thunk<&Backend::unique_id>,
    devrt::plugin::Thunk<&Backend::comm_begin>,
    devrt::plugin::Thunk<&Backend::comm_poll>,
    devrt::plugin::Thunk<&Backend::collectives_submit>,
    devrt::plugin::Thunk<&Backend::comm_revoke>,
    devrt::plugin::Thunk<&Backend::comm_abort>,
    devrt::plugin::Thunk<&Backend::comm_split>,
    devrt::plugin::Thunk<&Backend::comm_shrink>,
    devrt::plugin::Thunk<&Backend::comm_finish>,
    devrt::plugin::Thunk<&Backend::comm_destroy>,
    devrt::plugin::Thunk<&Backend::buffer_register>,
    devrt::plugin::Thunk<&Backend::buffer_deregister>,
};

}  // namespace devrt::mtia
