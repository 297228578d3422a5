// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/report.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <vector>

#include "backends/mtia/engine/collective_data.h"
#include "backends/mtia/engine/collective_text.h"

namespace devrt::mtia {

const char* KindName(OpKind kind) {
  static constexpr const char* kKinds[] = {
      "record",        "wait",       "kernel", "copy",      "fill",
      "host function", "allocation", "free",   "collective"};
  static_assert(std::size(kKinds) ==
                static_cast<size_t>(OpKind::kCollective) + 1);
  return kKinds[static_cast<uint32_t>(kind)];
}

namespace {

constexpr int kLongest = 64;

void Log(int32_t level, const std::string& text) {
  if (level < g_host->log_min_level(g_host->host)) return;
  g_host->log(g_host->host, level, __FILE__, __LINE__, text.data(),
              text.size());
}

std::string At(const Site& site) {
  if (site.file == nullptr) return "";
  return std::string(" (") + site.file + ":" + std::to_string(site.line) + ")";
}

// "s7": the program's number of the stream if it is known, else the machine's.
std::string StreamText(const StreamCore& s) {
  if (s.host_number == 1) return "s0@mtia:" + std::to_string(s.device);
  const bool known = s.host_number != 0;
  return "s" + std::to_string(known ? s.host_number - 1 : s.number);
}

std::string PointText(const Point& p) {
  return "{" + StreamText(*p.stream) + ", " +
         std::to_string(p.seq - p.stream->base) + "}";
}

std::string HostText(const HostThread& host) {
  return "host#" + std::to_string(host.index) + " " + host.entry;
}

std::string OpText(const Op& op) {
  std::string text = StreamText(*op.stream) + " op " +
                     std::to_string(op.seq - op.stream->base) + " " +
                     KindName(op.kind);
  if (op.kind != OpKind::kRecord && op.kind != OpKind::kWait) {
    text += std::string(" \"") + op.Name() + "\"";
  }
  return text + At(op.site);
}

// "1 of communicator 2"
std::string RankOf(const Op& op) {
  const Member& m = op.part->members[0];
  return std::to_string(m.rank) + " of " + CommText(*m.comm);
}

// Follows what waits for what, from one host thread on, until a thread or an
// operation comes again or none is left.
class Chain {
 public:
  Chain(const Streams* streams, const Locks* locks,
        const HostThreadList& waiting)
      : streams_(streams), locks_(locks), waiting_(waiting) {}

  // True if the text has the thread already.
  bool has(const HostThread* host) const { return Has(hosts_, host); }
  // Adds the chain from `host` on, which the text does not have.
  void Add(const HostThread* host) {
    if (!text_.empty()) text_ += "; ";
    first_ = hosts_.size();
    ops_.clear();
    while (host != nullptr) {
      hosts_.push_back(host);
      text_ += HostText(*host);
      if (host->lock_word != nullptr) {
        text_ += Behind(host->site) + " waits for ";
        host = FollowLock(host->lock_word);
      } else {
        host = FollowWant(*host);
      }
    }
  }
  const std::string& text() const { return text_; }

 private:
  template <typename T>
  static bool Has(const std::vector<T>& list, const T& value,
                  size_t first = 0) {
    return std::find(list.begin() + static_cast<ptrdiff_t>(first), list.end(),
                     value) != list.end();
  }

  // Each adds to the text what it follows, and returns the thread that comes
  // next, or nullptr.
  const HostThread* FollowWant(const HostThread& host) {
    const Points& want = host.want;
    const auto open = std::find_if(want.begin(), want.end(),
                                   [](const Point& p) { return !Done(p); });
    if (open == want.end()) {
      text_ += At(host.site);
      return nullptr;
    }
    text_ += " " + PointText(*open) + At(host.site);
    return FollowOps(open->stream->head);
  }

  const HostThread* FollowOps(const Op* op) {
    for (int i = 0; op != nullptr && i < kLongest; ++i) {
      text_ += " -> " + OpText(*op);
      if (Has(ops_, op)) {
        text_ += kCycle;
        return nullptr;
      }
      ops_.push_back(op);
      const uint32_t* const word = locks_->AwaitedBy(op);
      if (word != nullptr && op->runs_elsewhere) {
        text_ += " -> ";
        return FollowLock(word);
      }
      op = Next(op);
    }
    return nullptr;
  }

