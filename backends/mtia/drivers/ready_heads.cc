// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/drivers/ready_heads.h"

namespace devrt::mtia {

StreamCore* ReadyHeads::First() {
  while (!by_time_.empty()) {
    StreamCore* const s = by_time_.top();
    if (Runnable(s)) return s;
    by_time_.Remove(s);
    s->in_token_list = true;
    g_machine->tokens.Of(s->head).waiting.push_back(s);
  }
  return nullptr;
}

void ReadyHeads::Grant(EngineTokens* tokens, VTime when) {
  const bool invert = g_machine->config.invert_priorities;
  const auto before = [invert](const StreamCore* a, const StreamCore* b) {
    if (a->priority != b->priority) {
      return invert ? a->priority > b->priority : a->priority < b->priority;
    }
    return a->when != b->when ? a->when < b->when : a->head->id < b->head->id;
  };
  auto& waiting = tokens->waiting;
  const auto best = std::min_element(waiting.begin(), waiting.end(), before);
  StreamCore* const s = *best;
  waiting.erase(best);
  s->in_token_list = false;
  s->when = std::max(s->when, when);
  by_time_.Push(s);
}

}  // namespace devrt::mtia
