// SPDX-License-Identifier: Apache-2.0
#include "cts/random/program.h"

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

std::string Text(const Span& span) {
  return absl::StrCat("block ", span.block, " [", span.first, ", ",
                      span.first + span.count, ")");
}

std::string Text(const Content& c) {
  if (c.stride == 0) return absl::StrCat(+c.base);
  return absl::StrCat(+c.base, "+", +c.stride, "i");
}

std::string HostFuncText(const Step& s) {
  std::string text = absl::StrCat("host function on stream ", s.stream);
  if (s.src.block >= 0) absl::StrAppend(&text, ", reads ", Text(s.src));
  if (s.dst.block >= 0) {
    absl::StrAppend(&text, ", writes ", Text(s.dst), " = ", Text(s.value));
  }
  return text;
}

std::string QueryText(const Step& s) {
  std::string text = s.act == Act::kQueryStream
                         ? absl::StrCat("query stream ", s.stream)
                         : absl::StrCat("query event ", s.event);
  if (s.truth == Truth::kTrue) absl::StrAppend(&text, ": true");
  if (s.truth == Truth::kSoon) absl::StrAppend(&text, ": true before long");
  if (s.truth == Truth::kFalse) absl::StrAppend(&text, ": false");
  if (s.src.block >= 0) absl::StrAppend(&text, ", if true read ", Text(s.src));
  return text;
}

// For steps about a stream, an event or memory.
std::string WorkText(const Step& s) {
  switch (s.act) {
    case Act::kFill:
      return absl::StrCat("fill ", Text(s.dst), " = ", Text(s.value),
                          " on stream ", s.stream);
    case Act::kCopy:
      return absl::StrCat(s.blocking ? "blocking copy " : "copy ", Text(s.src),
                          " to ", Text(s.dst), " on stream ", s.stream);
    case Act::kSpin:
      return absl::StrCat("spin ", s.nanoseconds, " ns on stream ", s.stream);
    case Act::kRecord:
      return absl::StrCat("record event ", s.event, " on stream ", s.stream);
    case Act::kWait:
      return absl::StrCat("stream ", s.stream, " waits for event ", s.event);
    case Act::kWaitStream:
      return absl::StrCat("stream ", s.stream, " waits for stream ", s.other);
    case Act::kHold:
      return absl::StrCat("gate ", s.gate, " holds stream ", s.stream);
    case Act::kHostWrite:
      return absl::StrCat("write ", Text(s.dst), " = ", Text(s.value));
    case Act::kHostRead:
      return absl::StrCat("read ", Text(s.src));
    default:
      return "";
  }
}

std::string ObjectText(const Step& s) {
  switch (s.act) {
    case Act::kNewStream:
      return absl::StrCat("create stream ", s.stream);
    case Act::kDropStream:
      return absl::StrCat("destroy stream ", s.stream);
    case Act::kNewEvent:
      return absl::StrCat("create event ", s.event);
    case Act::kDropEvent:
      return absl::StrCat("destroy event ", s.event);
    case Act::kNewBlock:
      return absl::StrCat("allocate block ", s.dst.block);
    case Act::kFreeBlock:
      return absl::StrCat("free block ", s.dst.block);
    case Act::kSyncStream:
      return absl::StrCat("synchronise stream ", s.stream);
    case Act::kSyncEvent:
      return absl::StrCat("synchronise event ", s.event);
    case Act::kSyncDevice:
      return absl::StrCat("synchronise device ", s.device);
    case Act::kPollStream:
      return absl::StrCat("poll stream ", s.stream);
    case Act::kPollEvent:
      return absl::StrCat("poll event ", s.event);
    case Act::kElapsed:
      return absl::StrCat("time from event ", s.event, " to event ", s.other);
    case Act::kOpen:
      return absl::StrCat("open gate ", s.gate);
    case Act::kSelectDevice:
      return absl::StrCat("select device ", s.device);
    case Act::kBarrier:
      return "barrier";
    default:
      return WorkText(s);
  }
}

// SplitMix64.
uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

}  // namespace

int FindStream(const Program& program, StreamKind kind, int device,
               int thread) {
  for (size_t i = 0; i < program.streams.size(); ++i) {
    const StreamInfo& s = program.streams[i];
    if (s.kind == kind && s.device == device &&
        (kind != StreamKind::kPerThread || s.thread == thread)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<Content> Slices(const Content& value, int count,
                            uint32_t slice_bytes) {
  std::vector<Content> slices;
  for (int i = 0; i < count; ++i) {
    slices.push_back(value.After(static_cast<uint64_t>(i) * slice_bytes));
  }
  return slices;
}

std::string ToText(const Step& s) {
  switch (s.act) {
    case Act::kHostFunc:
      return HostFuncText(s);
    case Act::kQueryStream:
    case Act::kQueryEvent:
      return QueryText(s);
    default:
      return ObjectText(s);
  }
}

std::string ToText(const Program& program) {
  std::string text;
  for (size_t i = 0; i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    absl::StrAppend(&text, i + 1, ": ");
    if (program.threads > 1 && step.act != Act::kBarrier) {
      absl::StrAppend(&text, "thread ", step.thread, ": ");
    }
    absl::StrAppend(&text, ToText(step), "\n");
  }
  return text;
}

uint64_t ProgramSeed(uint64_t seed, int index) {
  if (index == 0) return seed;
  return Mix(seed ^ Mix(static_cast<uint64_t>(index))) >> 1;
}

}  // namespace devrt::cts
