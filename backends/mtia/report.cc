// SPDX-License-Identifier: Apache-2.0
//
// The deadlock report: who waits for whom, from the calling thread on.
//
//   deadlock: host#0 stream_sync {s1, 7} (a.cc:88) -> s1 op 3 kernel
//   "flag_wait" (a.cc:71) -> flag#1, which no submitted operation sets
#include <algorithm>
#include <string>
#include <vector>

#include "backends/mtia/engine.h"
#include "backends/mtia/host_threads.h"

namespace devrt::mtia {
namespace {

constexpr int kLongest = 64;

std::string At(const Site& site) {
  if (site.file == nullptr) return "";
  return std::string(" (") + site.file + ":" + std::to_string(site.line) + ")";
}

std::string PointText(const Point& p) {
  return "{s" + std::to_string(p.stream->number) + ", " +
         std::to_string(p.seq - p.stream->base) + "}";
}

std::string HostText(const HostThread& host) {
  return "host#" + std::to_string(host.index) + " " + host.entry;
}

std::string OpText(const Op& op) {
  static constexpr const char* kKinds[] = {"record", "wait", "kernel",
                                           "copy",   "fill", "host function"};
  std::string text = "s" + std::to_string(op.stream->number) + " op " +
                     std::to_string(op.seq - op.stream->base) + " " +
                     kKinds[static_cast<uint32_t>(op.kind)];
  if (op.kind != OpKind::kRecord && op.kind != OpKind::kWait) {
    text += std::string(" \"") + op.Name() + "\"";
  }
  return text + At(op.site);
}

// Walks from operation to operation until it meets one again or an end.
class Chain {
 public:
  explicit Chain(Engine* engine) : engine_(engine) {}

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
  // The operation that `op` waits for; adds to the text what is between.
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
    if (op->kind == OpKind::kHostFunc && op->abroad) {
      *text += " -> user code outside devrt that has not returned";
    } else if (s->head_state == HeadState::kReady) {
      return NextByToken(op, text);
    }
    return nullptr;
  }

  const Op* NextByFlag(const Op* op, std::string* text) {
    *text += " -> flag#" + std::to_string(op->flag->number);
    for (const DeviceState& d : engine_->devices) {
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
    for (const DeviceState& d : engine_->devices) {
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

  Engine* const engine_;
  std::vector<const Op*> seen_;
};

}  // namespace

devrt_status Engine::DeadlockReport(HostThread* me, bool polls,
                                    const char* why) {
  std::string text =
      polls ? "polls for work that cannot complete: " : "deadlock: ";
  if (why != nullptr) text += std::string(why) + ": ";
  std::vector<const HostThread*> waiting;
  if (me != nullptr) waiting.push_back(me);
  for (const HostThread* const host : g_threads->threads()) {
    if (host != me && host->state == HostState::kBlocked && !threaded) {
      waiting.push_back(host);
    }
  }
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
    text += Chain(this).From(*open);
  }
  if (waiting.empty()) {
    for (const DeviceState& d : devices) {
      for (StreamCore* s = d.busy; s != nullptr; s = s->busy_next) {
        if (s->head != nullptr) text += Chain(this).From({s, s->issued});
      }
    }
  }
  text +=
      ". No host thread and no stream can go on; nothing is lost: set the "
      "flag or let the host function return, then wait again.";
  deadlock_report = text;
  if (g_host->log_min_level(g_host->host) <= DEVRT_LOG_ERROR) {
    g_host->log(g_host->host, DEVRT_LOG_ERROR, __FILE__, __LINE__, text.data(),
                text.size());
  }
  if (me == nullptr) return nullptr;
  return MakeError(DEVRT_FAILED_PRECONDITION, 0, text);
}

}  // namespace devrt::mtia
