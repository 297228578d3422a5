// SPDX-License-Identifier: Apache-2.0
//
// One group of operations: everything is checked before the first native call.
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/calls.h"
#include "collectives/nccl/checks.h"
#include "collectives/nccl/engine.h"
#include "collectives/nccl/errors.h"
#include "collectives/room.h"

namespace devrt::collectives::nccl {
namespace {

// One submission that has operations with elements.
struct Part {
  const devrt_submission_v0* submission;
  Member* member;
  Stream stream;
};

// Parts, whose members the calling thread uses until the end.
class Parts {
 public:
  explicit Parts(uint32_t most) : parts_(most) {}
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    for (const Part& part : parts_) part.member->EndUse();
  }

  void Add(const devrt_submission_v0* submission, Member::Use use) {
    parts_.Add(submission, use.Release(), nullptr);
  }
  Part* begin() { return parts_.begin(); }
  Part* end() { return parts_.end(); }
  const Part* begin() const { return parts_.begin(); }
  const Part* end() const { return parts_.end(); }
  Member* first() const { return parts_[0].member; }

 private:
  internal::Room<Part> parts_;
};

[[gnu::cold]] devrt_status StructError(const devrt_submission_v0& s) {
  return Refuse(
      DEVRT_INVALID_ARGUMENT,
      absl::StrCat("struct_size of the submission is ", s.struct_size,
                   " and comm is ", s.comm == nullptr ? "NULL" : "given",
                   ", expected ", sizeof s, " and a communicator"));
}

devrt_status CheckStruct(const devrt_submission_v0& s) {
  return __builtin_expect(s.struct_size < sizeof s || s.comm == nullptr, 0)
             ? StructError(s)
             : nullptr;
}

[[gnu::cold]] devrt_status AbortError(const Member& member) {
  return Refuse(DEVRT_ABORTED,
                absl::StrCat(member.Describe(), " is being aborted"));
}

devrt_status CheckMember(Member* member, const Member::Use& use) {
  if (devrt_status error = member->CheckReady()) return error;
  return __builtin_expect(!use, 0) ? AbortError(*member) : nullptr;
}

// Adds the submission, if the library has anything to do for it.
devrt_status Check(const Library& library, const devrt_submission_v0& s,
                   Parts* parts, int* native_calls) {
  if (devrt_status error = CheckStruct(s)) return error;
  Member* const member = Member::Of(s.comm);
  Member::Use use(member);
  if (devrt_status error = CheckMember(member, use)) return error;
  const int before = *native_calls;
  for (uint32_t i = 0; i < s.op_count; ++i) {
    const devrt_collective_v0& op = s.ops[i];
    if (devrt_status error = CheckOperation(library, member, op)) return error;
    if (op.count != 0) *native_calls += IsOneCall(library, op.op) ? 1 : 2;
  }
  if (*native_calls != before) parts->Add(&s, std::move(use));
  return nullptr;
}

// The library takes no group of calls that block and calls that do not.
devrt_status CheckAlike(const Parts& parts) {
  const Member& first = *parts.first();
  for (const Part& part : parts) {
    const Member& other = *part.member;
    if (other.waits() == first.waits()) continue;
    return Refuse(
        DEVRT_INVALID_ARGUMENT,
        absl::StrCat("a group has ", first.Describe(), " and ",
                     other.Describe(),
                     ", and submissions of only one may wait: give both "
                     "Options::watch, timeout, on_failure and shared_device "
                     "alike, or use a group for each"));
  }
  return nullptr;
}

// Ranks of one device wait for each other: in one stream the first would keep
// the second from its beginning for ever.  The check asks for neither
// communicator nor operation: ranks of two communicators are refused, too.
devrt_status CheckSharedStreams(const Parts& parts) {
  for (const Part* a = parts.begin(); a != parts.end(); ++a) {
    if (!a->member->shares_device()) continue;
    for (const Part* b = a + 1; b != parts.end(); ++b) {
      if (b->member->device() != a->member->device() ||
          b->member->rank() == a->member->rank() || b->stream != a->stream) {
        continue;
      }
      return Refuse(
          DEVRT_INVALID_ARGUMENT,
          absl::StrCat(a->member->Describe(), " and ", b->member->Describe(),
                       " have one stream, in which the second operation begins "
                       "when the first has ended, which waits for the second: "
                       "give each rank of the device a stream"));
    }
  }
  return nullptr;
}

// True for the numbers of CUDA's default streams, legacy and per-thread: such a
// handle means the stream of the current device.
bool IsNumber(Stream stream) {
  return reinterpret_cast<uintptr_t>(stream) <= 2;
}

// With one rank the library enqueues at the call, and not at the group's end:
// an average then launches a kernel on the current device.  It also asks at the
// call whether the stream captures.
bool NeedsItsDevice(const Library& library, const Part& part) {
  return !library.flavor->groups_find_devices || part.member->ranks() == 1 ||
         IsNumber(part.stream);
}

// Finds before anything is enqueued that a device cannot be entered.  That of
// the first part is current afterwards.
devrt_status EnterDevices(const Library& library, const Parts& parts,
                          DeviceScope* scope) {
  devrt::internal::DeviceGate* const first = parts.first()->device();
  for (const Part& part : parts) {
    devrt::internal::DeviceGate* const device = part.member->device();
    if (device == first) continue;
    if (devrt_status error = NeedsItsDevice(library, part)
                                 ? scope->Enter(device)
                                 : DeviceScope::CheckOpen(device)) {
      return error;
    }
  }
  return scope->Enter(first);
}

devrt_status FindStream(const Member& member, const devrt_submission_v0& s,
                        Stream* stream) {
  devrt::internal::DeviceGate* const device = member.device();
  return device->ops->stream_native(device->self, s.stream, stream);
}

}  // namespace

