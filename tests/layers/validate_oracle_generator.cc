// SPDX-License-Identifier: Apache-2.0
#include "tests/layers/validate_oracle_generator.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "tests/layers/validate_oracle.h"

namespace devrt::race::oracle {
namespace {

constexpr int kFewestSteps = 8, kMostSteps = 40;
constexpr int kMostProposals = 150;
constexpr int kTriesToOrder = 6;
constexpr int kMostDevices = 2, kMostThreads = 3;
constexpr int kEventsOfDevice = 2;

// How memory is used.  Blocks of a backend, of a stream, and of an allocator.
constexpr Run kRaw[] = {{0, 6}, {6, 12}, {12, 18}};
constexpr Run kOrdered[] = {{18, 24}, {24, 30}};
constexpr Run kCarved = {32, 48};
constexpr int kLargestPart = 8;

struct Weight {
  Do what;
  int weight;
};
constexpr Weight kWeights[] = {
    {Do::kSubmit, 30},    {Do::kHostUse, 6},     {Do::kRecord, 8},
    {Do::kWait, 8},       {Do::kSyncStream, 1},  {Do::kSyncEvent, 2},
    {Do::kSyncDevice, 1}, {Do::kQueryStream, 1}, {Do::kQueryEvent, 2},
    {Do::kDropStream, 2}, {Do::kNewThread, 1},   {Do::kFree, 2},
    {Do::kAllocateOn, 3}, {Do::kFreeOn, 3},      {Do::kHandOut, 8},
    {Do::kTakeBack, 8},
};
// Each program has many steps of some kinds and none of others.
constexpr int kMoods[] = {0, 1, 2, 4};

class Generator {
 public:
  Generator(uint64_t seed, bool is_wild) : random_(seed), is_wild_(is_wild) {
    MakeTables();
    for (const Weight& w : kWeights) {
      const int mood = w.what == Do::kSubmit ? 2 : kMoods[Below(4)];
      weights_.push_back({w.what, w.weight * mood});
      total_ += weights_.back().weight;
    }
  }

  Program Make() {
    Oracle oracle(&program_);
    oracle_ = &oracle;
    const int steps = kFewestSteps + Below(kMostSteps - kFewestSteps + 1);
    for (int i = 0; i < kMostProposals && size() < steps; ++i) {
      thread_ = Of(threads_);
      Propose(AnAct());
    }
    return std::move(program_);
  }

 private:
  struct Live {
    Run run;
    Do made = Do::kAllocate;  // how
  };

  int size() const { return static_cast<int>(program_.steps.size()); }
  int Below(int n) {
    return static_cast<int>(random_() % static_cast<uint64_t>(n));
  }
  bool Percent(int percent) { return Below(100) < percent; }
  template <typename T>
  T Of(const std::vector<T>& from) {
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }

  void MakeTables();
  Do AnAct();
  int AStream(int device = -1);
  Step StepOf(Do what) const;
  void Propose(Do what);
  void Memory(Step step);
  void HandOut(Step step);
  void GiveUp(Step step);
  void EnsureBlock();
  std::vector<Use> SomeUses();
  Run Part(Run whole);

  bool Offer(const Step& step);
  bool OfferOrdered(const Step& step);
  bool OrderAfter(int earlier, const Step& step);
  bool RecordOn(int thread, int stream, int event);

