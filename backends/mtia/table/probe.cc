// SPDX-License-Identifier: Apache-2.0
//
// devrt.probe/0: kernels that hold a stream busy.
#include <string>

#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/device_call.h"
#include "backends/mtia/table/poll.h"
#include "backends/mtia/table/submit.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

struct FaultForm {
  int32_t code;
  const char* text;
};
constexpr FaultForm kForms[] = {
    {700, "the kernel writes to address 0"},
    {716, "the kernel loads 4 bytes from an odd address"},
    {710, "device-side assertion: false"},
    {719, "the kernel executes a trap"},
};

Op* NewKernel(Submission* submission, Action action, const char* name) {
  Op* const op =
      submission->NewOp(OpKind::kKernel, EngineClass::kCompute, name);
  op->action = action;
  return op;
}

// Finds the flag of a kernel that waits for one or sets it.  The flag is looked
// up again behind the wait for room, in which another thread may destroy it.
Flag* Prepare(Submission* submission, devrt_flag handle, devrt_status* error) {
  *error = submission->error();
  if (!submission->ok()) return nullptr;
  if (g_machine->flags.Find(handle, error) == nullptr) return nullptr;
  *error = submission->MakeRoomForKernel();
  if (*error != nullptr) return nullptr;
  return g_machine->flags.Find(handle, error);
}

}  // namespace

devrt_status Backend::spin(devrt_stream stream, uint64_t nanoseconds) {
  Submission submission(Slot::spin, stream);
  if (!submission.ok()) return submission.error();
  if (devrt_status error = submission.MakeRoomForKernel()) return error;
  Op* const op = NewKernel(&submission, Action::kSpin, "spin");
  op->duration = nanoseconds;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::flag_create(uint32_t device, devrt_flag* out) {
  DeviceCall call(Slot::flag_create, device);
  if (call.refused()) return call.error();
  Flag* const flag = g_machine->flags.New(device);
  *out = reinterpret_cast<devrt_flag>(HandleOf(*flag));
  return nullptr;
}

devrt_status Backend::flag_destroy(devrt_flag handle) {
  Call call(Slot::flag_destroy, OnFlag(handle));
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  Flag* const flag = g_machine->flags.Find(handle, &error);
  if (flag == nullptr) return error;
  g_machine->flags.Set(flag, 1, g_machine->driver);  // waits for it end
  g_machine->flags.Release(flag);
  return nullptr;
}

devrt_status Backend::flag_wait(devrt_stream stream, devrt_flag handle,
                                uint64_t timeout_ns) {
  Submission submission(Slot::flag_wait, stream);
  devrt_status error = nullptr;
  Flag* const flag = Prepare(&submission, handle, &error);
  if (flag == nullptr) return error;
  Op* const op = NewKernel(&submission, Action::kFlagWait, "flag_wait");
  op->flag = flag;
  op->flag_tag = flag->tag;
  op->timeout = timeout_ns;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::flag_set(devrt_flag handle, uint32_t value) {
  Call call(Slot::flag_set, OnFlag(handle), CallTag::kCallback);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  Flag* const flag = g_machine->flags.Find(handle, &error);
  if (flag == nullptr) return error;
  ResetPollCounts(call.me());
  call.DecideAtEnd();
  g_machine->history.trace.Add(10, flag->number, value);
  g_machine->flags.Set(flag, value, g_machine->driver);
  return nullptr;
}

devrt_status Backend::flag_set_async(devrt_stream stream, devrt_flag handle,
                                     uint32_t value) {
  Submission submission(Slot::flag_set_async, stream);
  devrt_status error = nullptr;
  Flag* const flag = Prepare(&submission, handle, &error);
  if (flag == nullptr) return error;
  Op* const op = NewKernel(&submission, Action::kFlagSet, "flag_set");
  op->flag = flag;
  op->flag_tag = flag->tag;
  op->value = value;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::fault(devrt_stream stream, uint32_t form) {
  Submission submission(Slot::fault, stream);
  if (!submission.ok()) return submission.error();
  if (form >= sizeof kForms / sizeof kForms[0]) {
    return InvalidArgument("fault form " + std::to_string(form) +
                           " does not exist");
  }
  if (devrt_status error = submission.MakeRoomForKernel()) return error;
  Op* const op = NewKernel(&submission, Action::kFault, "fault");
  op->fault_code = kForms[form].code;
  op->fault_text = kForms[form].text;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

const devrt_probe_v0 kProbeTable = {
    sizeof(devrt_probe_v0),
    0,
    devrt::plugin::Thunk<&Backend::spin>,
    devrt::plugin::Thunk<&Backend::flag_create>,
    devrt::plugin::Thunk<&Backend::flag_destroy>,
    devrt::plugin::Thunk<&Backend::flag_wait>,
    devrt::plugin::Thunk<&Backend::flag_set>,
    devrt::plugin::Thunk<&Backend::flag_set_async>,
    devrt::plugin::Thunk<&Backend::fault>,
};

}  // namespace devrt::mtia
