// SPDX-License-Identifier: Apache-2.0
//
// CallStacks: the call stacks of the program's calls, as numbers.
//
//   const uint32_t stack = stacks.Take();      // in a call of the program
//   const CallStack text = stacks.TextOf(stack, "train.cc:52");  // in a report
//
// An operation keeps a number, since few operations get into a report.  Taking
// a stack costs microseconds, and its text milliseconds.
//
// Frames of C++ are return addresses.  Those of an interpreter's program come
// from the host (devrt_program_stack.h).  A stack begins with the program's
// call of devrt; what devrt, an interpreter and the start of a thread do is
// left out.
//
// Threads: any; each function takes the lock.  Take() waits for no other lock.

#ifndef DEVRT_LAYERS_VALIDATE_CALL_STACKS_H_
#define DEVRT_LAYERS_VALIDATE_CALL_STACKS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_program_stack.h"
#include "layers/validate/code_places.h"

namespace devrt::race {

// The frames of a report.
struct CallStack {
  static constexpr size_t kMostFrames = DEVRT_PROGRAM_FRAMES;

  std::vector<CodePlace> frames;  // kMostFrames at most, the innermost first
  uint64_t left_out = 0;          // frames outside of them
  bool is_cut = false;            // there are more frames, which nobody counted
};

class CallStacks {
 public:
  // Deeper frames of C++ are neither kept nor counted.
  static constexpr int kDeepest = 128;
  static constexpr size_t kMostStacks = 1 << 16;

  // `places` outlives this object.  With `most` different stacks further ones
  // get no number.
  CallStacks(const devrt_host_v0* host, CodePlaces* places,
             size_t most = kMostStacks);

  // While stacks are wanted, the host notes those of an interpreter's program.
  void Want(bool wanted);

  // Returns the number of the calling thread's stack, or 0.
  uint32_t Take();
  // The stack with that number, of a call at `site`, "file:line" or empty.
  CallStack TextOf(uint32_t number, const std::string& site);
  // Returns true while a call is under way, also one of the places
  // (Validator::IsBusy).
  bool IsBusy() const;

 private:
  // A stack as words: how many return addresses, these, then the file, the
  // function and the line of each frame of an interpreter's program, and how
  // many such frames are left out.
  using Words = std::vector<uint64_t>;

  static void AddAddresses(Words* words);
  void AddProgramFrames(Words* words) const;
  // The program's functions, up to the interpreter.
  std::vector<CodePlace> NativeFrames(const Words& words,
                                      const std::string& site,
                                      bool* meets_interpreter) const;
  bool IsInterpreter(const void* code) const;
  // Returns true for devrt's code at `places`, in the module of the program
  // whose call has the `site`.
  bool IsLinkedIn(const void* code, std::vector<CodePlace> places,
                  const std::string& site) const;

  const devrt_host_v0* const host_;
  const devrt_program_stack_v0* program_ = nullptr;  // nullptr: an older host
  CodePlaces* const places_;
  const size_t most_;
  mutable std::mutex mutex_;
  std::map<Words, uint32_t> numbers_;
  std::vector<const Words*> stacks_;  // by number - 1
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_CALL_STACKS_H_
