// SPDX-License-Identifier: Apache-2.0
#include "cts/random/step_printer.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

std::string At(const char* letter, int i) { return absl::StrCat(letter, i); }

}  // namespace

void StepPrinter::Line(const std::string& text) {
  absl::StrAppend(&out_, "  ", text, "\n");
}

std::string StepPrinter::Check(const std::string& call) const {
  return absl::StrCat("Ok(", number_, ", ", call, ")");
}

void StepPrinter::Do(const std::string& call) { Line(Check(call) + ";"); }

std::string StepPrinter::Bytes(int slices) const {
  return absl::StrCat(static_cast<uint64_t>(slices) * p_.slice_bytes);
}

std::string StepPrinter::StreamText(int stream) const {
  const StreamInfo& info = p_.streams[static_cast<size_t>(stream)];
  if (info.kind == StreamKind::kDefault) {
    return absl::StrCat("devrt::DefaultStream(d[", info.device, "])");
  }
  if (info.kind == StreamKind::kPerThread) {
    return Check(
        absl::StrCat("devrt::PerThreadDefaultStream(d[", info.device, "])"));
  }
  return absl::StrCat("*s", stream);
}

std::string StepPrinter::OfStream(int stream) const {
  const bool created = p_.streams[static_cast<size_t>(stream)].IsCreated();
  return created ? absl::StrCat("s", stream, "->")
                 : absl::StrCat(StreamText(stream), ".");
}

std::string StepPrinter::SpanText(const Span& span) const {
  if (span.first == 0) return At("b", span.block);
  return absl::StrCat("b", span.block, " + ", Bytes(span.first));
}

std::string StepPrinter::PutText(const Step& s) const {
  return absl::StrCat("Put(", SpanText(s.dst), ", ", Bytes(s.dst.count), ", ",
                      +s.value.base, ", ", +s.value.stride, ");");
}

// Merges adjacent slices with continuous content.
void StepPrinter::PrintCompare(const Step& s, const char* indent) {
  for (size_t i = 0; i < s.found.size();) {
    size_t end = i + 1;
    while (end < s.found.size() &&
           s.found[end] == s.found[end - 1].After(p_.slice_bytes)) {
      ++end;
    }
    const Span part = {s.src.block, s.src.first + static_cast<int>(i),
                       static_cast<int>(end - i)};
    Line(absl::StrCat(indent, "Expect(", number_, ", ", SpanText(part), ", ",
                      Bytes(part.count), ", ", +s.found[i].base, ", ",
                      +s.found[i].stride, ");"));
    i = end;
  }
}

std::string StepPrinter::Print(size_t index) {
  out_.clear();
  number_ = index + 1;
  Line(absl::StrCat("// ", number_, ": ", ToText(p_.steps[index])));
  PrintStep(p_.steps[index]);
  return std::move(out_);
}

void StepPrinter::PrintStep(const Step& s) {
  switch (s.act) {
    case Act::kNewStream:
    case Act::kNewEvent:
    case Act::kNewBlock:
      return PrintMade(s);
    case Act::kDropStream:
    case Act::kDropEvent:
    case Act::kFreeBlock:
      return PrintDropped(s);
    case Act::kFill:
    case Act::kCopy:
    case Act::kSpin:
    case Act::kHold:
      return PrintWork(s);
    case Act::kHostFunc:
      return PrintHostFunc(s);
    case Act::kRecord:
    case Act::kWait:
    case Act::kWaitStream:
      return PrintOrder(s);
    default:
      return PrintHost(s);
  }
}

void StepPrinter::PrintMade(const Step& s) {
  if (s.act == Act::kNewStream) {
    const StreamInfo& info = p_.streams[static_cast<size_t>(s.stream)];
    const bool blocking = info.kind == StreamKind::kBlocking;
    Line(absl::StrCat(
        "s", s.stream, ".emplace(",
        Check(absl::StrCat("devrt::Stream::Create(d[", info.device, "], {0, ",
                           blocking ? "true" : "false", "})")),
        ");"));
    // Asks for the handle, so that devrt destroys the stream and does not
    // recycle it.
    if (info.native) Do(absl::StrCat("s", s.stream, "->Native().status()"));
    return;
  }
  if (s.act == Act::kNewEvent) {
    const EventInfo& info = p_.events[static_cast<size_t>(s.event)];
    Line(absl::StrCat(
        "e", s.event, ".emplace(",
        Check(absl::StrCat("devrt::Event::Create(d[", info.device, "], {",
                           info.timing ? "true" : "false", ", ",
                           info.blocking_sync ? "true" : "false", "})")),
        ");"));
    return;
  }
  PrintBlock(s);
}

void StepPrinter::PrintBlock(const Step& s) {
  const BlockInfo& info = p_.blocks[static_cast<size_t>(s.dst.block)];
  const std::string block = At("b", s.dst.block);
  if (info.space == Space::kPlain) {
    const std::string plain = At("plain", s.dst.block);
    Line(absl::StrCat(plain, ".resize(", Bytes(info.slices), ");"));
    Line(absl::StrCat(block, " = ", plain, ".data();"));
    return;
  }
  const char* const call =
      info.space == Space::kPinned ? "devrt::AllocateHost" : "devrt::Allocate";
  Line(absl::StrCat(block, " = static_cast<uint8_t*>(",
                    Check(absl::StrCat(call, "(d[", info.device, "], ",
                                       Bytes(info.slices), ")")),
                    ");"));
}

