// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/validator.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "devrt/backends/abi/devrt_launch.h"

namespace devrt::race {
namespace {

constexpr uint32_t kReadAndWrite = DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE;

uint64_t RoundUp(uint64_t value, uint64_t step) {
  return (value + step - 1) / step * step;
}

uint64_t AddressOf(const void* ptr) { return reinterpret_cast<uint64_t>(ptr); }

using Lock = std::lock_guard<FindingsMutex>;

}  // namespace

DeviceKey Validator::AddBackend(const char* name, bool is_simulated,
                                HasMemory has_memory) {
  const Lock lock(mutex_);
  backends_.push_back({name, is_simulated, std::move(has_memory)});
  findings_->AddBackend(name, is_simulated);
  return static_cast<DeviceKey>(backends_.size() - 1) << kDeviceBits;
}

void Validator::NoteOp(const OpId& op) {
  if (ops_.size() >= most_ops_) {
    std::unordered_map<uint64_t, OpId> needed;
    detector_.ForEachOperation([&](const Operation& operation) {
      const auto found = ops_.find(operation.number);
      if (found != ops_.end()) needed.insert(*found);
    });
    ops_ = std::move(needed);
    most_ops_ = std::max<size_t>(kForgetAfter, 2 * ops_.size());
  }
  ops_[detector_.next_number()] = op;
}

bool Validator::IsSimulated(DeviceKey device) const {
  return BackendOf(device).is_simulated;
}

Actor Validator::AddStream(DeviceKey device, devrt_stream stream,
                           StreamKind kind, const void* native, bool adopted) {
  const Lock lock(mutex_);
  Actor actor = kNoActor;
  const auto known = natives_.find({device, native});
  if (native != nullptr && known != natives_.end()) actor = known->second;
  if (native == nullptr && kind == StreamKind::kLegacy) {
    // The default stream has one handle for all calls.
    if (const StreamEntry* known_handle = streams_.Find(stream)) {
      return known_handle->actor;
    }
  }
  if (actor == kNoActor) {
    actor = detector_.AddStream(Thread(), {device, kind});
    if (native != nullptr) natives_[{device, native}] = actor;
    actors_[actor] = {device, 0, kind, native, 0};
  }
  if (adopted && !foreign_is_declared_ && !IsSimulated(device)) {
    has_adopted_ = true;
  }
  const StreamEntry* const former = streams_.Find(stream);
  if (former != nullptr && former->actor != actor) Remove(stream);
  if (streams_.Find(stream) == nullptr) ++actors_[actor].handles;
  *streams_.At(stream) = {actor, device, 0};
  return actor;
}

void Validator::RemoveStream(devrt_stream stream) {
  const Lock lock(mutex_);
  Remove(stream);
}

void Validator::RemoveStream(devrt_stream stream, Actor actor) {
  const Lock lock(mutex_);
  const StreamEntry* const found = streams_.Find(stream);
  if (found != nullptr && found->actor == actor) Remove(stream);
}

void Validator::Remove(devrt_stream stream) {
  const StreamEntry* const found = streams_.Find(stream);
  if (found == nullptr) return;
  const Actor actor = found->actor;
  streams_.Erase(stream);
  ActorEntry& entry = actors_[actor];
  if (--entry.handles != 0) return;
  natives_.erase({entry.device, entry.native});
  detector_.order().RemoveStream(actor);
}

void Validator::AddEvent(DeviceKey device, devrt_event event, bool shared) {
  const Lock lock(mutex_);
  *events_.At(event) = {device, shared, false, nullptr, {}, 0};
  records_.erase(event);
}

Mark Validator::MarkOf(const EventEntry& event) const {
  Mark mark = event.mark();
  if (event.shared) mark.Join(shared_records_);
  return mark;
}

void Validator::RemoveEvent(devrt_event event) {
  const Lock lock(mutex_);
  events_.Erase(event);
  records_.erase(event);
  detector_.RemoveEvent(AddressOf(event));
}

bool Validator::Record(const Caller& caller, devrt_stream stream,
                       devrt_event event) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return false;
  EventEntry* const recorded = events_.At(event);
  recorded->newest = 1 - recorded->newest;
  Mark* const mark = &recorded->marks[recorded->newest];
  if (recorded->records == nullptr) {
    recorded->records = detector_.RecordsOf(AddressOf(event));
  }
  detector_.Record(ToCall(caller), entry.actor, recorded->records, mark);
  if (recorded->shared) shared_records_.Join(*mark);
  if (threads_.is_exact()) NoteRecord(event, *recorded);
  return true;
}

