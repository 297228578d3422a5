// SPDX-License-Identifier: Apache-2.0
#include "cts/random/generator.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "cts/random/maker.h"

namespace devrt::cts {
namespace {

struct Weight {
  Act act;
  int weight;
};

// How often each kind of step is proposed.  Each program scales these weights.
constexpr Weight kWeights[] = {
    {Act::kFill, 14},      {Act::kCopy, 24},       {Act::kHostFunc, 8},
    {Act::kSpin, 4},       {Act::kRecord, 12},     {Act::kWait, 9},
    {Act::kWaitStream, 3}, {Act::kSyncStream, 2},  {Act::kSyncEvent, 3},
    {Act::kSyncDevice, 1}, {Act::kQueryStream, 5}, {Act::kQueryEvent, 7},
    {Act::kPollStream, 1}, {Act::kPollEvent, 1},   {Act::kElapsed, 4},
    {Act::kHold, 8},       {Act::kOpen, 2},        {Act::kHostWrite, 9},
    {Act::kHostRead, 6},   {Act::kFreeBlock, 1},   {Act::kDropStream, 3},
    {Act::kDropEvent, 2},  {Act::kSelectDevice, 2}};

// Each program has many steps of some kinds and none of others.  A step that
// hides a fault, for example a synchronisation, is missing in some programs.
constexpr int kMoods[] = {0, 1, 2, 4, 8};

constexpr int kFewestSteps = 8, kMostSteps = 45;
constexpr int kMostProposals = 300;
constexpr int kSwitchPercent = 12;    // change of thread before a proposal
constexpr int kBarrierPercent = 6;    // only in concurrent programs
constexpr int kLongestSpin = 40'000;  // nanoseconds

bool OnHost(const BlockInfo& b) { return b.space != Space::kDevice; }
bool Anywhere(const BlockInfo&) { return true; }

class Generator {
 public:
  Generator(uint64_t seed, const ProgramShape& shape) : m_(seed, shape) {
    for (const Weight& w : kWeights) {
      weights_.push_back({w.act, w.weight * kMoods[m_.dice().Below(5)]});
      total_ += weights_.back().weight;
    }
  }

  Program Make() {
    const int steps = m_.dice().Between(kFewestSteps, kMostSteps);
    for (int i = 0; i < kMostProposals && m_.size() < steps; ++i) {
      ChooseThread();
      Propose(AnAct());
    }
    OpenAll();
    if (m_.program().concurrent) Barrier();
    m_.set_thread(0);
    ReadAll();
    return std::move(m_).Finish();
  }

 private:
  void ChooseThread() {
    const int threads = m_.program().threads;
    if (threads == 1) return;
    if (m_.program().concurrent) {
      if (m_.dice().Percent(kBarrierPercent)) {
        OpenAll();
        Barrier();
      }
      m_.set_thread(m_.dice().Below(threads));
    } else if (m_.dice().Percent(kSwitchPercent)) {
      m_.set_thread(m_.dice().Below(threads));
    }
  }

  Act AnAct() {
    int at = m_.dice().Below(total_);
    for (const Weight& w : weights_) {
      at -= w.weight;
      if (at < 0) return w.act;
    }
    return Act::kFill;
  }

  void Propose(Act act);
  void Memory(Step s);
  void Copy(Step s);
  void Query(Step s);
  void Edge(Step s);
  void Time(Step s);
  void GiveUp(Step s);
  void OpenAll();
  void Barrier();
  void ReadAll();
  void ReadBlock(int block, int through);