devrt_status Engine::SubmitOne(const devrt_submission_v0& s) {
  if (devrt_status error = CheckStruct(s)) return error;
  Member* const member = Member::Of(s.comm);
  const Member::Use use(member);
  if (devrt_status error = CheckMember(member, use)) return error;
  const devrt_collective_v0& op = s.ops[0];
  if (devrt_status error = CheckOperation(library_, member, op)) return error;
  if (op.count == 0) return nullptr;
  Stream stream = nullptr;
  if (devrt_status error = FindStream(*member, s, &stream)) return error;
  DeviceScope scope;
  if (devrt_status error = scope.Enter(member->device())) return error;
  const char* symbol = "";
  const Result result = Call(library_, member, op, stream, &symbol);
  return __builtin_expect(result == kSuccess, 1)
             ? nullptr
             : member->TakeCall(result, symbol);
}

devrt_status Engine::submit(const devrt_submission_v0* submissions,
                            uint32_t count) {
  // Most submissions, for which no list is made.
  if (count == 1 && submissions->op_count == 1 &&
      IsOneCall(library_, submissions->ops[0].op)) {
    return SubmitOne(*submissions);
  }
  return SubmitSeveral(submissions, count);
}

devrt_status Engine::SubmitSeveral(const devrt_submission_v0* submissions,
                                   uint32_t count) {
  Parts parts(count);
  int native_calls = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (devrt_status error =
            Check(library_, submissions[i], &parts, &native_calls)) {
      return error;
    }
  }
  if (native_calls == 0) return nullptr;
  if (devrt_status error = CheckAlike(parts)) return error;
  for (Part& part : parts) {
    if (devrt_status error =
            FindStream(*part.member, *part.submission, &part.stream)) {
      return error;
    }
  }
  if (devrt_status error = CheckSharedStreams(parts)) return error;

  DeviceScope scope;
  if (devrt_status error = EnterDevices(library_, parts, &scope)) return error;
  Member* at = parts.first();
  const devrt::internal::DeviceGate* current = at->device();
  const Functions& f = library_.functions;
  const bool is_group = native_calls > 1;
  const char* symbol = "ncclGroupStart";
  Result result = is_group ? f.group_start() : kSuccess;
  if (result != kSuccess) return at->Report(result, symbol);

  devrt_status error = nullptr;
  for (const Part& part : parts) {
    at = part.member;
    if (at->device() != current && NeedsItsDevice(library_, part)) {
      current = at->device();
      error = scope.Enter(at->device());
    }
    for (uint32_t i = 0; error == nullptr && i < part.submission->op_count;
         ++i) {
      const devrt_collective_v0& op = part.submission->ops[i];
      if (op.count == 0) continue;
      result = Call(library_, at, op, part.stream, &symbol);
      if (__builtin_expect(result == kSuccess, 1)) continue;
      // A call that fails inside a group keeps the group from being enqueued.
      error = at->TakeCall(result, symbol);
    }
    if (error != nullptr) break;
  }
  if (!is_group) return error;
  const Result end = f.group_end();
  if (error != nullptr || end == kSuccess) return error;
  // Which of the group's communicators is in progress or has failed, only a
  // poll of each tells.
  for (const Part& part : parts) {
    const devrt_status one = part.member->TakeGroup(end);
    if (error == nullptr) {
      error = one;
    } else {
      Drop(one);
    }
  }
  return error;
}

}  // namespace devrt::collectives::nccl