void Validator::UndoRecord(devrt_event event) {
  const Lock lock(mutex_);
  EventEntry* const recorded = events_.At(event);
  recorded->marks[recorded->newest] = Mark();
  recorded->newest = 1 - recorded->newest;
  const auto records = records_.find(event);
  if (records != records_.end() && !records->second.empty()) {
    records->second.pop_back();
  }
}

void Validator::Wait(const Caller& caller, devrt_stream stream,
                     devrt_event event) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  const EventEntry* const found = events_.Find(event);
  if (entry.actor == kNoActor || found == nullptr) return;
  if (found->shared) {
    detector_.order().Wait(Thread(), entry.actor, MarkOf(*found));
    return;
  }
  const Mark* const newest = found->IsRecorded() ? &found->mark() : nullptr;
  const Mark* const certain = threads_.is_exact() && newest != nullptr
                                  ? CertainMark(event, *found)
                                  : newest;
  detector_.Wait(ToCall(caller), entry.actor, AddressOf(event), certain,
                 certain == newest ? nullptr : newest);
}

void Validator::EnablePeer(DeviceKey device, DeviceKey peer) {
  const Lock lock(mutex_);
  detector_.EnablePeer(device, peer);
}

void Validator::DisablePeer(DeviceKey device, DeviceKey peer) {
  const Lock lock(mutex_);
  detector_.DisablePeer(device, peer);
}

Validator::WaitedWork Validator::WorkOfStream(devrt_stream stream) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream);
  if (entry.actor == kNoActor) return {};
  return {this, detector_.order().MarkOfStream(entry.actor)};
}

Validator::WaitedWork Validator::WorkOfEvent(devrt_event event) {
  const Lock lock(mutex_);
  const EventEntry* const found = events_.Find(event);
  if (found == nullptr) return {};
  if (threads_.is_exact() && !found->shared && found->IsRecorded()) {
    const Mark* const mark = CertainMark(event, *found);
    return {this, mark == nullptr ? Mark() : *mark};
  }
  return {this, MarkOf(*found)};
}

Validator::WaitedWork Validator::WorkOfDevice(DeviceKey device) {
  const Lock lock(mutex_);
  return {this, detector_.order().MarkOfDevice(device)};
}

void Validator::Restart(DeviceKey device0) {
  const Lock lock(mutex_);
  const DeviceKey end = device0 + (1U << kDeviceBits);
  const auto ours = [&](DeviceKey device) {
    return device >= device0 && device < end;
  };
  // All work is over, so nothing conflicts with it any more.
  std::vector<devrt_stream> streams;
  std::set<DeviceKey> devices;
  for (const auto& [stream, entry] : streams_.entries()) {
    if (!ours(entry.device)) continue;
    streams.push_back(stream);
    devices.insert(entry.device);
  }
  for (const DeviceKey device : devices) {
    const Mark over = detector_.order().MarkOfDevice(device);
    threads_.WaitOfAll(over);
    detector_.EndOwnQuery(over);
  }
  for (const devrt_stream stream : streams) Remove(stream);
  std::vector<devrt_event> events;
  for (const auto& [event, entry] : events_.entries()) {
    if (ours(entry.device)) events.push_back(event);
  }
  for (const devrt_event event : events) {
    detector_.RemoveEvent(AddressOf(event));
    events_.Erase(event);
    records_.erase(event);
  }
  detector_.memory().RemoveDevices(device0, end);
  ops_.clear();
  host_waits_.clear();
  leaks_.RemoveDevices(device0, end);
  detector_.ForgetPeers(device0, end);
  detector_.ForgetFlags();
  findings_->StartRun();
}

