// SPDX-License-Identifier: Apache-2.0
#include "tests/layers/validate_oracle_program.h"

#include <cstddef>
#include <sstream>

namespace devrt::race::oracle {
namespace {

const char* NameOf(Do what) {
  switch (what) {
    case Do::kNewThread:
      return "new thread";
    case Do::kNewStream:
      return "new stream";
    case Do::kDropStream:
      return "drop stream";
    case Do::kSubmit:
      return "submit";
    case Do::kRecord:
      return "record";
    case Do::kWait:
      return "wait";
    case Do::kSyncStream:
      return "sync stream";
    case Do::kSyncEvent:
      return "sync event";
    case Do::kSyncDevice:
      return "sync device";
    case Do::kQueryStream:
      return "query stream";
    case Do::kQueryEvent:
      return "query event";
    case Do::kHostUse:
      return "host use";
    case Do::kAllocate:
      return "allocate";
    case Do::kFree:
      return "free";
    case Do::kAllocateOn:
      return "allocate on stream";
    case Do::kFreeOn:
      return "free on stream";
    case Do::kCarve:
      return "carve";
    case Do::kHandOut:
      return "hand out";
    case Do::kTakeBack:
      return "take back";
  }
  return "";
}

const char* NameOf(Effect effect) {
  switch (effect) {
    case Effect::kRead:
      return "read";
    case Effect::kWrite:
      return "write";
    case Effect::kReadWrite:
      return "read-write";
    case Effect::kReduce:
      return "reduce";
  }
  return "";
}

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kLegacy:
      return "legacy";
    case Kind::kBlocking:
      return "blocking";
    case Kind::kNonBlocking:
      return "non-blocking";
  }
  return "";
}

}  // namespace

bool IsEdge(const Step& step) {
  switch (step.what) {
    case Do::kRecord:
    case Do::kWait:
    case Do::kSyncStream:
    case Do::kSyncEvent:
    case Do::kSyncDevice:
      return true;
    case Do::kQueryStream:
    case Do::kQueryEvent:
      return step.answer;
    default:
      return false;
  }
}

Program Without(const Program& program, size_t index) {
  Program made = program;
  made.steps.erase(made.steps.begin() + static_cast<std::ptrdiff_t>(index));
  return made;
}

std::string ToText(const Program& program) {
  std::ostringstream text;
  for (size_t s = 0; s < program.streams.size(); ++s) {
    text << "stream " << s << ": " << NameOf(program.streams[s].kind)
         << ", device " << program.streams[s].device << "\n";
  }
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    text << i << ": thread " << step.thread << " " << NameOf(step.what);
    if (step.other >= 0) text << " " << step.other;
    if (step.stream >= 0) text << " stream " << step.stream;
    if (step.event >= 0) text << " event " << step.event;
    if (step.what == Do::kSyncDevice) text << " " << step.device;
    if (step.answer) text << " true";
    if (step.block.end != 0) {
      text << " [" << step.block.begin << ", " << step.block.end << ")";
    }
    for (const Use& use : step.uses) {
      text << " " << NameOf(use.effect) << " [" << use.cells.begin << ", "
           << use.cells.end << ")";
      if (use.effect == Effect::kReduce) text << " op " << use.op;
    }
    text << "\n";
  }
  return text.str();
}

}  // namespace devrt::race::oracle
