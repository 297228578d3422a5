// SPDX-License-Identifier: Apache-2.0
#include "tests/layers/validate_oracle_compare.h"

#include <sstream>

#include "tests/layers/validate_oracle.h"

namespace devrt::race::oracle {
namespace {

constexpr uint64_t kBase = 0x10000;
constexpr uint64_t kCellBytes = 8;

uint64_t AddressOf(int cell) {
  return kBase + static_cast<uint64_t>(cell) * kCellBytes;
}
uint64_t BytesOf(Run run) { return AddressOf(run.end) - AddressOf(run.begin); }
int CellOf(uint64_t address) {
  return static_cast<int>((address - kBase) / kCellBytes);
}

Mode ModeOf(Effect effect) {
  switch (effect) {
    case Effect::kRead:
      return Mode::kRead;
    case Effect::kWrite:
      return Mode::kWrite;
    case Effect::kReadWrite:
      return Mode::kReadWrite;
    case Effect::kReduce:
      return Mode::kReduce;
  }
  return Mode::kRead;
}

StreamKind KindOf(Kind kind) {
  switch (kind) {
    case Kind::kLegacy:
      return StreamKind::kLegacy;
    case Kind::kBlocking:
      return StreamKind::kBlocking;
    case Kind::kNonBlocking:
      return StreamKind::kNonBlocking;
  }
  return StreamKind::kNonBlocking;
}

}  // namespace

Watched::Watched(const Program& program)
    : program_(program),
      detector_([this](const Finding& finding) { Note(finding); }),
      threads_(static_cast<size_t>(program.threads), kNoActor),
      streams_(program.streams.size(), kNoActor) {
  threads_[0] = detector_.order().AddThread();
}

// Each call has its step as its site.
void Watched::Note(const Finding& finding) {
  Found found;
  found.earlier = static_cast<int>(finding.earlier.site) - 1;
  found.later = static_cast<int>(finding.later.site) - 1;
  const uint64_t begin = finding.block.begin;
  found.cells = Run{CellOf(begin + finding.range.begin),
                    CellOf(begin + finding.range.end)}
                    .mask();
  found_.push_back(found);
}

std::vector<MemoryAccess> Watched::AccessesOf(const Step& step) const {
  std::vector<MemoryAccess> accesses;
  for (const Use& use : step.uses) {
    MemoryAccess access;
    access.address = AddressOf(use.cells.begin);
    access.size = BytesOf(use.cells);
    access.mode = ModeOf(use.effect);
    access.reduction = static_cast<uint32_t>(use.op);
    accesses.push_back(access);
  }
  return accesses;
}

void Watched::Take(const Step& step) {
  Order& order = detector_.order();
  const auto site = static_cast<uint32_t>(++steps_);
  const Actor thread = ThreadOf(step.thread);
  const Call call = {thread, 0, site};
  const Actor stream = step.stream < 0 ? kNoActor : StreamOf(step.stream);
  const auto event = static_cast<uint64_t>(step.event);
  const auto device = static_cast<uint32_t>(step.device);
  const uint64_t at = AddressOf(step.block.begin);
  const uint64_t bytes = BytesOf(step.block);
  const auto mark = marks_.find(step.event);
  switch (step.what) {
    case Do::kNewThread:
      if (!program_.one_order) {
        threads_[static_cast<size_t>(step.other)] = order.AddThread(thread);
      }
      break;
    case Do::kNewStream: {
      const StreamInfo& info =
          program_.streams[static_cast<size_t>(step.stream)];
      streams_[static_cast<size_t>(step.stream)] = order.AddStream(
          thread, {static_cast<uint32_t>(info.device), KindOf(info.kind)});
      break;
    }
    case Do::kDropStream:
      order.RemoveStream(stream);
      break;
    case Do::kSubmit:
      detector_.Enqueue(call, stream, AccessesOf(step));
      break;
    case Do::kRecord:
      marks_[step.event] = detector_.Record(call, stream, event);
      break;
    case Do::kWait:
      detector_.Wait(call, stream, event,
                     mark == marks_.end() ? nullptr : &mark->second);
      break;
    case Do::kSyncStream:
      order.HostWait(thread, order.MarkOfStream(stream));
      break;
    case Do::kQueryStream:
      if (step.answer) order.HostWait(thread, order.MarkOfStream(stream));
      break;
    case Do::kSyncEvent:
      if (mark != marks_.end()) order.HostWait(thread, mark->second);
      break;
    case Do::kQueryEvent:
      if (step.answer && mark != marks_.end()) {
        order.HostWait(thread, mark->second);
      }
      break;
    case Do::kSyncDevice:
      order.HostWait(thread, order.MarkOfDevice(device));
      break;
    case Do::kHostUse:
      detector_.UseByHost(call, AccessesOf(step));
      break;
    case Do::kAllocate:
      detector_.Allocate(call, at, bytes, MemoryKind::kDevice, device);
      break;
    case Do::kFree:
      detector_.Free(call, at);
      break;
    case Do::kAllocateOn:
      detector_.AllocateOn(call, stream, at, bytes, device);
      break;
    case Do::kFreeOn:
      detector_.FreeOn(call, stream, at);
      break;
    case Do::kCarve:
      break;
    case Do::kHandOut:
      detector_.HandOut(call, stream, at, bytes, MemoryKind::kDevice, device);
      break;
    case Do::kTakeBack:
      detector_.TakeBack(call, stream, at);
      break;
  }
}

// ---- Findings

namespace {

uint64_t CellsOf(const std::vector<Race>& races, int earlier, int later) {
  uint64_t cells = 0;
  for (const Race& race : races) {
    if (race.earlier == earlier && race.later == later) {
      cells |= uint64_t{1} << race.cell;
    }
  }
  return cells;
}

bool IsCovered(const Race& race, const std::vector<Found>& found) {
  for (const Found& one : found) {
    if ((one.cells >> race.cell & 1) != 0 && one.later <= race.later &&
        one.later > race.born) {
      return true;
    }
  }
  return false;
}

}  // namespace

Comparison Compare(const Program& program) {
  Oracle oracle(&program);
  Watched watched(program);
  for (const Step& step : program.steps) {
    oracle.Take(step);
    watched.Take(step);
  }
  Comparison comparison;
  comparison.has_race = !oracle.races().empty();
  comparison.has_finding = !watched.found().empty();
  std::ostringstream text;
  for (const Found& one : watched.found()) {
    const uint64_t cells = CellsOf(oracle.races(), one.earlier, one.later);
    if ((one.cells & ~cells) != 0) {
      text << "a finding is no race: steps " << one.earlier << " and "
           << one.later << "\n";
    }
  }
  for (const Race& race : oracle.races()) {
    if (!IsCovered(race, watched.found())) {
      text << "a race has no finding: steps " << race.earlier << " and "
           << race.later << ", cell " << race.cell << "\n";
    }
  }
  comparison.difference = text.str();
  if (!comparison.difference.empty()) {
    comparison.difference += ToText(program);
  }
  return comparison;
}

// ---- Order

std::string CompareOrder(const Program& program) {
  Oracle oracle(&program);
  Watched watched(program);
  std::vector<Epoch> epochs;  // of the nodes so far; by step
  std::ostringstream text;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    oracle.TakeOrder(step);
    watched.Take(step);
    Epoch epoch;
    const int node = oracle.NodeOf(static_cast<int>(i));
    if (node >= 0) {
      const bool on_host = step.what == Do::kHostUse;
      const Actor actor = on_host ? watched.ThreadOf(step.thread)
                                  : watched.StreamOf(step.stream);
      const VectorClock& clock = watched.detector().order().ClockOf(actor);
      epoch = clock.now();
      for (size_t j = 0; j < i; ++j) {
        const int other = oracle.NodeOf(static_cast<int>(j));
        if (other < 0) continue;
        if (clock.Knows(epochs[j]) != oracle.IsBefore(other, node)) {
          text << "the order differs: steps " << j << " and " << i << "\n";
        }
      }
    }
    epochs.push_back(epoch);
  }
  const std::string differences = text.str();
  return differences.empty() ? differences : differences + ToText(program);
}

}  // namespace devrt::race::oracle
