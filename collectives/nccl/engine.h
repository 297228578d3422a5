// SPDX-License-Identifier: Apache-2.0
//
// Engine: the functions of the table (devrt_collectives_v0) over one library
// and the devices of one backend.

#ifndef DEVRT_COLLECTIVES_NCCL_ENGINE_H_
#define DEVRT_COLLECTIVES_NCCL_ENGINE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collectives/nccl/library.h"
#include "collectives/nccl/member.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/backend.h"

namespace devrt::collectives::nccl {

// Makes a device's context current for a scope, and restores what was current.
class DeviceScope {
 public:
  DeviceScope() = default;
  ~DeviceScope() { Leave(); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  // Leaves the device of an earlier call, and enters `device`.
  devrt_status Enter(devrt::internal::DeviceGate* device) {
    Leave();
    devrt::internal::SavedContext saved;
    devrt::internal::GuardError error = nullptr;
    if (!devrt::internal::EnterDevice(device, &saved, &error, kCall)) {
      return EnterError(device, error);
    }
    device_ = device;
    saved_ = saved.words;
    return nullptr;
  }
  // The error of Enter for a device that takes no calls.
  static devrt_status CheckOpen(devrt::internal::DeviceGate* device) {
    return __builtin_expect(device->IsOpen(), 1) ? nullptr
                                                 : EnterError(device, nullptr);
  }
  // As Enter; goes on without the context where the device is lost, for calls
  // that end things.
  void TryEnter(devrt::internal::DeviceGate* device);

 private:
  static constexpr char kCall[] = "call of a collective";

  [[gnu::cold]] static devrt_status EnterError(
      devrt::internal::DeviceGate* device, devrt::internal::GuardError error);
  void Leave() {
    if (device_ == nullptr) return;
    devrt::internal::LeaveDevice({device_, saved_}, kCall);
    device_ = nullptr;
  }

  devrt::internal::DeviceGate* device_ = nullptr;
  devrt_context saved_;  // with a device
};

class Engine {
 public:
  // Each member function is the table's of that name.
  Engine(const Library& library, const Backend& backend);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const devrt_collectives_v0& table() const { return table_; }
  // Provider::can_wait.
  bool CanWait() const { return BlockingComm::IsPossible(library_); }

  devrt_status info(devrt_collectives_info_v0* info);
  devrt_status supports(uint32_t op, uint32_t dtype, uint32_t reduction,
                        uint32_t* yes);
  devrt_status unique_id(void* bytes, uint64_t* size);
  devrt_status comm_begin(uint32_t device, uint32_t ranks, uint32_t rank,
                          const void* id, uint64_t size,
                          const devrt_comm_options_v0* options,
                          devrt_comm* comm);
  devrt_status comm_poll(devrt_comm comm, uint32_t* state);
  devrt_status submit(const devrt_submission_v0* submissions, uint32_t count);
  devrt_status comm_revoke(devrt_comm comm);
  devrt_status comm_abort(devrt_comm comm);
  devrt_status comm_split(devrt_comm comm, int32_t color, int32_t key,
                          const devrt_comm_options_v0* options,
                          devrt_comm* child);
  devrt_status comm_shrink(devrt_comm comm, const uint32_t* gone,
                           uint32_t gone_count, uint32_t abort_first,
                           devrt_comm* child);
  devrt_status comm_finish(devrt_comm comm);
  devrt_status comm_destroy(devrt_comm comm);
  devrt_status buffer_register(devrt_comm comm, void* ptr, uint64_t size,
                               void** handle);
  devrt_status buffer_deregister(devrt_comm comm, void* handle);

 private:
  // submit of one operation that is one native call, and of others.
  devrt_status SubmitOne(const devrt_submission_v0& s);
  devrt_status SubmitSeveral(const devrt_submission_v0* submissions,
                             uint32_t count);
  devrt_status Missing(const char* what) const;
  devrt_status CheckShared() const;
  // Makes the child of a split or a shrink: make(place, config) calls the
  // library.  Without a `child` this rank has none.
  template <typename Make>
  devrt_status MakeChild(Member* parent, std::unique_ptr<Member> child,
                         const char* symbol, Make make, devrt_comm* result);

  const Library& library_;
  std::vector<devrt::internal::DeviceGate*> devices_;
  devrt_collectives_v0 table_ = {};
};

}  // namespace devrt::collectives::nccl

#endif  // DEVRT_COLLECTIVES_NCCL_ENGINE_H_
