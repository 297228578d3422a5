// SPDX-License-Identifier: Apache-2.0
//
// The name of an operation on a simulator, which is one for all schedules: the
// host thread that submits it, and how much work that thread submitted before.

#ifndef DEVRT_LAYERS_VALIDATE_OP_ID_H_
#define DEVRT_LAYERS_VALIDATE_OP_ID_H_

#include <cstdint>
#include <string>

namespace devrt::race {

struct OpId {
  enum class Kind : uint8_t {
    kNone,  // no simulator, or nobody asked for names
    kOwn,   // the operation itself
    kNext,  // of an action of the host: the next operation of its thread
  };
  Kind kind = Kind::kNone;
  uint32_t thread = 0;
  uint64_t index = 0;

  bool known() const { return kind != Kind::kNone; }
  // "0.17", as the simulator's configuration takes it.
  std::string Text() const {
    return std::to_string(thread) + "." + std::to_string(index);
  }
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_OP_ID_H_
