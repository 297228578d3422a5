// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_LAYERS_FAULTS_INJECTOR_H_
#define DEVRT_LAYERS_FAULTS_INJECTOR_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/text/fault_rule.h"
#include "devrt/backends/abi/devrt_faults.h"
#include "layers/faults/entries.h"

namespace devrt::faults {

// A call, as far as rules look at it.
struct Facts {
  CallId id;
  int32_t device = -1;           // -1: the call names none
  uint64_t bytes = 0;            // that it asks for or moves
  const void* object = nullptr;  // a stream, event or flag, for its device
};

// What the layer does with a call.
struct Verdict {
  bool fails = false;
  bool late = false;  // after the call has had its effect
  int32_t code = 0;
  int64_t native = 0;
  int32_t device = -1;  // of the call, as far as it is known
  std::string text;
};

// Owns the rules for the calls of one backend, the record of the calls that
// they could hit, and the counts of what these calls have made.
//
// Threads: any.
class Injector {
 public:
  explicit Injector(std::string backend) : backend_(std::move(backend)) {}
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  // Replaces the rules, which count from now on.
  void Set(const std::vector<internal::FaultRule>& rules);
  // The text of the rules, which ParseFaultRules reads.
  std::string Rules() const;
  // Turns the record on, empty, or off.
  void Record(bool on);
  std::vector<devrt_fault_point_v0> Points() const;
  // How many calls were made to fail since Set.  The last of them is copied to
  // `*last` if there is one.
  uint64_t Fired(devrt_fault_point_v0* last) const;

  // True if calls must be judged.
  bool is_active() const { return is_active_.load(std::memory_order_relaxed); }
  // Judges a call before it is made.
  Verdict Judge(Facts facts, const devrt_call_site_v0& site);

  // The handle `object` is of `device`.
  void NoteDevice(const void* object, int32_t device);
  // A call that ends `object` is made: behind it another thread may get a
  // handle of the same address.  Returns the object's device, for NoteDevice if
  // the call fails, or nothing if it is not known.
  std::optional<int32_t> ForgetDevice(const void* object);

  // The call `id` has made `object`, of `device` if it names one, or has ended
  // an object.
  void NoteMade(CallId id, const void* object, int32_t device);
  void NoteEnded(CallId id);
  devrt_fault_live_v0 Live() const;

 private:
  struct Armed {
    internal::FaultRule rule;
    internal::FaultCounter counter;
  };

  bool Hits(const Armed& armed, const Facts& facts) const;
  static bool Draws(const Armed& armed);
  static Verdict VerdictOf(const Armed& armed, CallId id);

  const std::string backend_;
  std::atomic<bool> is_active_{false};  // it has rules or records
  mutable std::mutex mutex_;
  std::vector<Armed> armed_;
  bool records_ = false;
  std::vector<devrt_fault_point_v0> points_;
  std::array<uint64_t, layer::kCallCount> calls_{};  // by name
  uint64_t fired_ = 0;
  devrt_fault_point_v0 last_{};
  std::array<uint64_t, static_cast<size_t>(Object::kCount)> live_{};
  std::unordered_map<const void*, int32_t> devices_;  // of handles
};

}  // namespace devrt::faults

#endif  // DEVRT_LAYERS_FAULTS_INJECTOR_H_
