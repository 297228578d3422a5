// SPDX-License-Identifier: Apache-2.0
//
// Prints single steps as C++, for the program that printer.h prints.
//
// Streams are s0, s1 ..., events e0, blocks b0, gates g0, devices d[0].  The
// helper functions that the lines call are in printer.cc.

#ifndef DEVRT_CTS_RANDOM_STEP_PRINTER_H_
#define DEVRT_CTS_RANDOM_STEP_PRINTER_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "cts/random/program.h"

namespace devrt::cts {

class StepPrinter {
 public:
  StepPrinter(const Program& program, uint64_t gate_timeout_ns)
      : p_(program), gate_timeout_ns_(gate_timeout_ns) {}

  // The lines of a step, after a comment.  Barriers have no lines.
  std::string Print(size_t index);

 private:
  void Line(const std::string& text);
  void Do(const std::string& call);
  void PrintStep(const Step& s);
  void PrintMade(const Step& s);
  void PrintBlock(const Step& s);
  void PrintDropped(const Step& s);
  void PrintWork(const Step& s);
  void PrintHostFunc(const Step& s);
  void PrintOrder(const Step& s);
  void PrintHost(const Step& s);
  void PrintPoll(const Step& s);
  void PrintQuery(const Step& s);
  void PrintElapsed(const Step& s);
  void PrintCompare(const Step& s, const char* indent);
  // For example "Ok(3, call)".
  std::string Check(const std::string& call) const;
  std::string StreamText(int stream) const;
  // An expression for the stream, to call its methods.
  std::string OfStream(int stream) const;
  std::string SpanText(const Span& span) const;
  std::string Bytes(int slices) const;
  std::string PutText(const Step& s) const;
  std::string QueryText(const Step& s) const;

  const Program& p_;
  const uint64_t gate_timeout_ns_;
  std::string out_;
  size_t number_ = 0;  // of the current step
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_STEP_PRINTER_H_
