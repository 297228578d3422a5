// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/report.h"

#include <algorithm>
#include <cctype>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace devrt::race {
namespace {

using nlohmann::json;

constexpr std::string_view kThreadOrder =
    "a mutex, a condition variable or a join that the detector sees "
    "(devrt::sync)";

std::string_view MemoryName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return "device memory";
    case MemoryKind::kPinned:
      return "pinned host memory";
    case MemoryKind::kManaged:
      return "managed memory";
    case MemoryKind::kHost:
      break;
  }
  return "host memory";
}

std::string_view ModeName(Mode mode) {
  switch (mode) {
    case Mode::kRead:
      return "read";
    case Mode::kWrite:
      return "write";
    case Mode::kReadWrite:
      return "update";
    case Mode::kReduce:
      break;
  }
  return "reduction";
}

// Text that says nothing else has this place.
std::string Place(const Operation& operation, const Names& names) {
  const std::string& site = names.Text(operation.site);
  return site.empty() ? "an unknown line" : site;
}

std::string Quoted(const Operation& operation, const Names& names) {
  return "\"" + names.Text(operation.name) + "\"";
}

std::string BlockText(const BlockInfo& block, const Names& names) {
  std::string text(MemoryName(block.kind));
  if (block.kind == MemoryKind::kHost) return text;
  text += " of " + names.DeviceName(block.device) + ", " +
          std::to_string(block.end - block.begin) + " bytes, allocated at " +
          Place(block.made, names);
  if (block.live()) return text;
  text += block.is_carved ? ", freed by its allocator" : ", freed";
  const std::string thread = names.ThreadOf(block.released->name);
  if (!thread.empty()) text += " in " + thread;
  return text + " at " + Place(*block.released, names);
}

std::string OperationLine(const char* which, Mode mode,
                          const Operation& operation, const Names& names) {
  std::string line = std::string("  ") + which + std::string(ModeName(mode)) +
                     " " + Quoted(operation, names) + "  " +
                     names.ActorName(operation.epoch.actor);
  // A stream does not say which thread enqueued the work.
  const std::string thread = names.ThreadOf(operation.name);
  if (!thread.empty() && thread != names.ActorName(operation.epoch.actor)) {
    line += " by " + thread;
  }
  return line + "  " + Place(operation, names);
}

// Returns true if the two calls are of threads that nothing orders, as far as
// is known.
bool IsOfTwoThreads(const Finding& finding, const Names& names) {
  return names.ThreadOf(finding.earlier.name) !=
         names.ThreadOf(finding.later.name);
}

std::string NearMissText(const Finding& finding, const NearMiss& miss,
                         const Names& names) {
  const std::string recorded = names.ActorName(finding.earlier.epoch.actor);
  const std::string waiting = names.ActorName(finding.later.epoch.actor);
  const std::string at = Place(miss.use.at, names);
  const std::string recorded_at =
      miss.record.has_value() ? " at " + Place(*miss.record, names) : "";
  switch (miss.kind) {
    case NearMissKind::kNeverRecorded:
      return waiting + " waits at " + at +
             " for an event that was never recorded";
    case NearMissKind::kRecordedBefore:
      return waiting + " waits at " + at +
             " for an event that was recorded on " + recorded + recorded_at +
             " before the earlier operation";
    case NearMissKind::kReplaced:
      return waiting + " waits at " + at +
             " for an event that covered the earlier operation until it was "
             "recorded again on " +
             names.ActorName(miss.use.mark.actor) + recorded_at;
    case NearMissKind::kNotWaitedFor:
      return "an event recorded at " + at +
             " covers the earlier operation, and " + waiting +
             " does not wait for it";
    case NearMissKind::kMayBeEarly:
      return waiting + " waits at " + at +
             " for an event that was recorded on " + recorded + recorded_at +
             ", and nothing orders the record before the call that waits";
    case NearMissKind::kOtherStream:
      break;
  }
  return waiting + " waits at " + at + " for an event that was recorded on " +
         names.ActorName(miss.use.mark.actor) + recorded_at;
}

