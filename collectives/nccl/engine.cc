// SPDX-License-Identifier: Apache-2.0
#include "collectives/nccl/engine.h"

#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectives/nccl/checks.h"
#include "collectives/nccl/errors.h"
#include "devrt/backends/abi/devrt_plugin_util.h"
#include "devrt/runtime/device.h"

namespace devrt::collectives::nccl {
namespace {

constexpr const char* kAbort = "ncclCommAbort";

// The table's function for a member function of Engine.  No exception leaves
// it: the only one is for lack of memory.
template <auto kMember>
struct Entry;
template <typename... Args, devrt_status (Engine::*kMember)(Args...)>
struct Entry<kMember> {
  static devrt_status Call(void* self, Args... args) {
    try {
      return (static_cast<Engine*>(self)->*kMember)(args...);
    } catch (const std::bad_alloc&) {
      return Refuse(DEVRT_RESOURCE_EXHAUSTED,
                    "a call of a collective: no memory of the host");
    }
  }
};

// The library may write the handle at any time, so nothing can be freed.
constexpr const char* kBeingMade =
    "the library makes it still; poll it, or abort its parent";

}  // namespace

devrt_status DeviceScope::EnterError(devrt::internal::DeviceGate* device,
                                     devrt::internal::GuardError error) {
  const devrt_status status =
      Refuse(devrt::internal::EnterError(device, error));
  devrt::internal::DropGuardError(error);
  return status;
}

void DeviceScope::TryEnter(devrt::internal::DeviceGate* device) {
  Drop(Enter(device));
}

Engine::Engine(const Library& library, const Backend& backend)
    : library_(library) {
  for (const Device device : backend.devices()) {
    devices_.push_back(device.gate());
  }
  table_.struct_size = sizeof table_;
  table_.flags = FlagsOf(library);
#define DEVRT_NCCL_FUNCTION(name) table_.name = &Entry<&Engine::name>::Call
  DEVRT_NCCL_FUNCTION(info);
  DEVRT_NCCL_FUNCTION(supports);
  DEVRT_NCCL_FUNCTION(unique_id);
  DEVRT_NCCL_FUNCTION(comm_begin);
  DEVRT_NCCL_FUNCTION(comm_poll);
  DEVRT_NCCL_FUNCTION(submit);
  DEVRT_NCCL_FUNCTION(comm_revoke);
  DEVRT_NCCL_FUNCTION(comm_abort);
  DEVRT_NCCL_FUNCTION(comm_split);
  DEVRT_NCCL_FUNCTION(comm_shrink);
  DEVRT_NCCL_FUNCTION(comm_finish);
  DEVRT_NCCL_FUNCTION(comm_destroy);
  DEVRT_NCCL_FUNCTION(buffer_register);
  DEVRT_NCCL_FUNCTION(buffer_deregister);
#undef DEVRT_NCCL_FUNCTION
}

devrt_status Engine::Missing(const char* what) const {
  return Refuse(DEVRT_UNIMPLEMENTED,
                absl::StrCat(library_.flavor->name, " ", library_.version_text,
                             " from ", library_.path, " has no ", what));
}

// devrt sets no variable for the library: what it needs, the user says.
devrt_status Engine::CheckShared() const {
  const std::string what =
      absl::StrCat("several ranks on one device: ", library_.flavor->name, " ",
                   library_.version_text);
  if ((table_.flags & DEVRT_COLLECTIVES_SHARED_DEVICE) == 0) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  library_.flavor->shared_device_version == 0
                      ? absl::StrCat(what, " cannot do that")
                      : absl::StrCat(what, " is too old: 2.30 is needed"));
  }
  if (!IsSet("NCCL_MULTI_RANK_GPU_ENABLE", "1")) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  absl::StrCat(what, " needs NCCL_MULTI_RANK_GPU_ENABLE=1"));
  }
  if (IsSet("NCCL_NVLS_ENABLE", "1")) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  absl::StrCat(what, " needs NCCL_NVLS_ENABLE not to be 1"));
  }
  return nullptr;
}

devrt_status Engine::info(devrt_collectives_info_v0* info) {
  devrt_collectives_info_v0 mine = {};
  mine.version = static_cast<uint32_t>(library_.version);
  mine.provider = library_.flavor->provider;
  mine.text = library_.version_text.c_str();
  mine.path = library_.path.c_str();
  plugin::WriteStruct(info, mine);
  return nullptr;
}

devrt_status Engine::supports(uint32_t op, uint32_t dtype, uint32_t reduction,
                              uint32_t* yes) {
  *yes = Supports(library_, op, dtype, reduction) ? 1 : 0;
  return nullptr;
}

devrt_status Engine::unique_id(void* bytes, uint64_t* size) {
  if (*size < sizeof(UniqueId)) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("the room for the id has ", *size,
                               " bytes, expected ", sizeof(UniqueId)));
  }
  UniqueId id;
  const Result result = library_.functions.get_unique_id(&id);
  if (result != kSuccess) {
    return NativeError(result, "ncclGetUniqueId",
                       TextOf(library_, result, nullptr), -1);
  }
  std::memcpy(bytes, &id, sizeof id);
  *size = sizeof id;
  return nullptr;
}