  Maker m_;
  std::vector<Weight> weights_;
  int total_ = 0;
};

void Generator::Propose(Act act) {
  Step s;
  s.act = act;
  switch (act) {
    case Act::kFill:
    case Act::kHostFunc:
    case Act::kHostWrite:
    case Act::kHostRead:
      return Memory(s);
    case Act::kCopy:
      return Copy(s);
    case Act::kQueryStream:
    case Act::kQueryEvent:
      return Query(s);
    case Act::kDropStream:
    case Act::kDropEvent:
    case Act::kFreeBlock:
    case Act::kOpen:
      return GiveUp(s);
    case Act::kSyncDevice:
    case Act::kSelectDevice:
      s.device = m_.dice().Below(m_.program().devices);
      m_.Offer(s);
      return;
    default:
      return Edge(s);
  }
}

void Generator::Memory(Step s) {
  Dice& dice = m_.dice();
  switch (s.act) {
    case Act::kFill: {
      s.dst = m_.ASpan([](const BlockInfo& b) { return !OnHost(b); });
      if (s.dst.block < 0) return;
      const auto block = static_cast<size_t>(s.dst.block);
      s.stream = m_.AStream(m_.program().blocks[block].device);
      s.value = m_.AValue(false);
      break;
    }
    case Act::kHostFunc:
      if (!m_.limits().host_func) return;
      s.stream = m_.AStream();
      if (dice.Percent(70)) s.src = m_.ADefinedSpan(OnHost);
      if (dice.Percent(70)) s.dst = m_.ASpan(OnHost);
      s.value = m_.AValue(true);
      break;
    case Act::kHostWrite:
      s.dst = m_.ASpan(OnHost);
      s.value = m_.AValue(true);
      break;
    default:
      s.src = m_.ADefinedSpan(OnHost);
  }
  if (s.act != Act::kHostFunc && s.dst.block < 0 && s.src.block < 0) return;
  if ((s.act == Act::kFill || s.act == Act::kHostFunc) && s.stream < 0) return;
  m_.OfferOrdered(s);
}

void Generator::Copy(Step s) {
  Dice& dice = m_.dice();
  s.src = m_.ADefinedSpan(Anywhere);
  if (s.src.block < 0) return;
  // Rarely from host to host: such a copy tests little.
  const bool from_host =
      OnHost(m_.program().blocks[static_cast<size_t>(s.src.block)]);
  const bool free_choice = dice.Percent(15);
  s.dst = m_.ASpan([&](const BlockInfo& b) {
    return free_choice || !from_host || !OnHost(b);
  });
  if (s.dst.block < 0) return;
  s.src.count = s.dst.count = std::min(s.src.count, s.dst.count);
  std::vector<int> devices;
  for (const Span& span : {s.src, s.dst}) {
    const auto block = static_cast<size_t>(span.block);
    const BlockInfo& info = m_.program().blocks[block];
    if (!OnHost(info)) devices.push_back(info.device);
  }
  s.stream = m_.AStream(devices.empty() ? -1 : dice.Of(devices));
  s.blocking = dice.Percent(20);
  if (s.stream >= 0) m_.OfferOrdered(s);
}

void Generator::Query(Step s) {
  if (s.act == Act::kQueryStream) {
    s.stream = m_.AStream();
    if (s.stream < 0) return;
  } else {
    s.event = m_.dice().Percent(90)
                  ? m_.ARecordedEvent()
                  : m_.AnEvent(m_.dice().Below(m_.program().devices));
    if (s.event < 0) return;
  }
  if (m_.dice().Percent(70)) {
    // Data that is known to be complete if the query returns true.
    s.src = m_.ADefinedSpan(OnHost);
    if (s.src.block >= 0 && m_.Offer(s)) return;
    s.src = {};
  }
  m_.Offer(s);
}

// Steps that order work, or query it.
void Generator::Edge(Step s) {
  Dice& dice = m_.dice();
  switch (s.act) {
    case Act::kRecord: {
      s.stream = m_.AStream();
      if (s.stream < 0) return;
      const auto stream = static_cast<size_t>(s.stream);
      s.event = m_.AnEvent(m_.program().streams[stream].device);
      if (s.event < 0) return;
      break;
    }
    case Act::kHold: {
      if (m_.program().gates.empty()) return;
      s.gate = dice.Below(static_cast<int>(m_.program().gates.size()));
      const auto gate = static_cast<size_t>(s.gate);
      s.stream = m_.AStream(m_.program().gates[gate].device);
      if (s.stream < 0) return;
      break;
    }
    case Act::kElapsed:
      return Time(s);
    case Act::kSyncEvent:
    case Act::kPollEvent:
      s.event = m_.ARecordedEvent();
      if (s.event < 0) return;
      break;
    default:
      s.stream = m_.AStream();
      if (s.stream < 0) return;
      if (s.act == Act::kSpin) s.nanoseconds = 1 + dice.Below(kLongestSpin);
      if (s.act == Act::kWait) s.event = m_.ARecordedEvent();
      if (s.act == Act::kWait && s.event < 0) return;
      if (s.act == Act::kWaitStream) s.other = m_.AStream();
      if (s.act == Act::kWaitStream && s.other < 0) return;
  }
  m_.Offer(s);
  // Several waits in a row.
  while (s.act == Act::kWait && dice.Percent(40)) {
    s.event = m_.ARecordedEvent();
    m_.Offer(s);
  }
}

// Mostly from two complete events of one stream, because the sign of their
// elapsed time is known.
void Generator::Time(Step s) {
  Dice& dice = m_.dice();
  s.event = m_.ARecordedEvent(-1, true);
  if (s.event < 0) return;
  s.other = m_.ARecordedEvent(dice.Percent(70) ? s.event : -1, true);
  if (s.other < 0 || m_.Offer(s)) return;
  for (const int event : {s.event, s.other}) {
    Step sync;
    sync.act = Act::kSyncEvent;
    sync.event = event;
    m_.Offer(sync);
  }
  m_.Offer(s);
}

void Generator::GiveUp(Step s) {
  Dice& dice = m_.dice();
  const Program& p = m_.program();
  switch (s.act) {
    case Act::kDropStream: {
      s.stream = m_.AStream();
      if (s.stream < 0) return;
      const auto stream = static_cast<size_t>(s.stream);
      if (!p.streams[stream].IsCreated()) return;
      // An event may be all that is left to wait for the stream's work.
      Step record;
      record.act = Act::kRecord;
      record.stream = s.stream;
      record.event = m_.AnEvent(p.streams[stream].device);
      if (record.event >= 0 && dice.Percent(60)) m_.Offer(record);
      break;
    }
    case Act::kDropEvent:
      s.event = dice.Below(static_cast<int>(p.events.size()));
      break;
    case Act::kFreeBlock:
      s.dst.block = dice.Below(static_cast<int>(p.blocks.size()));
      break;
    default:
      if (p.gates.empty()) return;
      s.gate = dice.Below(static_cast<int>(p.gates.size()));
  }
  m_.Offer(s);
}

// ---- The end

void Generator::OpenAll() {
  for (size_t i = 0; i < m_.program().gates.size(); ++i) {
    Step s;
    s.act = Act::kOpen;
    s.gate = static_cast<int>(i);
    // In concurrent programs only the thread that closed a gate may open it.
    const int before = m_.thread();
    for (int t = 0; t < m_.program().threads; ++t) {
      m_.set_thread(t);
      if (m_.Offer(s)) break;
    }
    m_.set_thread(before);
  }
}

void Generator::Barrier() {
  Step s;
  s.act = Act::kBarrier;
  m_.Offer(s);
}

void Generator::ReadAll() {
  const int blocks = static_cast<int>(m_.program().blocks.size());
  // Through the block whose content is known by then.
  int through = -1;
  for (int b = blocks - 1; b >= 0; --b) {
    const bool host = OnHost(m_.program().blocks[static_cast<size_t>(b)]);
    if (host && m_.HasBlock(b)) ReadBlock(b, -1), through = b;
  }
  for (int b = 0; b < blocks; ++b) {
    const bool host = OnHost(m_.program().blocks[static_cast<size_t>(b)]);
    if (!host && m_.model().store().IsAlive(b) && through >= 0) {
      ReadBlock(b, through);
    }
  }
}

// All slices that have content.
void Generator::ReadBlock(int block, int through) {
  const BlockInfo& info = m_.program().blocks[static_cast<size_t>(block)];
  const int room =
      through < 0 ? info.slices
                  : m_.program().blocks[static_cast<size_t>(through)].slices;
  const BlockStore& store = m_.model().store();
  for (int first = 0; first < info.slices;) {
    int count = 0;
    while (first + count < info.slices && count < room &&
           store.content(block, first + count).defined) {
      ++count;
    }
    if (count == 0) {
      ++first;
      continue;
    }
    Step read;
    read.act = Act::kHostRead;
    read.src = {block, first, count};
    if (through >= 0) {
      Step copy;
      copy.act = Act::kCopy;
      copy.src = {block, first, count};
      copy.dst = {through, 0, count};
      copy.stream = m_.AStream(info.device);
      copy.blocking = m_.dice().Percent(60);
      read.src = copy.dst;
      if (copy.stream < 0 || !m_.OfferOrdered(copy)) return;
    }
    m_.OfferOrdered(read);
    first += count;
  }
}

}  // namespace

Program Generate(uint64_t seed, const ProgramShape& shape) {
  return Generator(seed, shape).Make();
}

}  // namespace devrt::cts
