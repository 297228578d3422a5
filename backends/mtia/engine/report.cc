// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/report.h"

#include <algorithm>
#include <string>
#include <vector>

namespace devrt::mtia {

const char* KindName(OpKind kind) {
  static constexpr const char* kKinds[] = {
      "record", "wait",          "kernel",     "copy",
      "fill",   "host function", "allocation", "free"};
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

// Follows what waits for what, until an operation comes again or none is left.
class Chain {
 public:
  explicit Chain(const Streams* streams) : streams_(streams) {}

  // The text of what `p` waits for.
  std::string From(const Point& p) {
    std::string text;
    const Op* op = p.stream->head;
    for (int i = 0; op != nullptr && i < kLongest; ++i) {
      text += " -> " + OpText(*op);
      if (std::find(seen_.begin(), seen_.end(), op) != seen_.end()) {
        return text + " (the cycle)";
      }
      seen_.push_back(op);
      op = Next(op, &text);
    }
    return text;
  }

 private:
  // The operation that `op` waits for, or nullptr.  Adds to the text what lies
  // between the two.
  const Op* Next(const Op* op, std::string* text) {
    const StreamCore* const s = op->stream;
    if (s->head != op) {
      *text += " behind";
      return s->head;
    }
    if (s->head_state == HeadState::kBlocked) {
      const Point p{s->waits_on, s->waits_seq};
      *text += " -> " + PointText(p);
      return p.stream->head;
    }
    if (op->action == Action::kFlagWait && op->kind == OpKind::kKernel) {
      return NextByFlag(op, text);
    }
    if (op->kind == OpKind::kHostFunc && op->runs_elsewhere) {
      *text += " -> user code outside devrt that has not returned";
    } else if (s->head_state == HeadState::kReady) {
      return NextByToken(op, text);
    }
    return nullptr;
  }

  const Op* NextByFlag(const Op* op, std::string* text) {
    *text += " -> flag#" + std::to_string(op->flag->number);
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
    *text += ", which no submitted operation sets";
    return nullptr;
  }

  const Op* NextByToken(const Op* op, std::string* text) {
    for (const DeviceStreams& d : streams_->devices()) {
      for (const StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
        const Op* const o = s->head;
        if (o != nullptr && o != op && o->holds_token &&
            o->device == op->device && o->engine == op->engine) {
          *text += " -> an engine held by";
          return o;
        }
      }
    }
    return nullptr;
  }

  const Streams* const streams_;
  std::vector<const Op*> seen_;
};

}  // namespace

std::string Reports::WaitingText(const HostThreadList& waiting) const {
  std::string text;
  const char* between = "";
  for (const HostThread* const host : waiting) {
    text += between + HostText(*host);
    between = "; ";
    const Points& want = host->want;
    const auto open = std::find_if(want.begin(), want.end(),
                                   [](const Point& p) { return !Done(p); });
    if (open == want.end()) {
      text += At(host->site);
      continue;
    }
    text += " " + PointText(*open) + At(host->site);
    text += Chain(streams_).From(*open);
  }
  return text;
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
  text +=
      " Submitted work stays enqueued: set the flag or let the host function "
      "return, then repeat this call.";
  deadlock_ = text;
  Log(DEVRT_LOG_ERROR, text);
  return MakeError(DEVRT_FAILED_PRECONDITION, 0, text);
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