devrt_status Engine::comm_begin(uint32_t device, uint32_t ranks, uint32_t rank,
                                const void* id, uint64_t size,
                                const devrt_comm_options_v0* options,
                                devrt_comm* comm) {
  const auto wanted = plugin::ReadStruct(options);
  if (device >= devices_.size()) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("device is ", device, ", expected less than ",
                               devices_.size()));
  }
  if (rank >= ranks || ranks > INT_MAX) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("rank is ", rank, " of ", ranks,
                               ", expected less than the number of ranks"));
  }
  if (size != sizeof(UniqueId)) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("the id has ", size, " bytes, expected ",
                               sizeof(UniqueId), " of unique_id"));
  }
  if (wanted.shared_device != 0) {
    if (devrt_status error = CheckShared()) return error;
  }
  UniqueId native_id;
  std::memcpy(&native_id, id, sizeof native_id);
  auto member = std::make_unique<Member>(library_, devices_[device], ranks,
                                         rank, wanted.name);
  if (wanted.shared_device != 0) member->ShareDevice();
  DeviceScope scope;
  if (devrt_status error = scope.Enter(devices_[device])) return error;
  Config config = member->config();
  const Result result = library_.functions.comm_init_rank_config(
      member->place(), static_cast<int>(ranks), native_id,
      static_cast<int>(rank), &config);
  if (devrt_status error = member->Take(result, "ncclCommInitRankConfig")) {
    if (member->native() != nullptr) {
      (void)library_.functions.comm_abort(member->native());
    }
    return error;
  }
  *comm = member.release()->handle();
  return nullptr;
}

devrt_status Engine::comm_poll(devrt_comm comm, uint32_t* state) {
  Member* const member = Member::Of(comm);
  DeviceScope scope;
  if (member->IsMaking()) scope.TryEnter(member->device());
  return member->Poll(state);
}

devrt_status Engine::comm_revoke(devrt_comm comm) {
  Member* const member = Member::Of(comm);
  const Functions& f = library_.functions;
  if (f.comm_revoke == nullptr) return Missing("ncclCommRevoke");
  const Member::Use use(member);
  if (!use || member->native() == nullptr) return nullptr;  // nothing runs
  if (member->IsRevoked() && !member->waits()) return nullptr;
  DeviceScope scope;
  scope.TryEnter(member->device());
  // Before the call, so that no submission of another thread follows it.
  member->NoteRevoked();
  // Nothing runs on the native one then, which can be a parent as it is.
  if (member->waits()) return member->Take(member->EndCalls(), kAbort);
  return member->Take(f.comm_revoke(member->native(), kRevokeFlags),
                      "ncclCommRevoke");
}

devrt_status Engine::comm_abort(devrt_comm comm) {
  Member* const member = Member::Of(comm);
  if (member->IsBeingMade()) {
    return Refuse(
        DEVRT_FAILED_PRECONDITION,
        absl::StrCat(member->Describe(), " cannot be aborted: ", kBeingMade));
  }
  DeviceScope scope;
  scope.TryEnter(member->device());
  if (member->BeginEnd("it was aborted") != Member::Aborting::kMine) {
    return nullptr;
  }
  const Result result = member->Abort();
  member->EndAbort();
  if (result == kSuccess) return nullptr;
  // The library may have freed the communicator: its message is not asked for.
  return NativeError(result, kAbort, TextOf(library_, result, nullptr),
                     member->ordinal());
}

template <typename Make>
devrt_status Engine::MakeChild(Member* parent, std::unique_ptr<Member> child,
                               const char* symbol, Make make,
                               devrt_comm* result) {
  Config config = child != nullptr ? child->config() : Config();
  DeviceScope scope;
  if (devrt_status error = scope.Enter(parent->device())) return error;
  const Result answer =
      make(child != nullptr ? child->place() : parent->no_child(), &config);
  if (devrt_status error = parent->Take(answer, symbol)) {
    if (child != nullptr && child->native() != nullptr) {
      (void)library_.functions.comm_abort(child->native());
    }
    return error;
  }
  *result = child != nullptr ? child.release()->handle() : nullptr;
  return nullptr;
}

devrt_status Engine::comm_split(devrt_comm comm, int32_t color, int32_t key,
                                const devrt_comm_options_v0* options,
                                devrt_comm* child) {
  Member* const parent = Member::Of(comm);
  const Functions& f = library_.functions;
  if (f.comm_split == nullptr) return Missing("ncclCommSplit");
  if (color < kNoColor) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  absl::StrCat("color is ", color, ", expected -1 or more"));
  }
  const Member::Use use(parent);
  if (devrt_status error = parent->CheckParent()) return error;
  std::unique_ptr<Member> made;
  if (color != kNoColor) {
    made = std::make_unique<Member>(library_, parent->device(), 0, 0,
                                    plugin::ReadStruct(options).name, parent);
  }
  return MakeChild(
      parent, std::move(made), "ncclCommSplit",
      [&](Comm* place, Config* config) {
        return f.comm_split(parent->native(), color, key, place, config);
      },
      child);
}