  const HostThread* FollowLock(const uint32_t* word) {
    const std::optional<Locks::User> holder = locks_->HolderOf(word);
    if (!holder) {
      text_ += "a notification";
      return nullptr;
    }
    text_ += LockText(word) + ", held by ";
    if (holder->op != nullptr) {
      const Op* const op = HeadThatIs(holder->op);
      if (op == nullptr) {
        text_ += "a host function that has returned";
        return nullptr;
      }
      text_ += "its host function";
      return FollowOps(op);
    }
    if (!holder->index) {
      text_ += "a thread that is not scheduled";
      return nullptr;
    }
    text_ += "host#" + std::to_string(*holder->index) + Behind(holder->site);
    const auto next = std::find_if(
        waiting_.begin(), waiting_.end(),
        [&](const HostThread* h) { return h->index == *holder->index; });
    if (next == waiting_.end()) {
      text_ += ", which waits outside of devrt or has ended";
      return nullptr;
    }
    if (!has(*next)) {
      text_ += " -> ";
      return *next;
    }
    if (Has(hosts_, *next, first_)) text_ += kCycle;
    return nullptr;
  }

  // "lock#1": locks have the numbers in which the report names them.
  std::string LockText(const uint32_t* word) {
    const auto known = std::find(words_.begin(), words_.end(), word);
    const auto number = known - words_.begin() + 1;
    if (known == words_.end()) words_.push_back(word);
    return "lock#" + std::to_string(number);
  }

  // The last call of a thread that has a place, as locks have none.
  static std::string Behind(const Site& site) {
    if (site.file == nullptr) return "";
    return std::string(" (after ") + site.file + ":" +
           std::to_string(site.line) + ")";
  }

  // The operation, if it is the first of a stream.
  const Op* HeadThatIs(const Op* wanted) const {
    for (const DeviceStreams& d : streams_->devices()) {
      for (const StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
        if (s->head == wanted) return wanted;
      }
    }
    return nullptr;
  }

  // The operation that `op` waits for, or nullptr.  Adds to the text what lies
  // between the two.
  const Op* Next(const Op* op) {
    const StreamCore* const s = op->stream;
    if (s->head != op) {
      text_ += " behind";
      return s->head;
    }
    if (s->head_state == HeadState::kBlocked) {
      const Point p{s->waits_on, s->waits_seq};
      text_ += " -> " + PointText(p);
      return p.stream->head;
    }
    if (op->hangs) {
      text_ += ", which hangs by a rule of the key faults";
      return nullptr;
    }
    if (op->action == Action::kFlagWait && op->kind == OpKind::kKernel) {
      return NextByFlag(op);
    }
    if (op->part != nullptr && op->part->parked) {
      return NextByRank(op);
    }
    if (op->kind == OpKind::kHostFunc && op->runs_elsewhere) {
      text_ += " -> user code outside devrt that has not returned";
    } else if (s->head_state == HeadState::kReady) {
      return NextByToken(op);
    }
    return nullptr;
  }

  const Op* NextByFlag(const Op* op) {
    text_ += " -> flag#" + std::to_string(op->flag->number);
    for (const DeviceStreams& d : streams_->devices()) {
      for (const StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
        for (const Op* o = s->head; o != nullptr; o = o->next) {
          if (o->action == Action::kFlagSet && o->flag == op->flag &&
              o->value != 0) {
            return o;
          }
        }
      }
    }
    text_ += ", which no submitted operation sets";
    return nullptr;
  }

  // The operation of a rank that `op` waits for, if it was submitted.
  const Op* NextByRank(const Op* op) {
    const auto waits = std::find_if(
        op->part->members.begin(), op->part->members.end(),
        [](const Member& m) { return m.state == MemberState::kWaiting; });
    text_ += ", which waits as " + WaitText(*waits);
    const std::vector<uint32_t> missing = MissingRanks(*waits);
    for (const DeviceStreams& d : streams_->devices()) {
      for (const StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
        for (const Op* o = s->head; o != nullptr; o = o->next) {
          if (o->part != nullptr && Meets(*waits, missing, *o->part)) return o;
        }
      }
    }
    return nullptr;
  }

