// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/validator.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "devrt/backends/abi/devrt_launch.h"

namespace devrt::race {
namespace {

constexpr uint32_t kDeviceBits = 16;  // devices of a backend
// Uses that every thread knows are forgotten after so many operations.
constexpr uint64_t kForgetAfter = 1 << 14;

constexpr uint32_t kReadAndWrite = DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE;

uint64_t RoundUp(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

uint64_t AddressOf(const void* ptr) { return reinterpret_cast<uint64_t>(ptr); }

using Lock = std::lock_guard<std::mutex>;

}  // namespace

DeviceKey Validator::AddBackend(const char* name, bool has_foreign_users) {
  const Lock lock(mutex_);
  backends_.push_back({name, has_foreign_users});
  findings_->AddBackend(name);
  return static_cast<DeviceKey>(backends_.size() - 1) << kDeviceBits;
}

// All threads are one actor: the calls of a program count as ordered as they
// were made, because mutexes and other order between threads are not seen.
Actor Validator::Thread() {
  if (host_ == kNoActor) host_ = detector_.order().AddThread();
  return host_;
}

Call Validator::ToCall(const Caller& caller) {
  return {Thread(), texts_.NumberOf(caller.name),
          caller.place != nullptr ? texts_.Number(caller.place)
                                  : texts_.Site(caller.file, caller.line)};
}

Validator::StreamEntry Validator::Find(devrt_stream stream, uint64_t number) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return {};
  if (number != 0 && number != found->second.number) {
    found->second.number = number;
    actors_[found->second.actor].number = number;
  }
  return found->second;
}

bool Validator::MayBeOrdered(const Finding& finding) const {
  return has_adopted_ && finding.kind != FindingKind::kUseAfterFree;
}

void Validator::Found(const Finding& finding) {
  if (MayBeOrdered(finding)) return findings_->LeaveOut();
  const std::string text = findings_->Add(finding, *this);
  if (first_.empty()) first_ = text;
}

Actor Validator::AddStream(DeviceKey device, devrt_stream stream,
                           StreamKind kind, const void* native, bool adopted) {
  const Lock lock(mutex_);
  Actor actor = kNoActor;
  const auto known = natives_.find({device, native});
  if (native != nullptr && known != natives_.end()) actor = known->second;
  if (native == nullptr && kind == StreamKind::kLegacy) {
    const auto handle = streams_.find(stream);
    // The default stream has one handle for all calls.
    if (handle != streams_.end()) return handle->second.actor;
  }
  if (actor == kNoActor) {
    actor = detector_.AddStream(Thread(), {device, kind});
    if (native != nullptr) natives_[{device, native}] = actor;
    actors_[actor] = {device, 0, kind, native, 0};
  }
  if (adopted && !foreign_is_declared_ &&
      backends_[device >> kDeviceBits].has_foreign_users) {
    has_adopted_ = true;
  }
  if (streams_.insert_or_assign(stream, StreamEntry{actor, device, 0}).second) {
    ++actors_[actor].handles;
  }
  return actor;
}

void Validator::RemoveStream(devrt_stream stream) {
  const Lock lock(mutex_);
  Remove(stream);
}

void Validator::RemoveStream(devrt_stream stream, Actor actor) {
  const Lock lock(mutex_);
  const auto found = streams_.find(stream);
  if (found != streams_.end() && found->second.actor == actor) Remove(stream);
}

void Validator::Remove(devrt_stream stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  const Actor actor = found->second.actor;
  streams_.erase(found);
  ActorEntry& entry = actors_[actor];
  if (--entry.handles != 0) return;
  natives_.erase({entry.device, entry.native});
  detector_.order().RemoveStream(actor);
}

void Validator::AddEvent(DeviceKey device, devrt_event event) {
  const Lock lock(mutex_);
  events_[event] = {device, std::nullopt};
}

void Validator::RemoveEvent(devrt_event event) {
  const Lock lock(mutex_);
  events_.erase(event);
  detector_.RemoveEvent(AddressOf(event));
}

Mark Validator::BeginRecord(const Caller& caller, devrt_stream stream,
                            devrt_event event) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return {};
  Mark mark = detector_.Record(ToCall(caller), entry.actor, AddressOf(event));
  return mark;
}

void Validator::EndRecord(devrt_event event, Mark mark) {
  const Lock lock(mutex_);
  events_[event].mark = std::move(mark);
}

void Validator::Wait(const Caller& caller, devrt_stream stream,
                     devrt_event event) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  const auto found = events_.find(event);
  if (entry.actor == kNoActor || found == events_.end()) return;
  detector_.Wait(
      ToCall(caller), entry.actor, AddressOf(event),
      found->second.mark.has_value() ? &*found->second.mark : nullptr);
}

