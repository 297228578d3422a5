// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_CHOICE_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_CHOICE_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/mtia/drivers/directed.h"
#include "backends/mtia/drivers/flag_timeouts.h"
#include "backends/mtia/drivers/ranks.h"
#include "backends/mtia/drivers/ready_heads.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// When a calling thread may go on.
enum class Until {
  kNow,
  kWanted,    // when me->want is done
  kProgress,  // when anything has happened
  kChanged,   // when me->lock_word has changed
};

// The thread or the stream that moves next.  Both are nullptr if none can.
struct Pick {
  HostThread* host = nullptr;
  StreamCore* stream = nullptr;
  bool timeout = false;  // the flag_wait of `stream` ends by its timeout
};

// Chooses by the strategy which thread or stream moves next.
//
// The candidates have a fixed order: the thread or stream that moved last, if
// it can move again, then host threads by index, then streams by the age of
// their first operation.  A decision is an index in that order.
//
// Threads: every member is called by the holder of the baton.
class VirtualChoice {
 public:
  // All of them outlive this object.
  VirtualChoice(ReadyHeads* heads, const FlagTimeouts* timeouts,
                const VTime* clock)
      : heads_(heads), timeouts_(timeouts), clock_(clock) {}

  // Ends a machine.
  void Reset() {
    last_stream_ = nullptr;
    last_host_ = given_ = nullptr;
  }
  // Begins a machine, in which nothing has moved yet.
  void Start(const Config& config) {
    directed_.Start(config);
    ranks_.Start(config);
  }
  // Notes that `op` is complete, or has failed.
  void NoteEnded(const Op* op) { directed_.NoteEnded(op); }
  void NoteMoved(StreamCore* s) {
    last_stream_ = s;
    last_host_ = nullptr;
    if (ranks_.is_used()) ranks_.NoteStep(s->head, heads_->by_age());
  }
  void NoteMoved(HostThread* host) {
    last_host_ = host;
    last_stream_ = nullptr;
    given_ = nullptr;
    if (ranks_.is_used()) ranks_.NoteMoved(host);
  }
  // Notes that `host` is about to get the baton by the choice of another
  // thread.  If it sleeps in a wait or at the end of a call, it chooses itself
  // then.
  void NoteGiven(HostThread* host) {
    NoteMoved(host);
    const bool chooses =
        host->state == HostState::kPaused || host->state == HostState::kBlocked;
    if (chooses) given_ = host;
  }

  // Chooses for a call of `me`.  `able`: `me` can go on, and so is a candidate.
  Pick Choose(HostThread* me, bool able, Until until);

  // Makes `me` the only host thread among the candidates: for strategy hw,
  // while no other host thread can go on.  Inline, since each call of the table
  // comes here.
  void SetOnlyHost(HostThread* me) { hosts_.assign(1, me); }
  // Makes the decision of Choose between `me` and `head`, the first head by
  // time.  Returns true if `head` moves.
  bool HeadGoesFirst(HostThread* me, StreamCore* head) {
    const bool steps = head->when <= TimeOf(me);
    uint32_t index = steps ? 1 : 0;
    if (last_host_ != me || heads_->by_age().size() > 1) {
      index = IndexOf(steps ? Pick{nullptr, head, false}
                            : Pick{me, nullptr, false});
    }
    g_machine->decisions.Choose(ChoiceKind::kSchedule, UINT32_MAX, index);
    return steps;
  }

 private:
  void CollectHosts(HostThread* me, bool able);
  void PutOverdueFirst(HostThread* me);
  Pick ChooseOther(HostThread* me, Until until);
  Pick ChooseHardware(HostThread* me, Until until);
  Pick Prefer(HostThread* me);
  HostThread* PreferHost(HostThread* me);
  Pick DrawDirected();
  HostThread* Overdue(HostThread* me) const;
  Pick PickRanked(HostThread* me);
  StreamCore* PreferHead(const HostThread* wants) const;
  StreamCore* NextTimeout(const HostThread* me, Until until) const;
  StreamCore* FollowWanted(const HostThread* me) const;
  StreamCore* RunnableHead(uint32_t rank) const;
  VTime TimeOf(const HostThread* host) const {
    return std::max(host->now, host == last_host_ ? 0 : *clock_);
  }

  bool LastIsCandidate() const;
  uint32_t CountCandidates() const;
  uint32_t IndexOf(const Pick& pick) const;
  Pick At(uint32_t index) const;

  ReadyHeads* const heads_;
  const FlagTimeouts* const timeouts_;
  const VTime* const clock_;
  std::vector<HostThread*> hosts_;       // candidates of this choice, by index
  std::vector<StreamCore*> free_heads_;  // those that are not held
  Directed directed_;
  Ranks ranks_;
  StreamCore* last_stream_ = nullptr;  // the stream that moved last, or else
  HostThread* last_host_ = nullptr;    // the thread that did
  HostThread* given_ = nullptr;        // was chosen, and chooses once more
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_VIRTUAL_CHOICE_H_