  // True if `part` has an operation that `waits` has not met.
  static bool Meets(const Member& waits, const std::vector<uint32_t>& missing,
                    const CollectivePart& part) {
    return std::any_of(
        part.members.begin(), part.members.end(), [&](const Member& m) {
          return m.comm == waits.comm && m.sequence == waits.sequence &&
                 !m.begun && IsCounterpart(m, waits) &&
                 std::find(missing.begin(), missing.end(), m.rank) !=
                     missing.end();
        });
  }

  // True if the kinds of the two operations may meet: the send and the receive
  // of a pair, or two operations of all ranks.
  static bool IsCounterpart(const Member& m, const Member& waits) {
    if (!IsPointToPoint(waits.call.op)) return !IsPointToPoint(m.call.op);
    return IsPointToPoint(m.call.op) && m.call.op != waits.call.op &&
           static_cast<uint32_t>(m.call.root_or_peer) == waits.rank;
  }

  const Op* NextByToken(const Op* op) {
    for (const DeviceStreams& d : streams_->devices()) {
      for (const StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
        const Op* const o = s->head;
        if (o != nullptr && o != op && o->holds_token &&
            o->device == op->device && o->engine == op->engine) {
          text_ += op->part != nullptr
                       ? " as rank " + RankOf(*op) + " -> a slot held by"
                       : std::string(" -> an engine held by");
          return o;
        }
      }
    }
    return nullptr;
  }

  static constexpr char kCycle[] = " (the cycle)";

  const Streams* const streams_;
  const Locks* const locks_;
  const HostThreadList& waiting_;
  std::string text_;
  std::vector<const HostThread*> hosts_;
  size_t first_ = 0;  // in hosts_, of the present chain
  std::vector<const Op*> ops_;
  std::vector<const uint32_t*> words_;
};

}  // namespace

std::string Reports::WaitingText(const HostThreadList& waiting) const {
  Chain chain(streams_, locks_, waiting);
  for (const HostThread* const host : waiting) {
    if (!chain.has(host)) chain.Add(host);
  }
  return chain.text();
}

devrt_status Reports::Deadlock(const HostThreadList& waiting, StuckReason why) {
  std::string text;
  switch (why) {
    case StuckReason::kWait:
      text = "deadlock: " + WaitingText(waiting) +
             ". No host thread and no stream can go on.";
      break;
    case StuckReason::kPoll:
      text = "polls for work that cannot complete: " + WaitingText(waiting) +
             ". No other host thread and no stream can go on.";
      break;
    case StuckReason::kSteps:
      text = "the step limit was reached: " + WaitingText(waiting) + ".";
      break;
  }
  const auto is_in_sync = [](const HostThread* host) {
    return host->lock_word != nullptr;
  };
  if (!std::all_of(waiting.begin(), waiting.end(), is_in_sync)) {
    text +=
        " Submitted work stays enqueued: set the flag or let the host function "
        "return, then repeat this call.";
  }
  if (std::any_of(waiting.begin(), waiting.end(), is_in_sync)) {
    text +=
        " A wait of devrt::sync ends when another thread unlocks or notifies: "
        "look for locks that are taken in two orders, and for a notification "
        "that comes before the wait.";
  }
  if (history_->uncontrolled != 0) text += " " + UncontrolledText();
  deadlock_ = text;
  Log(DEVRT_LOG_ERROR, text);
  return MakeError(DEVRT_FAILED_PRECONDITION, 0, text);
}

std::string Reports::UncontrolledText() const {
  return "A replay of this run may differ, because real time decided what "
         "moved next, " +
         std::to_string(history_->uncontrolled) +
         " times: " + history_->first_uncontrolled + ".";
}

void Reports::WarnUncontrolled() const {
  if (history_->uncontrolled == 0) return;
  Log(DEVRT_LOG_WARNING, UncontrolledText());
}

void Reports::WarnWaiting(const HostThreadList& waiting) const {
  Log(DEVRT_LOG_WARNING,
      WaitingText(waiting) + ". Nothing has happened for " +
          std::to_string(config_->watchdog / 1'000'000) +
          " ms (watchdog); a host thread or a host function may still act, so "
          "the wait goes on.");
}

void Reports::WarnHostFunc(const Op& op) const {
  Log(DEVRT_LOG_WARNING, OpText(op) + " has not returned for " +
                             std::to_string(config_->watchdog / 1'000'000) +
                             " ms (watchdog); its stream waits, other work "
                             "goes on.");
}

}  // namespace devrt::mtia
