// SPDX-License-Identifier: Apache-2.0
#include "layers/faults/injector.h"

#include <utility>

namespace devrt::faults {
namespace {

using internal::FaultClass;
using internal::FaultRule;

const char* NameOf(CallId id) {
  return layer::kCallNames[static_cast<size_t>(id)];
}

bool HitsMemory(const std::string& memory, CallId id) {
  if (memory == "device") {
    return id == CallId::alloc || id == CallId::virtual_memory_create;
  }
  if (memory == "pinned") return id == CallId::host_alloc;
  if (memory == "pool") return id == CallId::alloc_async;
  return IsAllocation(id);
}

int32_t CodeOf(const std::string& name) {
  for (const internal::FaultCode& code : internal::kFaultCodes) {
    if (code.name == name) return code.code;
  }
  return DEVRT_INTERNAL;
}

}  // namespace

void Injector::Set(const std::vector<FaultRule>& rules) {
  const std::lock_guard<std::mutex> lock(mutex_);
  armed_.clear();
  for (const FaultRule& rule : rules) {
    if (rule.backend.empty() || rule.backend == backend_) {
      armed_.push_back({rule, {}});
    }
  }
  calls_.fill(0);
  fired_ = 0;
  is_active_ = records_ || !armed_.empty();
}

std::string Injector::Rules() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<FaultRule> rules;
  rules.reserve(armed_.size());
  for (const Armed& armed : armed_) rules.push_back(armed.rule);
  return FaultRulesText(rules);
}

void Injector::Record(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  records_ = on;
  if (on) {
    points_.clear();
    calls_.fill(0);
  }
  is_active_ = records_ || !armed_.empty();
}

std::vector<devrt_fault_point_v0> Injector::Points() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return points_;
}

uint64_t Injector::Fired(devrt_fault_point_v0* last) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (fired_ != 0) *last = last_;
  return fired_;
}

bool Injector::Hits(const Armed& armed, const Facts& facts) const {
  const FaultRule& rule = armed.rule;
  const uint32_t forms = FormsOf(facts.id);
  if (rule.kind == FaultClass::kOom) {
    if (!HitsMemory(rule.memory, facts.id)) return false;
  } else if (!rule.call.empty()) {
    if (rule.call != NameOf(facts.id)) return false;
  } else if (rule.late && (forms & DEVRT_FAULT_LATE) == 0) {
    return false;
  }
  if (rule.device && static_cast<int64_t>(*rule.device) != facts.device) {
    return false;
  }
  return facts.bytes >= rule.bytes;
}

// A draw depends on the seed and the match alone, so equal runs draw alike.
bool Injector::Draws(const Armed& armed) {
  if (armed.rule.chance == FaultRule::kAlways) return true;
  uint64_t z = armed.rule.seed + armed.counter.matches() * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;  // SplitMix64
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  z ^= z >> 31;
  return z % FaultRule::kAlways < armed.rule.chance;
}

Verdict Injector::VerdictOf(const Armed& armed, CallId id) {
  const FaultRule& rule = armed.rule;
  Verdict verdict;
  verdict.fails = true;
  verdict.late = rule.late;
  verdict.native = rule.native;
  verdict.code = rule.kind == FaultClass::kOom ? DEVRT_RESOURCE_EXHAUSTED
                                               : CodeOf(rule.code);
  verdict.text = std::string(NameOf(id)) + ": injected fault \"" +
                 FaultRuleText(rule) + "\", at match " +
                 std::to_string(armed.counter.matches());
  return verdict;
}

Verdict Injector::Judge(Facts facts, const devrt_call_site_v0& site) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (facts.device < 0 && facts.object != nullptr) {
    const auto found = devices_.find(facts.object);
    if (found != devices_.end()) facts.device = found->second;
  }
  devrt_fault_point_v0 point = {};
  point.struct_size = sizeof point;
  point.forms = FormsOf(facts.id);
  point.call = NameOf(facts.id);
  point.index = ++calls_[static_cast<size_t>(facts.id)];
  point.device = facts.device;
  point.line = site.line;
  point.file = site.file;
  point.bytes = facts.bytes;
  if (records_) points_.push_back(point);
  // Every rule counts, also behind one that fires.
  Verdict verdict;
  for (Armed& armed : armed_) {
    if (!Hits(armed, facts) || !armed.counter.Matches(armed.rule)) continue;
    if (!Draws(armed)) continue;
    armed.counter.Fire();
    if (verdict.fails) continue;  // one fault hits a call
    verdict = VerdictOf(armed, facts.id);
    verdict.device = facts.device;
    ++fired_;
    last_ = point;
  }
  return verdict;
}

void Injector::NoteMade(CallId id, const void* object, int32_t device) {
  const Object kind = EntryOf(id).object;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++live_[static_cast<size_t>(kind)];
  if (kind == Object::kStream || kind == Object::kEvent ||
      kind == Object::kFlag) {
    devices_[object] = device;
  }
}

void Injector::NoteDevice(const void* object, int32_t device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  devices_[object] = device;
}

std::optional<int32_t> Injector::ForgetDevice(const void* object) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = devices_.find(object);
  if (found == devices_.end()) return std::nullopt;
  const int32_t device = found->second;
  devices_.erase(found);
  return device;
}

void Injector::NoteEnded(CallId id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  uint64_t& live = live_[static_cast<size_t>(EntryOf(id).object)];
  // Not so for what was made before the layer's time.
  if (live > 0) --live;
}

devrt_fault_live_v0 Injector::Live() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto count = [this](Object kind) {
    return live_[static_cast<size_t>(kind)];
  };
  return {sizeof(devrt_fault_live_v0),  0,
          count(Object::kStream),       count(Object::kEvent),
          count(Object::kBlock),        count(Object::kPinned),
          count(Object::kRegistered),   count(Object::kFlag),
          count(Object::kVirtualMemory)};
}

}  // namespace devrt::faults