  std::mt19937_64 random_;
  const bool is_wild_;
  Program program_;
  Oracle* oracle_ = nullptr;
  std::vector<Weight> weights_;
  int total_ = 0;
  std::vector<int> threads_ = {0};
  int thread_ = 0;
  std::vector<Live> live_;  // blocks and parts
  bool is_carved_ = false;
};

void Generator::MakeTables() {
  program_.devices = 1 + Below(kMostDevices);
  program_.threads = 1 + Below(kMostThreads);
  program_.one_order = Percent(50);
  program_.events = program_.devices * kEventsOfDevice;
  for (int device = 0; device < program_.devices; ++device) {
    program_.streams.push_back({device, Kind::kLegacy});
    for (int i = 1 + Below(4); i > 0; --i) {
      program_.streams.push_back(
          {device, Percent(50) ? Kind::kBlocking : Kind::kNonBlocking});
    }
  }
}

Do Generator::AnAct() {
  int at = Below(total_);
  for (const Weight& w : weights_) {
    at -= w.weight;
    if (at < 0) return w.what;
  }
  return Do::kSubmit;
}

Step Generator::StepOf(Do what) const {
  Step step;
  step.what = what;
  step.thread = thread_;
  return step;
}

// A live stream.  A new one is made if it was never live; -1: it is gone.
int Generator::AStream(int device) {
  std::vector<int> streams;
  for (size_t i = 0; i < program_.streams.size(); ++i) {
    const int stream = static_cast<int>(i);
    if ((device < 0 || program_.streams[i].device == device) &&
        (oracle_->IsLive(stream) || !oracle_->WasLive(stream))) {
      streams.push_back(stream);
    }
  }
  if (streams.empty()) return -1;
  const int stream = Of(streams);
  if (oracle_->IsLive(stream)) return stream;
  Step step = StepOf(Do::kNewStream);
  step.stream = stream;
  return Offer(step) ? stream : -1;
}

// ---- Steps

bool Generator::Offer(const Step& step) {
  if (oracle_->is_full()) return false;
  if (!is_wild_ && !oracle_->RacesOf(step).empty()) return false;
  oracle_->TakeOrder(step);  // nobody asks this oracle for all races
  program_.steps.push_back(step);
  return true;
}

bool Generator::OfferOrdered(const Step& step) {
  for (int i = 0; i < kTriesToOrder && !is_wild_; ++i) {
    const std::vector<Race> races = oracle_->RacesOf(step);
    if (races.empty()) break;
    if (!OrderAfter(Of(races).earlier, step)) return false;
  }
  return Offer(step);
}

bool Generator::RecordOn(int thread, int stream, int event) {
  Step step = StepOf(Do::kRecord);
  step.thread = thread;
  step.stream = stream;
  step.event = event;
  return Offer(step);
}

// Makes the operation or host action of `step` come after step `earlier`.
bool Generator::OrderAfter(int earlier, const Step& step) {
  const Step from = program_.steps[static_cast<size_t>(earlier)];
  const bool on_host = from.what == Do::kHostUse;
  const int stream = on_host ? AStream() : from.stream;
  if (stream < 0) return false;
  const int device = program_.streams[static_cast<size_t>(stream)].device;
  const bool in_stream = step.stream >= 0 && Percent(75);
  if (!in_stream && !on_host && Percent(40)) {
    Step sync =
        StepOf(Percent(70) && oracle_->IsLive(stream) ? Do::kSyncStream
                                                      : Do::kSyncDevice);
    if (sync.what == Do::kSyncStream) sync.stream = stream;
    sync.device = device;
    return Offer(sync);
  }
  int event = device * kEventsOfDevice + Below(kEventsOfDevice);
  std::vector<int> covering;
  for (int e = 0; e < program_.events; ++e) {
    if (oracle_->EventCovers(e, earlier)) covering.push_back(e);
  }
  if (!covering.empty() && Percent(50)) {
    event = Of(covering);
  } else if (!oracle_->IsLive(stream) ||
             !RecordOn(on_host ? from.thread : thread_, stream, event)) {
    return false;
  }
  if (!in_stream) {
    Step sync = StepOf(Percent(80) ? Do::kSyncEvent : Do::kQueryEvent);
    sync.event = event;
    sync.answer = sync.what == Do::kQueryEvent;
    return Offer(sync);
  }
  int waiting = step.stream;
  if (Percent(25)) {  // through a third stream
    const int third = AStream();
    if (third >= 0) waiting = third;
  }
  Step wait = StepOf(Do::kWait);
  wait.stream = waiting;
  wait.event = event;
  if (!Offer(wait) || waiting == step.stream) return true;
  const int second =
      program_.streams[static_cast<size_t>(waiting)].device * kEventsOfDevice +
      Below(kEventsOfDevice);
  if (!RecordOn(thread_, waiting, second)) return false;
  wait.stream = step.stream;
  wait.event = second;
  return Offer(wait);
}

void Generator::Propose(Do what) {
  Step step = StepOf(what);
  switch (what) {
    case Do::kNewThread:
      if (static_cast<int>(threads_.size()) == program_.threads) return;
      step.other = static_cast<int>(threads_.size());
      if (Offer(step)) threads_.push_back(step.other);
      return;
    case Do::kSubmit:
    case Do::kHostUse:
      return Memory(step);
    case Do::kHandOut:
    case Do::kAllocateOn:
      return HandOut(step);
    case Do::kFree:
    case Do::kFreeOn:
    case Do::kTakeBack:
      return GiveUp(step);
    case Do::kSyncEvent:
    case Do::kQueryEvent:
      step.event = Below(program_.events);
      break;
    case Do::kSyncDevice:
      step.device = Below(program_.devices);
      break;
    default:
      step.stream = AStream();
      if (step.stream < 0) return;
  }
  const auto stream = static_cast<size_t>(std::max(step.stream, 0));
  if (what == Do::kWait) step.event = Below(program_.events);
  if (what == Do::kRecord) {
    step.event = program_.streams[stream].device * kEventsOfDevice +
                 Below(kEventsOfDevice);
  }
  if (what == Do::kDropStream &&
      program_.streams[stream].kind == Kind::kLegacy) {
    return;
  }
  step.answer =
      (what == Do::kQueryEvent || what == Do::kQueryStream) && Percent(50);
  Offer(step);
}

// ---- Memory

Run Generator::Part(Run whole) {
  const int begin = whole.begin + Below(whole.end - whole.begin);
  return {begin, begin + 1 + Below(whole.end - begin)};
}

void Generator::EnsureBlock() {
  if (!live_.empty() && Percent(80)) return;
  const Run run = kRaw[Below(3)];
  for (const Live& live : live_) {
    if (live.run.begin == run.begin) return;
  }
  Step step = StepOf(Do::kAllocate);
  step.block = run;
  if (Offer(step)) live_.push_back({run, Do::kAllocate});
}

std::vector<Use> Generator::SomeUses() {
  std::vector<Use> uses;
  for (int i = Percent(30) ? 2 : 1; i > 0; --i) {
    Use use;
    const Run whole = Of(live_).run;
    use.cells = Percent(60) ? whole : Part(whole);
    const int effect = Below(10);
    use.effect = effect < 4   ? Effect::kRead
                 : effect < 8 ? Effect::kWrite
                 : effect < 9 ? Effect::kReadWrite
                              : Effect::kReduce;
    use.op = use.effect == Effect::kReduce ? Below(2) : 0;
    uses.push_back(use);
  }
  return uses;
}

void Generator::Memory(Step step) {
  EnsureBlock();
  if (live_.empty()) return;
  step.uses = SomeUses();
  if (step.what == Do::kSubmit) {
    step.stream = AStream();
    if (step.stream < 0) return;
  }
  OfferOrdered(step);
}

void Generator::HandOut(Step step) {
  step.stream = AStream();
  if (step.stream < 0) return;
  if (step.what == Do::kHandOut) {
    if (!is_carved_) {
      Step allocate = StepOf(Do::kAllocate);
      allocate.block = kCarved;
      Step carve = StepOf(Do::kCarve);
      carve.block = kCarved;
      is_carved_ = Offer(allocate) && Offer(carve);
      if (!is_carved_) return;
    }
    const int begin = kCarved.begin + Below(kCarved.end - kCarved.begin);
    step.block = {begin,
                  std::min(begin + 1 + Below(kLargestPart), kCarved.end)};
  } else {
    step.block = kOrdered[Below(2)];
  }
  for (const Live& live : live_) {
    if (live.run.begin < step.block.end && live.run.end > step.block.begin) {
      return;
    }
  }
  if (OfferOrdered(step)) live_.push_back({step.block, step.what});
}

void Generator::GiveUp(Step step) {
  const Do made = step.what == Do::kFree     ? Do::kAllocate
                  : step.what == Do::kFreeOn ? Do::kAllocateOn
                                             : Do::kHandOut;
  std::vector<size_t> of_kind;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (live_[i].made == made) of_kind.push_back(i);
  }
  if (of_kind.empty()) return;
  const size_t index = Of(of_kind);
  step.block = live_[index].run;
  if (step.what != Do::kFree && (made == Do::kAllocateOn || Percent(90))) {
    step.stream = AStream();
    if (step.stream < 0) return;
  }
  if (OfferOrdered(step)) {
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

}  // namespace

Program CorrectProgram(uint64_t seed) { return Generator(seed, false).Make(); }
Program WildProgram(uint64_t seed) { return Generator(seed, true).Make(); }

}  // namespace devrt::race::oracle
