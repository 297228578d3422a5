// SPDX-License-Identifier: Apache-2.0
//
// Configuration of the simulated machine: DEVRT_MTIA and devrt.sim/1 `reset`,
// in the grammar of backends/text/settings.h.
//
//   DEVRT_MTIA="devices=4,memory=256MiB,mode=virtual,seed=7"

#ifndef DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_H_
#define DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/text/fault_rule.h"

namespace devrt::mtia {

enum class Mode { kVirtual, kThreaded };
enum class StrategyKind {
  kHardware,
  kAsap,
  kAlap,
  kLifo,
  kRandom,
  kPos,
  kPct,
  kDirected
};
enum class Pageable { kExplore, kSync, kStaged, kLate };
enum class Poison { kFull, kEdges, kOff };
enum class Peers { kAll, kRing, kNone, kMatrix };
enum class HostAccess { kReport, kContinue, kOff };
enum class Mismatch { kReport, kHang, kTruncate };
enum class Profile { kNone, kCuda, kHip };

// An operation: the number of the thread that submits it, and its place in the
// work of that thread, from 0.
struct OpId {
  uint32_t thread = 0;
  uint64_t index = 0;
  bool operator==(const OpId& other) const {
    return thread == other.thread && index == other.index;
  }
};

inline constexpr uint32_t kMaxDevices = 64;
inline constexpr uint32_t kUnlimited = 0;
inline constexpr uint32_t kSlotPerRank = 0;

// Keys are the names of the members unless a comment gives another.  Sizes
// take B, KiB, MiB, GiB, TiB; times ns, us, ms, s; a bare number is bytes or
// nanoseconds.
struct Config {
  Profile profile = Profile::kNone;  // none | cuda | hip: sets other keys;
                                     // those in the text win, anywhere in it
  uint32_t devices = 2;              // 1 to 64
  uint64_t memory = 256ull << 20;    // bytes per device, >= 1 MiB, <= 1 TiB
  uint64_t overhead = 1ull << 20;  // never allocatable; > 0, < memory.  Not in
                                   // the text and too large: memory / 8
  uint64_t pinned = 1ull << 30;    // limit of pinned host memory
  uint64_t granularity = 512;      // of placement; power of two, 256 to 2 MiB
  uint64_t gap = 512;              // inaccessible bytes after each block
  Mode mode = Mode::kVirtual;      // virtual | threaded
  // hw | asap | alap | lifo | random | pos | pct | directed
  StrategyKind strategy = StrategyKind::kHardware;
  uint32_t changes = 2;  // strategy pct: how often the greatest rank falls
  // Strategy directed holds one operation until another is complete.  none |
  // thread.index.  A replay needs neither.
  std::optional<OpId> hold;
  std::optional<OpId> until;
  uint64_t seed = 0;
  uint32_t slots = 2;  // compute tokens per device | unlimited
  Pageable pageable = Pageable::kExplore;  // explore | sync | staged | late
  Poison poison = Poison::kEdges;          // full | edges | off
  Peers peers = Peers::kAll;  // all | ring | none | 0-1+1-0+... (matrix)
  std::vector<std::pair<uint32_t, uint32_t>> peer_links;  // for kMatrix
  uint32_t queue_depth = kUnlimited;                      // unlimited | >= 1000
  bool fault_scope_process = false;   // fault_scope=device | process
  bool raw_free_syncs = false;        // raw_free_syncs=no | yes
  bool fault_delivery_abort = false;  // fault_delivery=status | abort
  bool strict_cuda = false;           // strict=none | cuda (S8)
  // none | rules joined by +, in the grammar of backends/text/fault_rule.h.
  std::vector<internal::FaultRule> faults;
  uint64_t split_limit = 1ull << 20;  // larger operations run in place
  // written=keep | poison: what a kernel in two phases finds in ranges that it
  // declares as written only.  With poison it has to write all of them.
  bool poison_written = false;
  // off | check: check watches the blocks that allocators cut out of their
  // segments.  An allocator asks once, so the key belongs into DEVRT_MTIA.
  // A reset that does not name the key keeps the value.
  bool suballocation = false;
  bool outcome = false;  // on | off: collects what devrt.sim/1 outcome returns
  HostAccess host_access = HostAccess::kReport;  // report | continue | off
  // Nanoseconds of real time without progress.  After that time a waiting
  // thread logs a warning, and in threaded mode checks for a deadlock
  // (README.md, "Deadlocks"), the machine goes on with other work although a
  // host function still runs, and another thread may take the baton from a
  // thread that computes.
  uint64_t watchdog = 2'000'000'000;
  bool baton = true;  // on | off: several host threads
  bool pin = true;    // on | off: one core under the baton
  bool pins() const { return pin && mode == Mode::kVirtual; }
  uint64_t step_limit = 0;         // 0: none; livelock report beyond
  int32_t priority_greatest = -5;  // priorities=-5..0
  int32_t priority_least = 0;
  bool invert_priorities = false;  // C23: invert_priorities=no | yes
  // Cost model of the virtual clock.
  uint64_t latency = 2'000;       // ns from submission to start
  uint64_t kernel = 3'000;        // ns of a kernel without bytes
  uint64_t copy = 1'000;          // ns of a copy or fill without bytes
  uint32_t jitter = 25;           // percent by which durations vary, see cost.h
  uint64_t h2d = 55'000'000'000;  // bytes per second
  uint64_t d2h = 55'000'000'000;
  uint64_t p2p = 389'000'000'000;
  uint64_t local = 2'000'000'000'000;  // copies and fills on one device
  uint64_t host_call = 200;            // ns of a host call, seeded jitter
  // Collectives.  How many of a device wait at a time: auto | number.  auto is
  // the most ranks of one communicator that have the device.
  uint32_t collective_slots = kSlotPerRank;
  // report | hang | truncate: what becomes of calls that differ between ranks.
  Mismatch collective_mismatch = Mismatch::kReport;
  uint64_t collective_skew = 1'000;   // most ns between the ends of two ranks
  uint64_t collective_alpha = 3'000;  // ns of a step from rank to rank
  uint32_t collective_node = 8;       // devices of a node
  uint64_t collective_link = 400'000'000'000;  // bytes per second in a node
  uint64_t collective_nic = 50'000'000'000;    // between nodes
};

// Parses `text` on top of `*config` (start from Config{}).  On a mistake
// returns false, leaves `*config`, and sets `*error` to a message that names
// the key, its value and the values that it takes, or the nearest key and all
// keys.
bool ParseConfig(std::string_view text, Config* config, std::string* error);

// All keys, in declaration order; ParseConfig(ConfigText(c)) yields c.
std::string ConfigText(const Config& config);

// A 64-bit hash of ConfigText, for replay tokens.  The keys seed, strategy,
// changes, hold, until, outcome and step_limit do not count: a replay makes the
// recorded decisions without them.
uint64_t ConfigHash(const Config& config);

// How `config` differs from the configuration with the hash `wanted`, for
// messages: "memory=64MiB here, 256MiB there", or the keys of `config` that do
// not have their default.
std::string ConfigDifference(const Config& config, uint64_t wanted);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_H_
