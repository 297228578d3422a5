// SPDX-License-Identifier: Apache-2.0
//
// Prints one random program as C++, for the build to compile:
//
//   random_print FORM OUTPUT
//
// FORM: alone, turns, together (how many threads, and how they run), or wrong:
// a program that must find a mistake of its own.
#include <cstdio>
#include <fstream>
#include <set>
#include <string>

#include "cts/random/generator.h"
#include "cts/random/printer.h"
#include "tests/cts/random_program.h"

namespace devrt::cts {
namespace {

constexpr int kCandidates = 300;
constexpr char kConfig[] = "devices=2,strategy=random,seed=3";

// The one that does most kinds of things.
Program Richest(const std::string& form) {
  ProgramShape shape;
  shape.limits = Everything();
  shape.max_devices = 2;
  shape.max_threads = form == "turns" || form == "together" ? 3 : 1;
  shape.concurrent = form == "together";
  Program richest;
  size_t most = 0;
  for (int i = 0; i < kCandidates; ++i) {
    Program program = Generate(ProgramSeed(1, i), shape);
    if (program.concurrent != shape.concurrent) continue;
    std::set<Act> acts;
    for (const Step& step : program.steps) acts.insert(step.act);
    if (acts.size() <= most) continue;
    most = acts.size();
    richest = std::move(program);
  }
  return richest;
}

// Changes the expected value of the last read.
void MakeWrong(Program* program) {
  for (size_t i = program->steps.size(); i-- > 0;) {
    Step& step = program->steps[i];
    if (step.act != Act::kHostRead) continue;
    step.found.back().base ^= 1;
    return;
  }
}

int Print(const std::string& form, const char* output) {
  Program program = Richest(form);
  if (form == "wrong") MakeWrong(&program);
  Listing listing;
  listing.plugin = "libdevrt_mtia.so";
  listing.devices = {0, 1};
  listing.reset = kConfig;
  listing.finding = "nothing, or what was altered";
  std::ofstream(output) << ToCpp(program, listing);
  return 0;
}

}  // namespace
}  // namespace devrt::cts

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: random_print FORM OUTPUT\n");
    return 2;
  }
  return devrt::cts::Print(argv[1], argv[2]);
}