devrt_status Engine::comm_shrink(devrt_comm comm, const uint32_t* gone,
                                 uint32_t gone_count, uint32_t abort_first,
                                 devrt_comm* child) {
  Member* const parent = Member::Of(comm);
  const Functions& f = library_.functions;
  if (f.comm_shrink == nullptr) return Missing("ncclCommShrink");
  const Member::Use use(parent);
  if (!use) {
    return Refuse(DEVRT_ABORTED,
                  absl::StrCat(parent->Describe(), " was aborted"));
  }
  if (abort_first == 0) {
    if (devrt_status error = parent->CheckParent()) return error;
  }
  std::vector<int> excluded;
  uint32_t below = 0;
  for (uint32_t i = 0; i < gone_count; ++i) {
    if (gone[i] >= parent->ranks() || (i > 0 && gone[i] <= gone[i - 1]) ||
        gone[i] == parent->rank()) {
      return Refuse(DEVRT_INVALID_ARGUMENT,
                    absl::StrCat("gone[", i, "] is ", gone[i],
                                 ", expected other ranks of ",
                                 parent->Describe(), " in rising order"));
    }
    below += gone[i] < parent->rank() ? 1 : 0;
    excluded.push_back(static_cast<int>(gone[i]));
  }
  if (abort_first != 0) {
    DeviceScope scope;
    scope.TryEnter(parent->device());
    const Result result = parent->EndCalls();
    if (result != kSuccess) return parent->Take(result, kAbort);
  }
  auto made = std::make_unique<Member>(
      library_, parent->device(), parent->ranks() - gone_count,
      parent->rank() - below, parent->name().c_str(), parent);
  devrt_status error = MakeChild(
      parent, std::move(made), "ncclCommShrink",
      [&](Comm* place, Config* config) {
        return f.comm_shrink(parent->native(), excluded.data(),
                             static_cast<int>(gone_count), place, config,
                             abort_first != 0 ? kShrinkAbort : 0);
      },
      child);
  if (error == nullptr && abort_first != 0) {
    parent->NoteFailed("it was shrunk, and what ran on it was ended");
  }
  return error;
}

devrt_status Engine::comm_finish(devrt_comm comm) {
  Member* const member = Member::Of(comm);
  const Member::Use use(member);
  if (devrt_status error = member->CheckReady()) return error;
  DeviceScope scope;
  if (devrt_status error = scope.Enter(member->device())) return error;
  const Result result = member->Finalize();
  devrt_status error = member->Take(result, "ncclCommFinalize");
  if (error == nullptr) member->NoteFinishing();
  return error;
}

devrt_status Engine::comm_destroy(devrt_comm comm) {
  std::unique_ptr<Member> member(Member::Of(comm));
  const auto keep = [&member](absl::string_view why) {
    Member* const kept = member.release();
    return Refuse(
        DEVRT_FAILED_PRECONDITION,
        absl::StrCat(kept->Describe(), " cannot be destroyed: ", why));
  };
  if (member->IsBeingMade()) {
    return keep(kBeingMade);
  }
  const bool is_finished = member->IsFinished();
  DeviceScope scope;
  scope.TryEnter(member->device());
  switch (member->BeginEnd("it was destroyed")) {
    case Member::Aborting::kDone:
      return nullptr;
    case Member::Aborting::kRuns:
      return keep("its abort has not returned");
    case Member::Aborting::kMine:
      break;
  }
  const Result result = is_finished ? member->Destroy() : member->Abort();
  if (result == kSuccess) return nullptr;
  return NativeError(result, is_finished ? "ncclCommDestroy" : kAbort,
                     TextOf(library_, result, nullptr), member->ordinal());
}

devrt_status Engine::buffer_register(devrt_comm comm, void* ptr, uint64_t size,
                                     void** handle) {
  Member* const member = Member::Of(comm);
  const Functions& f = library_.functions;
  if ((table_.flags & DEVRT_COLLECTIVES_REGISTER) == 0) {
    return Missing("ncclCommRegister");
  }
  const Member::Use use(member);
  if (devrt_status error = member->CheckReady()) return error;
  DeviceScope scope;
  if (devrt_status error = scope.Enter(member->device())) return error;
  const Result result = f.comm_register(member->calls(), ptr, size, handle);
  return result == kSuccess ? nullptr
                            : member->Report(result, "ncclCommRegister");
}

devrt_status Engine::buffer_deregister(devrt_comm comm, void* handle) {
  Member* const member = Member::Of(comm);
  const Functions& f = library_.functions;
  if ((table_.flags & DEVRT_COLLECTIVES_REGISTER) == 0) {
    return Missing("ncclCommDeregister");
  }
  const Member::Use use(member);
  if (!use) return nullptr;  // it went with the native communicator
  DeviceScope scope;
  scope.TryEnter(member->device());
  const Result result = f.comm_deregister(member->calls(), handle);
  return result == kSuccess ? nullptr
                            : member->Report(result, "ncclCommDeregister");
}

}  // namespace devrt::collectives::nccl