void StepPrinter::PrintDropped(const Step& s) {
  if (s.act == Act::kDropStream) return Line(At("s", s.stream) + ".reset();");
  if (s.act == Act::kDropEvent) return Line(At("e", s.event) + ".reset();");
  const BlockInfo& info = p_.blocks[static_cast<size_t>(s.dst.block)];
  const std::string block = At("b", s.dst.block);
  if (info.space == Space::kPlain) return;  // ends with the function
  Do(info.space == Space::kPinned
         ? absl::StrCat("devrt::FreeHost(", block, ")")
         : absl::StrCat("devrt::Free(d[", info.device, "], ", block, ")"));
  Line(block + " = nullptr;");
}

void StepPrinter::PrintWork(const Step& s) {
  const std::string stream = StreamText(s.stream);
  switch (s.act) {
    case Act::kFill:
      return Do(absl::StrCat("devrt::FillAsync(", stream, ", ", SpanText(s.dst),
                             ", ", +s.value.base, ", ", Bytes(s.dst.count),
                             ")"));
    case Act::kCopy:
      return Do(absl::StrCat(s.blocking ? "devrt::Copy(" : "devrt::CopyAsync(",
                             stream, ", ", SpanText(s.dst), ", ",
                             SpanText(s.src), ", ", Bytes(s.src.count), ")"));
    case Act::kSpin:
      return Do(absl::StrCat("devrt::Spin(", stream, ", ", s.nanoseconds, ")"));
    default:
      return Do(absl::StrCat("g", s.gate, ".WaitOn(", stream, ", ",
                             gate_timeout_ns_, ")"));
  }
}

void StepPrinter::PrintHostFunc(const Step& s) {
  Line(absl::StrCat("Ok(", number_, ", devrt::LaunchHostFunc(",
                    StreamText(s.stream), ","));
  Line("    [=, &calls](absl::Status status) {");
  Line("  ++calls;");
  Line(absl::StrCat("  Ok(", number_, ", status);"));
  if (s.src.block >= 0) PrintCompare(s, "  ");
  if (s.dst.block >= 0) Line("  " + PutText(s));
  Line("}));");
}

void StepPrinter::PrintOrder(const Step& s) {
  if (s.act == Act::kRecord) {
    return Do(
        absl::StrCat("e", s.event, "->Record(", StreamText(s.stream), ")"));
  }
  Do(absl::StrCat(OfStream(s.stream), "Wait(",
                  s.act == Act::kWait ? At("*e", s.event) : StreamText(s.other),
                  ")"));
}

std::string StepPrinter::QueryText(const Step& s) const {
  return Check(s.event >= 0 ? At("e", s.event) + "->Query()"
                            : OfStream(s.stream) + "Query()");
}

void StepPrinter::PrintHost(const Step& s) {
  switch (s.act) {
    case Act::kSyncStream:
      return Do(OfStream(s.stream) + "Synchronize()");
    case Act::kSyncEvent:
      return Do(At("e", s.event) + "->Synchronize()");
    case Act::kSyncDevice:
      return Do(absl::StrCat("d[", s.device, "].Synchronize()"));
    case Act::kPollStream:
    case Act::kPollEvent:
      return PrintPoll(s);
    case Act::kElapsed:
      return PrintElapsed(s);
    case Act::kOpen:
      return Do(At("g", s.gate) + ".Set()");
    case Act::kHostWrite:
      return Line(PutText(s));
    case Act::kHostRead:
      return PrintCompare(s, "");
    case Act::kSelectDevice:
      return Do(absl::StrCat("devrt::SetCurrentDevice(",
                             At("d[", s.device) + "]", ")"));
    default:
      return PrintQuery(s);
  }
}

void StepPrinter::PrintPoll(const Step& s) {
  Line(absl::StrCat("while (!", QueryText(s), ") Pause();"));
}

void StepPrinter::PrintQuery(const Step& s) {
  if (s.truth == Truth::kSoon) {
    PrintPoll(s);
    if (s.src.block >= 0) PrintCompare(s, "");
    return;
  }
  if (s.truth == Truth::kFalse) {
    return Line(absl::StrCat("if (", QueryText(s), ") Fail(", number_,
                             ", \"true behind a closed gate\");"));
  }
  Line(absl::StrCat("if (", QueryText(s), ") {"));
  if (s.src.block >= 0) PrintCompare(s, "  ");
  if (s.truth == Truth::kTrue) {
    Line("} else {");
    Line(absl::StrCat("  Fail(", number_, ", \"false after a wait for it\");"));
  }
  Line("}");
}

void StepPrinter::PrintElapsed(const Step& s) {
  const std::string time = absl::StrCat("devrt::ElapsedMilliseconds(*e",
                                        s.event, ", *e", s.other, ")");
  switch (s.truth) {
    case Truth::kError:
      Line(absl::StrCat("if (!absl::IsFailedPrecondition(", time,
                        ".status())) {"));
      Line(absl::StrCat("  Fail(", number_,
                        ", \"a time of what is pending\");"));
      return Line("}");
    case Truth::kAny:
      return Do(time + ".status()");
    default:
      Line(absl::StrCat("if (", Check(time),
                        s.truth == Truth::kTrue ? " < 0) {" : " > 0) {"));
      Line(
          absl::StrCat("  Fail(", number_, ", \"a time of the wrong sign\");"));
      return Line("}");
  }
}

}  // namespace devrt::cts