void Validator::Forget() {
  until_forget_ = 0;
  const VectorClock known = threads_.KnownToAll();
  detector_.memory().Forget(known);
  threads_.ForgetKnown(known);
}

std::string Validator::Enqueue(const Caller& caller, devrt_stream stream,
                               AccessList accesses) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return "";
  first_.clear();
  NotePinned(accesses);
  const Call call = ToCall(caller);
  detector_.Enqueue(call, entry.actor, accesses);
  if (ABSL_PREDICT_FALSE(accesses.empty()) && caller.uses_memory) {
    findings_->CountUndeclared(texts_.Text(call.site));
  }
  if (ABSL_PREDICT_FALSE(!doubtful_.empty())) JudgeDoubtful();
  ForgetSometimes();
  return first_.empty() ? std::string() : std::exchange(first_, {});
}

void Validator::Retract(AccessList accesses) {
  const Lock lock(mutex_);
  detector_.Retract(accesses);
}

std::string Validator::UseByHost(const Caller& caller, AccessList accesses) {
  const Lock lock(mutex_);
  first_.clear();
  detector_.UseByHost(ToCall(caller), accesses);
  if (!doubtful_.empty()) JudgeDoubtful();
  return std::exchange(first_, {});
}

BlockInfo Validator::BlockAt(const void* ptr) {
  const Lock lock(mutex_);
  return *detector_.memory().At(AddressOf(ptr));
}

void Validator::FindPinned(AccessList accesses) {
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
  // One page table serves all threads.
  const VectorClock known = threads_.KnownToAny();
  for (auto at = pinned_.begin(); at != pinned_.end();) {
    // A part that an allocator handed out may share its first and last page.
    const Block* const block = detector_.memory().Find(at->first);
    const bool alone = block == nullptr || !block->is_part ||
                       detector_.memory().IsWhole(*block);
    const uint64_t begin = RoundUp(at->first, page);
    const uint64_t end =
        alone ? RoundUp(at->second, page) : at->second / page * page;
    std::vector<Conflict> uses;
    if (block != nullptr) block->shadow.FindUnknown(known, &uses);
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

void Validator::Allocate(const Caller& caller, DeviceKey device,
                         const void* ptr, uint64_t size, MemoryKind kind) {
  const Lock lock(mutex_);
  if (kind == MemoryKind::kPinned) has_pinned_.store(true);
  detector_.Allocate(ToCall(caller), AddressOf(ptr), size, kind, device);
}

uint64_t Validator::Free(const Caller& caller, const void* ptr) {
  const Lock lock(mutex_);
  return detector_.Free(ToCall(caller), AddressOf(ptr));
}

void Validator::AllocateOn(const Caller& caller, devrt_stream stream,
                           const void* ptr, uint64_t size, bool captured) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return;
  if (captured) {
    detector_.Allocate(ToCall(caller), AddressOf(ptr), size,
                       MemoryKind::kDevice, entry.device);
  } else {
    detector_.AllocateOn(ToCall(caller), entry.actor, AddressOf(ptr), size,
                         entry.device);
  }
}

uint64_t Validator::FreeOn(const Caller& caller, devrt_stream stream,
                           const void* ptr, bool captured) {
  const Lock lock(mutex_);
  if (captured) {
    detector_.memory().Erase(AddressOf(ptr));
    return 0;
  }
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return 0;
  return detector_.FreeOn(ToCall(caller), entry.actor, AddressOf(ptr));
}

void Validator::Unfree(const void* ptr, uint64_t id) {
  const Lock lock(mutex_);
  detector_.memory().Revive(AddressOf(ptr), id);
}

void Validator::Register(const void* ptr, uint64_t size) {
  const Lock lock(mutex_);
  registered_[ptr] = size;
}

void Validator::Unregister(const Caller& caller, const void* ptr) {
  const Lock lock(mutex_);
  const auto found = registered_.find(ptr);
  if (found == registered_.end()) return;
  // Blocks of an allocator that pinned the memory are free by now.
  detector_.memory().EraseParts(AddressOf(ptr), found->second);
  // No work may need the pages any more: as if the host wrote them.
  MemoryAccess access = {AddressOf(ptr), found->second, Mode::kWrite};
  access.is_programs = true;
  detector_.UseByHost(ToCall(caller), {access});
  registered_.erase(found);
}

void Validator::Carve(const void* base) {
  const Lock lock(mutex_);
  detector_.memory().Carve(AddressOf(base));
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
      entry.actor == kNoActor ? whole.device : entry.device,
      KnownInAllocators());
}