std::string Remedy(const Finding& finding, const Names& names) {
  const std::string from = names.ActorName(finding.earlier.epoch.actor);
  const std::string to = names.ActorName(finding.later.epoch.actor);
  const std::string after = Place(finding.earlier, names);
  const std::string before = Place(finding.later, names);
  switch (finding.kind) {
    case FindingKind::kHostAccess:
      if (!finding.earlier_is_work) {
        return "let " + to + " come after " + after + ": by " +
               std::string(kThreadOrder);
      }
      return "wait on the host for " + from + " after " + after +
             " and before " + before;
    case FindingKind::kUseAfterFree:
      return "free the memory after the use at " + before;
    case FindingKind::kFreeWhileUsed:
      return "let the free at " + before + " come after the work of " + from +
             ": wait for the stream, or tell the allocator that the stream "
             "uses the block";
    case FindingKind::kReuseWhileUsed:
      return "tell the allocator that " + from +
             " uses the block, before the block is freed";
    case FindingKind::kWrongDevice:
      return "enable peer access to " + names.DeviceName(finding.block.device) +
             ", or run the operation on a stream of that device";
    case FindingKind::kWriteAfterWrite:
    case FindingKind::kReadAfterWrite:
    case FindingKind::kWriteAfterRead:
    case FindingKind::kUseBeforeAllocation:
      break;
  }
  for (const NearMiss& miss : finding.explanation.near_misses) {
    if (miss.kind != NearMissKind::kMayBeEarly) continue;
    return "let the wait at " + Place(miss.use.at, names) +
           " come after the record" +
           (miss.record.has_value() ? " at " + Place(*miss.record, names)
                                    : "") +
           ", by " + std::string(kThreadOrder);
  }
  std::string remedy = "record an event on " + from + " after " + after +
                       ", and let " + to + " wait for it before " + before;
  if (IsOfTwoThreads(finding, names)) {
    remedy += "; the thread that waits must come after the record, by " +
              std::string(kThreadOrder);
  }
  return remedy;
}

// 32-bit FNV-1a.
uint32_t Hash(std::string_view text) {
  constexpr uint32_t kStart = 2166136261U;
  constexpr uint32_t kPrime = 16777619U;
  uint32_t hash = kStart;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  }
  return hash;
}

json OperationJson(const Operation& operation, const Names& names) {
  json out = {{"name", names.Text(operation.name)},
              {"actor", names.ActorName(operation.epoch.actor)},
              {"number", operation.number},
              {"site", names.Text(operation.site)}};
  const OpId id = names.OpOf(operation);
  if (id.known()) {
    out[id.kind == OpId::Kind::kOwn ? "op" : "next_op"] = {id.thread, id.index};
  }
  return out;
}

json StackJson(const CallStack& stack) {
  json frames = json::array();
  for (const CodePlace& frame : stack.frames) {
    json& out = frames.emplace_back(json{{"function", frame.function},
                                         {"file", frame.file},
                                         {"line", frame.line}});
    if (frame.file.empty()) out["module"] = frame.module;
  }
  return frames;
}

json AccessJson(const Operation& operation, Mode mode, const Names& names) {
  json out = OperationJson(operation, names);
  out["access"] = ModeName(mode);
  const std::string thread = names.ThreadOf(operation.name);
  if (!thread.empty()) out["thread"] = thread;
  AddStack(names.StackOf(operation.site), &out);
  return out;
}

std::string_view NearMissName(NearMissKind kind) {
  switch (kind) {
    case NearMissKind::kNeverRecorded:
      return "never-recorded";
    case NearMissKind::kRecordedBefore:
      return "recorded-before";
    case NearMissKind::kReplaced:
      return "recorded-again";
    case NearMissKind::kNotWaitedFor:
      return "not-waited-for";
    case NearMissKind::kMayBeEarly:
      return "may-be-early";
    case NearMissKind::kOtherStream:
      break;
  }
  return "other-stream";
}

json NearMissJson(const Finding& finding, const NearMiss& miss,
                  const Names& names) {
  json out = {{"kind", NearMissName(miss.kind)},
              {"text", NearMissText(finding, miss, names)}};
  if (miss.kind == NearMissKind::kNotWaitedFor) {
    out["record"] = OperationJson(miss.use.at, names);
    return out;
  }
  out["wait"] = OperationJson(miss.use.at, names);
  if (miss.record.has_value()) {
    out["record"] = OperationJson(*miss.record, names);
  }
  return out;
}

json BlockJson(const BlockInfo& block, const Names& names) {
  json out = {{"memory", MemoryName(block.kind)}};
  if (block.kind == MemoryKind::kHost) return out;  // not devrt's memory
  out["number"] = block.id;
  out["device"] = names.DeviceName(block.device);
  out["bytes"] = block.end - block.begin;
  out["allocated"] = names.Text(block.made.site);
  return out;
}

// The word as a shell takes it.
std::string ShellWord(const std::string& word) {
  const bool is_plain =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::strchr("_-+=:,./@%", c) != nullptr;
      });
  if (is_plain) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// The words of this program's command line, each after a blank.  Empty where
// the system does not tell them.
std::string ProgramWords() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string words;
  for (std::string word; std::getline(file, word, '\0');) {
    words += " " + ShellWord(word);
  }
  return words;
}

}  // namespace

std::string StablePlace(const std::string& site) {
  std::string place = site.substr(site.rfind('/') + 1);
  const size_t offset = place.find("+0x");
  if (offset != std::string::npos) {
    place.erase(offset, place.find(' ', offset) - offset);
  }
  return place;
}

std::string HashedId(std::string_view text) {
  char id[16];
  std::snprintf(id, sizeof id, "race-%08" PRIx32, Hash(text));
  return id;
}

