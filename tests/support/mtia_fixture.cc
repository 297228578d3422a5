// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mtia_fixture.h"

#include <stdlib.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <string>
#include <thread>

namespace devrt::testing {
namespace {

// The number of devices is fixed when the backend is opened.
constexpr char kMachine[] = "devices=4,pinned=64MiB";
constexpr char kMemory[] = "memory=16MiB";  // if the test gives none

const char* const kDirectedSchedules[] = {"strategy=hw", "strategy=hw,seed=5",
                                          "strategy=asap", "strategy=alap",
                                          "strategy=lifo"};
constexpr int kRandomSchedules = 12;
const char* const kThreadedSchedules[] = {"mode=threaded",
                                          "mode=threaded,seed=1"};
constexpr int kMostSchedules = 1'000;

std::mutex g_log_mutex;
std::vector<LogCapture::Line>* g_log_lines = nullptr;

void CaptureLine(LogLevel level, const char*, int, std::string_view text) {
  std::lock_guard<std::mutex> lock(g_log_mutex);
  if (g_log_lines != nullptr) {
    g_log_lines->push_back({level, std::string(text)});
  }
}

std::string Join(const std::string& a, const std::string& b) {
  return b.empty() ? a : a + "," + b;
}

// Keeps the first exception of several threads, for the thread that joins them.
class FirstException {
 public:
  void Note() {
    std::lock_guard<std::mutex> lock(mu_);
    if (first_ == nullptr) first_ = std::current_exception();
  }
  void Rethrow() const {
    if (first_ != nullptr) std::rethrow_exception(first_);
  }