void Validator::EnablePeer(DeviceKey device, DeviceKey peer) {
  const Lock lock(mutex_);
  detector_.EnablePeer(device, peer);
}

void Validator::DisablePeer(DeviceKey device, DeviceKey peer) {
  const Lock lock(mutex_);
  detector_.DisablePeer(device, peer);
}

Mark Validator::MarkOfStream(devrt_stream stream) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream);
  if (entry.actor == kNoActor) return {};
  return detector_.order().MarkOfStream(entry.actor);
}

Mark Validator::MarkOfNext(devrt_stream stream) {
  const Lock lock(mutex_);
  return detector_.order().MarkOfNext(Thread(), Find(stream).actor);
}

Mark Validator::MarkOfEvent(devrt_event event) {
  const Lock lock(mutex_);
  const auto found = events_.find(event);
  if (found == events_.end() || !found->second.mark.has_value()) return {};
  return *found->second.mark;
}

Mark Validator::MarkOfDevice(DeviceKey device) {
  const Lock lock(mutex_);
  return detector_.order().MarkOfDevice(device);
}

void Validator::EndHostWait(const Mark& mark) {
  const Lock lock(mutex_);
  detector_.order().HostWait(Thread(), mark);
}

void Validator::Restart(DeviceKey device0) {
  const Lock lock(mutex_);
  const DeviceKey end = device0 + (1U << kDeviceBits);
  const auto ours = [&](DeviceKey device) {
    return device >= device0 && device < end;
  };
  // All work is over, so nothing conflicts with it any more.
  std::vector<devrt_stream> streams;
  for (const auto& [stream, entry] : streams_) {
    if (!ours(entry.device)) continue;
    streams.push_back(stream);
    detector_.order().HostWait(Thread(),
                               detector_.order().MarkOfDevice(entry.device));
  }
  for (const devrt_stream stream : streams) Remove(stream);
  for (auto event = events_.begin(); event != events_.end();) {
    if (!ours(event->second.device)) {
      ++event;
      continue;
    }
    detector_.RemoveEvent(AddressOf(event->first));
    event = events_.erase(event);
  }
  detector_.memory().RemoveDevices(device0, end);
  detector_.ForgetPeers(device0, end);
}

void Validator::ForgetSometimes() {
  if (++until_forget_ < kForgetAfter) return;
  until_forget_ = 0;
  detector_.memory().Forget(detector_.order().ClockOf(Thread()));
}

std::string Validator::Enqueue(const Caller& caller, devrt_stream stream,
                               const std::vector<MemoryAccess>& accesses) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return "";
  first_.clear();
  NotePinned(accesses);
  detector_.Enqueue(ToCall(caller), entry.actor, accesses);
  ForgetSometimes();
  return std::exchange(first_, {});
}

void Validator::Retract(const std::vector<MemoryAccess>& accesses) {
  const Lock lock(mutex_);
  detector_.Retract(accesses);
}

std::string Validator::UseByHost(const Caller& caller,
                                 const std::vector<MemoryAccess>& accesses) {
  const Lock lock(mutex_);
  first_.clear();
  detector_.UseByHost(ToCall(caller), accesses);
  return std::exchange(first_, {});
}

void Validator::NotePinned(const std::vector<MemoryAccess>& accesses) {
  if (!has_pinned()) return;
  for (const MemoryAccess& access : accesses) {
    if (access.size == 0) continue;
    const Block& block = *detector_.memory().At(access.address);
    if (block.kind == MemoryKind::kPinned && block.live()) {
      pinned_[block.begin] = block.end;
    }
  }
}

void Validator::ForEachPageChange(
    const std::function<void(const PageChange&)>& apply) {
  const Lock lock(mutex_);
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  for (auto at = pinned_.begin(); at != pinned_.end();) {
    // A part that an allocator handed out may share its first and last page.
    const Block* const block = detector_.memory().Find(at->first);
    const bool alone = block == nullptr || !block->is_part;
    const uint64_t begin = RoundUp(at->first, page);
    const uint64_t end =
        alone ? RoundUp(at->second, page) : at->second / page * page;
    std::vector<Conflict> uses;
    if (block != nullptr) {
      block->shadow.FindUnknown(detector_.order().ClockOf(Thread()), &uses);
    }
    if (begin < end) apply({begin, end, kReadAndWrite});
    for (const bool written : {false, true}) {
      for (const Conflict& use : uses) {
        if ((use.earlier_mode != Mode::kRead) != written) continue;
        // A page of which the work uses a part only stays open: the program
        // may pass the rest of it to a system call.
        const uint64_t from = use.range.begin == 0
                                  ? begin
                                  : RoundUp(at->first + use.range.begin, page);
        const uint64_t to = at->first + use.range.end == at->second
                                ? end
                                : (at->first + use.range.end) / page * page;
        if (from < to) apply({from, to, written ? 0 : DEVRT_ACCESS_READ});
      }
    }
    at = uses.empty() ? pinned_.erase(at) : std::next(at);
  }
}