std::string_view KindName(FindingKind kind) {
  switch (kind) {
    case FindingKind::kReadAfterWrite:
      return "read-after-write";
    case FindingKind::kWriteAfterRead:
      return "write-after-read";
    case FindingKind::kUseBeforeAllocation:
      return "use-before-allocation";
    case FindingKind::kUseAfterFree:
      return "use-after-free";
    case FindingKind::kFreeWhileUsed:
      return "free-while-used";
    case FindingKind::kReuseWhileUsed:
      return "reuse-while-used";
    case FindingKind::kHostAccess:
      return "host-access-in-flight";
    case FindingKind::kWrongDevice:
      return "wrong-device";
    case FindingKind::kWriteAfterWrite:
      break;
  }
  return "write-after-write";
}

std::string FindingId(const Finding& finding, const Names& names) {
  const auto place = [&](const Operation& operation) {
    return StablePlace(names.Text(operation.site)) + "|" +
           names.Text(operation.name);
  };
  std::string a = place(finding.earlier);
  std::string b = place(finding.later);
  if (b < a) std::swap(a, b);
  return HashedId(std::string(KindName(finding.kind)) + "|" + a + "|" + b);
}

std::string StackLines(const CallStack& stack) {
  std::string lines;
  for (const CodePlace& frame : stack.frames) {
    lines += lines.empty() ? "    in " : "    called by ";
    if (!frame.function.empty() && !frame.file.empty()) {
      lines += frame.function + ", ";
    }
    lines += frame.Text() + "\n";
  }
  if (stack.left_out != 0) {
    lines += std::string("    called by ") + (stack.is_cut ? "at least " : "") +
             std::to_string(stack.left_out) + " more\n";
  } else if (stack.is_cut) {
    lines += "    called by functions that are not known\n";
  }
  return lines;
}

void AddStack(const CallStack& stack, json* operation) {
  if (!stack.frames.empty()) (*operation)["stack"] = StackJson(stack);
  if (stack.left_out != 0) (*operation)["stack_left_out"] = stack.left_out;
  if (stack.is_cut) (*operation)["stack_is_cut"] = true;
}

std::string FindingText(const Finding& finding, const Names& names) {
  const std::string later = names.ActorName(finding.later.epoch.actor);
  const std::string earlier = names.ActorName(finding.earlier.epoch.actor);
  std::string text =
      FindingId(finding, names) + " [" + std::string(KindName(finding.kind)) +
      "] " + (finding.approximate ? "at most " : "") +
      std::to_string(finding.range.end - finding.range.begin) + " bytes at ";
  char place[64];
  if (finding.block.kind == MemoryKind::kHost) {
    std::snprintf(place, sizeof place, "0x%" PRIx64, finding.range.begin);
  } else {
    std::snprintf(place, sizeof place, "block %" PRIu64 " + %" PRIu64,
                  finding.block.id, finding.range.begin);
  }
  text += place;
  text += "\n  (" + BlockText(finding.block, names) + ")\n";
  text +=
      OperationLine("earlier  ", finding.earlier_mode, finding.earlier, names) +
      "\n" + StackLines(names.StackOf(finding.earlier.site));
  text += OperationLine("later    ", finding.later_mode, finding.later, names) +
          "\n" + StackLines(names.StackOf(finding.later.site));
  if (LacksOrder(finding.kind)) {
    text += "  nothing orders them: " + later;
    if (finding.explanation.last_ordered.has_value()) {
      text += " comes after " + earlier + " up to " +
              Place(*finding.explanation.last_ordered, names) + "\n";
    } else {
      text += " does not come after recent work of " + earlier + "\n";
    }
    for (const NearMiss& miss : finding.explanation.near_misses) {
      text += "  near miss: " + NearMissText(finding, miss, names) + "\n";
    }
  }
  text += "  to mend it: " + Remedy(finding, names);
  if (names.IsOnHardware(finding.earlier.epoch.actor) ||
      names.IsOnHardware(finding.later.epoch.actor)) {
    text += "\n  to repeat it: DEVRT_BACKENDS=mtia devrt check --witness --" +
            ProgramWords();
  }
  return text;
}

std::string FindingJson(const Finding& finding, const Names& names) {
  json misses = json::array();
  for (const NearMiss& miss : finding.explanation.near_misses) {
    misses.push_back(NearMissJson(finding, miss, names));
  }
  json out = {
      {"id", FindingId(finding, names)},
      {"kind", KindName(finding.kind)},
      {"text", FindingText(finding, names)},
      {"block", BlockJson(finding.block, names)},
      {"begin", finding.range.begin},
      {"end", finding.range.end},
      {"approximate", finding.approximate},
      {"earlier", AccessJson(finding.earlier, finding.earlier_mode, names)},
      {"later", AccessJson(finding.later, finding.later_mode, names)},
      {"near_misses", misses},
      {"remedy", Remedy(finding, names)}};
  if (finding.explanation.last_ordered.has_value()) {
    out["last_ordered"] =
        OperationJson(*finding.explanation.last_ordered, names);
  }
  if (!finding.block.live()) {
    out["block"]["freed"] = names.Text(finding.block.released->site);
  }
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace devrt::race