void Validator::TakeBack(const Caller& caller, devrt_stream stream,
                         const void* ptr,
                         const std::vector<devrt_stream>& users) {
  const Lock lock(mutex_);
  Actor actor = Find(stream).actor;
  if (ABSL_PREDICT_FALSE(actor == kNoActor)) {
    // A block may come back after its stream has ended.
    const Block* const block = detector_.memory().Find(AddressOf(ptr));
    if (block != nullptr) actor = block->home;
  }
  Mark waited;
  for (const devrt_stream user : users) {
    const StreamEntry entry = Find(user);
    if (entry.actor == kNoActor) continue;
    waited.Join(detector_.order().MarkOfStream(entry.actor));
  }
  detector_.TakeBack(ToCall(caller), actor, AddressOf(ptr), waited);
}

void Validator::HandOutPinned(const Caller& caller, DeviceKey device,
                              const void* ptr, uint64_t size) {
  const Lock lock(mutex_);
  has_pinned_.store(true);
  detector_.memory().Carve(AddressOf(ptr));
  detector_.HandOut(ToCall(caller), kNoActor, AddressOf(ptr), size,
                    MemoryKind::kPinned, device, KnownInAllocators());
}

void Validator::TakeBackPinned(const Caller& caller, const void* ptr) {
  const Lock lock(mutex_);
  detector_.TakeBackUnjudged(ToCall(caller), AddressOf(ptr));
}

bool Validator::IsBusy() const {
  const std::unique_lock<FindingsMutex> lock(mutex_, std::try_to_lock);
  return !lock.owns_lock() || (stacks_ != nullptr && stacks_->IsBusy());
}

std::string Validator::End() {
  const std::unique_lock<FindingsMutex> lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return "";
  findings_->CountLeftOut(
      "a flag that the program did not set may have ordered them, or too many "
      "waited for a flag",
      detector_.undecided());
  findings_->EndFile();
  return findings_->Summary();
}

std::string Validator::DeviceName(uint32_t device) const {
  return BackendOf(device).name + ":" +
         std::to_string(device & ((1U << kDeviceBits) - 1));
}

OpId Validator::OpOf(const Operation& operation) const {
  const auto found = ops_.find(operation.number);
  return found == ops_.end() ? OpId() : found->second;
}

std::string Validator::ActorName(Actor actor) const {
  const auto found = actors_.find(actor);
  if (found == actors_.end()) {
    const uint32_t thread = threads_.NumberOf(actor);
    return thread == 0 ? "the host" : threads_.NameOf(thread);
  }
  const ActorEntry& entry = found->second;
  const std::string device = " of " + DeviceName(entry.device);
  if (entry.kind == StreamKind::kLegacy) return "the default stream" + device;
  if (entry.number <= 1) return "a stream" + device;
  return "stream " + std::to_string(entry.number - 1) + device;
}

bool Validator::IsOnHardware(Actor actor) const {
  const auto found = actors_.find(actor);
  return found != actors_.end() && !IsSimulated(found->second.device);
}

}  // namespace devrt::race
