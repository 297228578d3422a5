// SPDX-License-Identifier: Apache-2.0
//
// The findings of the Validator: those that it makes, and those that it leaves
// out.
#include <sys/mman.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "layers/validate/validator.h"

namespace devrt::race {

using Lock = std::lock_guard<FindingsMutex>;

namespace {

// Returns true if the process has a page at the address.
bool IsMapped(uint64_t address) {
  static const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  unsigned char is_resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1,
                 &is_resident) == 0;
}

}  // namespace

bool Validator::MayBeOrdered(const Finding& finding) const {
  if (!has_adopted_ || finding.kind == FindingKind::kUseAfterFree) return false;
  if (finding.block.kind != MemoryKind::kHost) {
    return !IsSimulated(finding.block.device);
  }
  // Host memory belongs to no device, and may be used by several ones.
  const auto is_unsimulated = [this](const Operation& operation) {
    const auto stream = actors_.find(operation.epoch.actor);
    return stream != actors_.end() && !IsSimulated(stream->second.device);
  };
  return is_unsimulated(finding.earlier) || is_unsimulated(finding.later);
}

void Validator::Found(const Finding& finding) {
  if (MayBeOrdered(finding)) {
    detector_.Forget(finding);
    return findings_->LeaveOut(
        "the program has adopted a stream, and the other library may have "
        "ordered them (DEVRT_RACE_FOREIGN)");
  }
  const BlockInfo& block = finding.block;
  // A pool of the driver may keep memory that was freed in stream order.
  const bool is_doubtful =
      finding.kind == FindingKind::kUseAfterFree && !block.is_part &&
      !IsSimulated(block.device) &&
      BackendOf(block.device).has_memory != nullptr &&
      !detector_.order().IsStream(block.released->epoch.actor);
  if (is_doubtful) return doubtful_.push_back(finding);
  Make(finding);
}

void Validator::Make(const Finding& finding) {
  const std::string text = findings_->Add(finding, *this);
  if (first_.empty()) first_ = text;
}

void Validator::JudgeDoubtful() {
  struct Doubt {
    Finding use;
    HasMemory is_there;
  };
  std::string first = std::exchange(first_, {});
  while (!doubtful_.empty()) {
    std::vector<Doubt> doubts;
    for (Finding& use : std::exchange(doubtful_, {})) {
      // The host and a simulator use what the process has mapped.
      HasMemory is_there;
      if (IsOnHardware(use.later.epoch.actor)) {
        is_there = BackendOf(use.block.device).has_memory;
      }
      doubts.push_back({std::move(use), std::move(is_there)});
    }
    std::vector<bool> are_others;
    mutex_.unlock();
    for (const Doubt& doubt : doubts) {
      const uint64_t at = doubt.use.block.begin + doubt.use.range.begin;
      are_others.push_back(
          doubt.is_there != nullptr
              ? doubt.is_there(reinterpret_cast<const void*>(at))
              : IsMapped(at));
    }
    mutex_.lock();
    first_ = std::move(first);
    for (size_t i = 0; i < doubts.size(); ++i) {
      if (are_others[i]) {
        detector_.JudgeAgain(doubts[i].use);
      } else {
        Make(doubts[i].use);
      }
    }
    first = std::exchange(first_, {});
  }
  first_ = std::move(first);
}

uint32_t Validator::SiteWithStack(uint32_t site, uint32_t stack) {
  uint32_t& number = sites_with_stacks_[{site, stack}];
  if (number == 0) {
    number = texts_.Alias(site);
    stacks_of_sites_[number] = stack;
  }
  return number;
}

CallStack Validator::StackOf(uint32_t site) const {
  const auto found = stacks_of_sites_.find(site);
  return found == stacks_of_sites_.end()
             ? CallStack()
             : stacks_->TextOf(found->second, texts_.Text(site));
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

void Validator::NoteHostWait(uint32_t thread, const Caller& caller) {
  const Lock lock(mutex_);
  host_waits_[thread] = ToCall(caller).site;
}

// The simulator names threads by its numbers, "host#0", and streams by those of
// the program, "s1".  It tells lines and no stacks.  If calls with this line
// have several stacks, none is known.
CallStack Validator::StackOfPart(const Notice::Part& part) const {
  if (part.site.empty()) return {};
  for (const auto& [thread, site] : host_waits_) {
    if (part.actor != "host#" + std::to_string(thread)) continue;
    return Text(site) == part.site ? StackOf(site) : CallStack();
  }
  std::set<uint32_t> sites;
  for (const auto& [actor, stream] : actors_) {
    if (!IsSimulated(stream.device) || stream.number == 0) continue;
    std::string name = "s" + std::to_string(stream.number - 1);
    if (stream.number == 1) name += "@" + DeviceName(stream.device);
    if (part.actor != name) continue;
    detector_.history().ForEachLast(actor, [&](const Operation& operation) {
      if (Text(operation.site) == part.site) sites.insert(operation.site);
      return true;
    });
  }
  return sites.size() == 1 ? StackOf(*sites.begin()) : CallStack();
}

void Validator::AddDeadlock(const std::string& text) {
  const Lock lock(mutex_);
  Notice notice = DeadlockNotice(text);
  for (Notice::Part& part : notice.parts) part.stack = StackOfPart(part);
  findings_->Add(notice);
}

void Validator::NoteMade(const Caller& caller, DeviceKey device,
                         const void* object, const char* noun) {
  const Lock lock(mutex_);
  leaks_.Made(object, noun, device, ToCall(caller).site);
}

void Validator::NoteEnded(const void* object) {
  const Lock lock(mutex_);
  leaks_.Ended(object);
}

void Validator::AddLeaks() {
  const Lock lock(mutex_);
  for (const Notice& leak :
       leaks_.Find(detector_.memory().LiveOfProgram(), *this)) {
    findings_->Add(leak);
  }
}

}  // namespace devrt::race
