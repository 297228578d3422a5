// SPDX-License-Identifier: Apache-2.0
//
// DEVRT_FAKE_CUDA: what kind of machine the fake driver pretends to be.
//
//   DEVRT_FAKE_CUDA="devices=1,version=11080,missing=cuStreamGetCtx"
//
//   devices=N          how many devices (default: DEVRT_MTIA's, or 2)
//   version=N          what cuDriverGetVersion answers (default: cuda.h's)
//   missing=A+B        entry points that this driver does not have
//   no_device          cuInit answers 100
//   init=CODE          cuInit answers CODE
//   fail=NAME@N:CODE   the N-th call of NAME fails with CODE, nothing else
//   lost=NAME@N:CODE   from the N-th call of NAME on, every call that concerns
//                      a device fails with CODE
//   bare_records       query and synchronise of blocking streams do not see a
//                      record behind legacy work, as measured (semantics C19)
//   early_reads        a small copy from pinned memory on a blocking stream
//                      that has nothing to do itself reads its source at once,
//                      as measured (docs/decisions/0010); the default streams
//                      do so too, but not here
//
// A wrong key ends the process with a message.

#ifndef DEVRT_TESTS_FAKES_CUDA_OPTIONS_H_
#define DEVRT_TESTS_FAKES_CUDA_OPTIONS_H_

#include <string>
#include <vector>

namespace devrt::fake {

struct Failure {
  std::string name;  // empty: none
  unsigned long nth = 1;
  int code = 0;
};

struct Options {
  unsigned long devices = 0;  // 0: not said
  int version = 0;            // 0: not said
  std::vector<std::string> missing;
  int init = 0;
  Failure fail, lost;
  bool bare_records = false;
  bool early_reads = false;
};

// Of the environment, read once.
const Options& TheOptions();

// Says why on stderr, and aborts.
[[noreturn]] void Die(const char* format, ...)
    __attribute__((format(printf, 1, 2)));

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_CUDA_OPTIONS_H_