 private:
  std::mutex mu_;
  std::exception_ptr first_;
};

}  // namespace

// ---- Cell -------------------------------------------------------------------

Cell::Cell(Device device) : device_(device) {
  ptr_ = static_cast<int64_t*>(Must(Allocate(device, sizeof *ptr_)));
  Poke(0);
}

Cell::~Cell() { EXPECT_OK(Free(device_, ptr_)); }

int64_t Cell::Peek() const {
  int64_t value = -1;
  EXPECT_OK(MtiaTest::sim().Peek(ptr_, &value, sizeof value));
  return value;
}

void Cell::Poke(int64_t value) const {
  EXPECT_OK(MtiaTest::sim().Poke(ptr_, &value, sizeof value));
}

absl::Status Put(StreamRef stream, const Cell& x, int64_t value) {
  int64_t* const to = x.ptr();
  LaunchOptions options;
  options.name = "put";
  return Launch(
      stream, {ReadWrite(to, sizeof *to)},
      [=](const LaunchContext& k) {
        if (int64_t* p = k.Local(to)) *p = value;
      },
      options);
}

absl::Status Add(StreamRef stream, const Cell& to_cell, const Cell& from_cell,
                 int64_t plus) {
  int64_t* const to = to_cell.ptr();
  const int64_t* const from = from_cell.ptr();
  const auto body = [=](const LaunchContext& k) {
    const int64_t* const source = k.Local(from);
    int64_t* const target = k.Local(to);
    if (source != nullptr && target != nullptr) *target = *source + plus;
  };
  LaunchOptions options;
  options.name = "add";
  if (to == from) {
    return Launch(stream, {ReadWrite(to, sizeof *to)}, body, options);
  }
  return Launch(stream, {ReadWrite(to, sizeof *to), Read(from, sizeof *from)},
                body, options);
}

// ---- OpLog ------------------------------------------------------------------

absl::Status OpLog::Mark(StreamRef stream, char letter) {
  LaunchOptions options;
  options.name = "mark";
  return Launch(
      stream, {},
      [this, letter](const LaunchContext&) {
        std::lock_guard<std::mutex> lock(mu_);
        text_ += letter;
      },
      options);
}

std::string OpLog::text() const {
  std::lock_guard<std::mutex> lock(mu_);
  return text_;
}

bool OpLog::Before(char a, char b) const {
  const std::string all = text();
  const size_t at = all.find(a);
  return at != std::string::npos && all.find(b, at) != std::string::npos;
}

// ---- LogCapture -------------------------------------------------------------

LogCapture::LogCapture() : level_(GetLogLevel()) {
  std::lock_guard<std::mutex> lock(g_log_mutex);
  g_log_lines = new std::vector<Line>;
  SetLogLevel(LogLevel::kDebug);
  SetLogSink(&CaptureLine);
}

LogCapture::~LogCapture() {
  SetLogSink(nullptr);
  SetLogLevel(level_);
  std::lock_guard<std::mutex> lock(g_log_mutex);
  delete g_log_lines;
  g_log_lines = nullptr;
}

std::vector<LogCapture::Line> LogCapture::lines() const {
  std::lock_guard<std::mutex> lock(g_log_mutex);
  return *g_log_lines;
}

int LogCapture::Count(LogLevel level) const {
  int count = 0;
  for (const Line& line : lines()) count += line.level >= level ? 1 : 0;
  return count;
}

// ---- threads ----------------------------------------------------------------

void InThreads(int count, const std::function<void(int)>& body) {
  std::mutex mu;
  std::condition_variable all_here;
  int here = 0;
  FirstException first;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      {
        std::unique_lock<std::mutex> lock(mu);
        if (++here == count) all_here.notify_all();
        all_here.wait(lock, [&] { return here == count; });
      }
      try {
        body(i);
      } catch (...) {
        first.Note();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  first.Rethrow();
}

// ---- MtiaTest ---------------------------------------------------------------

Device MtiaTest::dev(int index) { return Must(GetDevice("mtia", index)); }

Device MtiaTest::Current(const char* backend) {
  return Must(CurrentDevice(backend));
}

Simulator MtiaTest::sim() { return Must(Simulator::Get("mtia")); }

void MtiaTest::Reset(const std::string& config) {
  const bool has_memory = config.find("memory=") != std::string::npos;
  Must(sim().Reset(
      Join(has_memory ? kMachine : Join(kMachine, kMemory), config)));
}

Stream MtiaTest::NewStream(Device device, StreamOptions options) {
  return Must(Stream::Create(device, options));
}

Stream MtiaTest::NewBlocking(Device device) {
  StreamOptions options;
  options.blocking = true;
  return NewStream(device, options);
}

Event MtiaTest::NewEvent(Device device, EventOptions options) {
  return Must(Event::Create(device, options));
}

Flag MtiaTest::NewFlag(Device device) { return Must(Flag::Create(device)); }

void MtiaTest::SetUp() {
  // Additional configuration for the whole program.
  const char* const more = getenv("DEVRT_TEST_MTIA");
  static const int once = setenv(
      "DEVRT_MTIA", Join(kMachine, more != nullptr ? more : "").c_str(), 1);
  ASSERT_EQ(once, 0);
  Reset("");
  Must(SetCurrentDevice(dev(0)));
  for (int i = 0; i < kDevices; ++i) {
    Must(SetCurrentStream(DefaultStream(dev(i))));
  }
}

void MtiaTest::TearDown() {
  const SimulatorStats stats = Must(sim().Stats());
  EXPECT_EQ(stats.live_blocks, 0u);
  EXPECT_EQ(stats.live_pinned, 0u);
  Reset("");
}

void MtiaTest::InEverySchedule(const std::function<void()>& body,
                               const std::string& extra) {
  InVirtualSchedules(body, extra);
  if (HasFailure()) return;
  for (const char* schedule : kThreadedSchedules) {
    const std::string config = Join(schedule, extra);
    SCOPED_TRACE(config);
    Reset(config);
    body();
    if (HasFailure()) return;
  }
}

void MtiaTest::InVirtualSchedules(const std::function<void()>& body,
                                  const std::string& extra) {
  std::vector<std::string> schedules(std::begin(kDirectedSchedules),
                                     std::end(kDirectedSchedules));
  for (int seed = 1; seed <= kRandomSchedules; ++seed) {
    schedules.push_back("strategy=random,seed=" + std::to_string(seed));
  }
  for (const std::string& schedule : schedules) {
    const std::string config = Join(schedule, extra);
    SCOPED_TRACE(config);
    Reset(config);
    body();
    if (HasFailure()) return;
  }
}

void MtiaTest::ExpectOutcomes(const std::set<int64_t>& outcomes,
                              const std::function<int64_t()>& body,
                              const std::string& extra) {
  std::set<int64_t> reached;
  for (int run = 0; run < kMostSchedules && reached != outcomes; ++run) {
    const std::string config =
        Join("strategy=random,seed=" + std::to_string(run + 1), extra);
    SCOPED_TRACE(config);
    Reset(config);
    const int64_t outcome = body();
    ASSERT_EQ(outcomes.count(outcome), 1u) << "illegal outcome " << outcome;
    if (HasFailure()) return;
    reached.insert(outcome);
  }
  EXPECT_EQ(reached, outcomes) << "not all reached";
}

}  // namespace devrt::testing