void Validator::OrderStreams(devrt_stream earlier, devrt_stream later) {
  const Lock lock(mutex_);
  const StreamEntry from = Find(earlier);
  const StreamEntry to = Find(later);
  if (from.actor == kNoActor || to.actor == kNoActor) return;
  Order& order = detector_.order();
  order.Wait(Thread(), to.actor, order.MarkOfStream(from.actor));
}

uint64_t Validator::VisitFindings(
    uint64_t after,
    const std::function<void(const std::string& id, const Findings::Made&)>&
        visit) const {
  const Lock lock(mutex_);
  for (const auto& [id, made] : findings_->made()) {
    if (made.last > after) visit(id, made);
  }
  return findings_->total();
}

void Validator::Allocate(const Caller& caller, DeviceKey device,
                         const void* ptr, uint64_t size, MemoryKind kind) {
  const Lock lock(mutex_);
  if (kind == MemoryKind::kPinned) has_pinned_.store(true);
  detector_.Allocate(ToCall(caller), AddressOf(ptr), size, kind, device);
}

std::string Validator::Free(const Caller& caller, const void* ptr) {
  const Lock lock(mutex_);
  first_.clear();
  detector_.Free(ToCall(caller), AddressOf(ptr));
  return std::exchange(first_, {});
}

void Validator::AllocateOn(const Caller& caller, devrt_stream stream,
                           const void* ptr, uint64_t size) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return;
  detector_.AllocateOn(ToCall(caller), entry.actor, AddressOf(ptr), size,
                       entry.device);
}

std::string Validator::FreeOn(const Caller& caller, devrt_stream stream,
                              const void* ptr) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return "";
  first_.clear();
  detector_.FreeOn(ToCall(caller), entry.actor, AddressOf(ptr));
  return std::exchange(first_, {});
}

void Validator::Register(const void* ptr, uint64_t size) {
  const Lock lock(mutex_);
  registered_[ptr] = size;
}

void Validator::Unregister(const Caller& caller, const void* ptr) {
  const Lock lock(mutex_);
  const auto found = registered_.find(ptr);
  if (found == registered_.end()) return;
  // No work may need the pages any more: as if the host wrote them.
  MemoryAccess access = {AddressOf(ptr), found->second, Mode::kWrite};
  access.is_programs = true;
  detector_.UseByHost(ToCall(caller), {access});
  registered_.erase(found);
}

void Validator::Uncarve(const void* base, uint64_t size) {
  const Lock lock(mutex_);
  detector_.memory().EraseParts(AddressOf(base), size);
}

void Validator::HandOut(const Caller& caller, devrt_stream stream,
                        const void* ptr, uint64_t size) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream);
  const BlockInfo& whole = *detector_.memory().At(AddressOf(ptr));
  detector_.HandOut(
      ToCall(caller), entry.actor, AddressOf(ptr), size,
      whole.kind == MemoryKind::kHost ? MemoryKind::kDevice : whole.kind,
      entry.actor == kNoActor ? whole.device : entry.device);
  homes_[ptr] = entry.actor;
}

void Validator::TakeBack(const Caller& caller, devrt_stream stream,
                         const void* ptr) {
  const Lock lock(mutex_);
  Actor actor = Find(stream).actor;
  const auto home = homes_.find(ptr);
  if (home != homes_.end()) {
    if (actor == kNoActor) actor = home->second;
    homes_.erase(home);
  }
  detector_.TakeBack(ToCall(caller), actor, AddressOf(ptr));
}

std::string Validator::End() {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return "";
  findings_->EndFile();
  return findings_->Summary();
}

std::string Validator::DeviceName(uint32_t device) const {
  return backends_[device >> kDeviceBits].name + ":" +
         std::to_string(device & ((1U << kDeviceBits) - 1));
}

std::string Validator::ActorName(Actor actor) const {
  const auto found = actors_.find(actor);
  if (found == actors_.end()) return "the host";
  const ActorEntry& entry = found->second;
  const std::string device = " of " + DeviceName(entry.device);
  if (entry.kind == StreamKind::kLegacy) return "the default stream" + device;
  if (entry.number <= 1) return "a stream" + device;
  return "stream " + std::to_string(entry.number - 1) + device;
}

}  // namespace devrt::race
