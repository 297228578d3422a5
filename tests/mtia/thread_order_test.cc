// SPDX-License-Identifier: Apache-2.0
//
// Programs with several host threads repeat in virtual mode: a seed gives one
// order of all threads and operations, and a token repeats it.
//
// DEVRT_THREAD_RUNS=200 makes so many pairs of runs of each program, and prints
// how many pairs differed.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/mtia/engine_fixture.h"
#include "tests/support/sanitizers.h"

namespace devrt::test {
namespace {

using Lock = std::unique_lock<std::mutex>;

class ThreadOrder : public EngineTest {
 protected:
  void SetUp() override {
#if DEVRT_TEST_TSAN
    GTEST_SKIP() << "ThreadSanitizer delays the signal that stops threads";
#endif
    EngineTest::SetUp();
  }

  // What a run did, and what it made.
  struct Run {
    uint64_t trace = 0;
    int64_t value = 0;
    uint64_t uncontrolled = 0;
    std::string token;
    bool operator==(const Run& other) const {
      return trace == other.trace && value == other.value;
    }
  };
  struct Program {
    const char* name;
    void (*run)(devrt_stream shared, int64_t* x);
  };

  static Run Make(const Program& program) {
    devrt_stream shared = NewStream();
    int64_t* const x = NewCell(0, 1);
    program.run(shared, x);
    Sync(shared);
    return {TraceHash(), Peek(x), Stats().uncontrolled, Text(sim().token)};
  }
  static Run Seeded(const Program& program, const std::string& config) {
    Reset(config + ",watchdog=5s");
    return Make(program);
  }

  template <class F>
  static void Start(int n, F body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < n; ++i) threads.emplace_back([body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }

  static const std::vector<Program>& Programs();
};

// ---- programs ---------------------------------------------------------------

class Programs : public ThreadOrder {
 public:
  // Each thread has a stream; the order of the kernels shows in `x`.
  static void Streams(devrt_stream, int64_t* x) {
    Start(4, [x](int i) {
      devrt_stream s = NewStream();
      for (int k = 0; k < 4; ++k) MulAdd(s, x, i + 2, k);
      devrt_event e = Mark(s);
      while (!EventDone(e)) {
      }
      Sync(s);
    });
  }
  static void Mutex(devrt_stream shared, int64_t* x) {
    std::mutex mutex;
    Start(4, [&](int i) {
      devrt_stream s = NewStream();
      for (int k = 0; k < 4; ++k) {
        const Lock lock(mutex);
        MulAdd(shared, x, i + 2, k);
        MulAdd(s, x, 1, 1);
        if (k % 2 == 0) Sync(s);
      }
    });
  }
  // Consumers of a queue that begin by waiting for it.
  static void Queue(devrt_stream shared, int64_t* x) {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<int> items;
    bool is_over = false;
    const auto consume = [&](int i) {
      devrt_stream s = NewStream();
      for (;;) {
        Lock lock(mutex);
        changed.wait(lock, [&] { return is_over || !items.empty(); });
        if (items.empty()) return;
        const int item = items.front();
        items.pop_front();
        lock.unlock();
        MulAdd(s, x, item + 2, i);
        Sync(s);
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back([&, i] { consume(i); });
    for (int item = 0; item < 8; ++item) {
      MulAdd(shared, x, 3, item);
      const Lock lock(mutex);
      items.push_back(item);
      changed.notify_one();
    }
    {
      const Lock lock(mutex);
      is_over = true;
      changed.notify_all();
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Threads that start threads, and futures.
  static void Nested(devrt_stream shared, int64_t* x) {
    Start(2, [&](int i) {
      devrt_stream s = NewStream();
      MulAdd(s, x, 2, i);
      std::future<int> made = std::async(std::launch::async, [&, i] {
        MulAdd(shared, x, 3, i);
        return i;
      });
      MulAdd(s, x, 5, 0);
      MulAdd(s, x, 1, made.get());
      Sync(s);
    });
  }
  // The main thread works beside the others, and they sleep for a short time.
  static void Sleepers(devrt_stream shared, int64_t* x) {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([x, i] {
        devrt_stream s = NewStream();
        MulAdd(s, x, i + 2, 0);
        std::this_thread::sleep_for(std::chrono::microseconds(300 * (3 - i)));
        MulAdd(s, x, i + 2, 1);
        Sync(s);
      });
    }
    for (int k = 0; k < 4; ++k) MulAdd(shared, x, 7, k);
    for (std::thread& thread : threads) thread.join();
  }
  // Threads of a pool wait for work during many decisions, and get it at once.
  static void Pool(devrt_stream shared, int64_t* x) {
    struct Worker {
      std::mutex mutex;
      std::condition_variable changed;
      bool has_work = false;
      std::thread thread;
    };
    std::vector<Worker> workers(3);
    for (size_t i = 0; i < workers.size(); ++i) {
      Worker* const worker = &workers[i];
      worker->thread = std::thread([=] {
        Lock lock(worker->mutex);
        worker->changed.wait(lock, [worker] { return worker->has_work; });
        devrt_stream s = NewStream();
        MulAdd(s, x, static_cast<int64_t>(i) + 2, 1);
        MulAdd(shared, x, 5, static_cast<int64_t>(i));
        Sync(s);
      });
    }
    for (int k = 0; k < 100; ++k) MulAdd(shared, x, 1, 1), Sync(shared);
    for (Worker& worker : workers) {
      const Lock lock(worker.mutex);
      worker.has_work = true;
      worker.changed.notify_one();
    }
    for (int k = 0; k < 4; ++k) MulAdd(shared, x, 7, k);
    for (Worker& worker : workers) worker.thread.join();
  }
  // Eight threads that take turns.
  static void Turns(devrt_stream shared, int64_t* x) {
    std::mutex mutex;
    std::condition_variable changed;
    int turn = 0;
    Start(8, [&](int i) {
      devrt_stream s = NewStream();
      for (int round = 0; round < 2; ++round) {
        MulAdd(s, x, 3, i);
        Lock lock(mutex);
        changed.wait(lock, [&] { return turn % 8 == i; });
        MulAdd(shared, x, 1, 1);
        ++turn;
        changed.notify_all();
      }
      Sync(s);
    });
  }
};

const std::vector<ThreadOrder::Program>& ThreadOrder::Programs() {
  using P = devrt::test::Programs;
  static const auto* const programs = new std::vector<Program>{
      {"streams", &P::Streams},   {"nested", &P::Nested},
      {"sleepers", &P::Sleepers}, {"pool", &P::Pool},
      {"mutex", &P::Mutex},       {"queue", &P::Queue},
      {"turns", &P::Turns},
  };
  return *programs;
}

// ---- tests ------------------------------------------------------------------

TEST_F(ThreadOrder, OneSeedIsOneRun) {
  const char* const wanted = std::getenv("DEVRT_THREAD_RUNS");
  const int pairs = wanted != nullptr ? std::atoi(wanted) : 2;
  for (const Program& program : Programs()) {
    int differing = 0, all = 0;
    uint64_t uncontrolled = 0;
    std::set<uint64_t> traces;
    const auto begin = std::chrono::steady_clock::now();
    for (const char* strategy : {"random", "pos", "hw"}) {
      for (int seed = 1; seed <= pairs; ++seed) {
        const std::string config = std::string("strategy=") + strategy +
                                   ",seed=" + std::to_string(seed);
        const Run run = Seeded(program, config);
        const Run again = Seeded(program, config);
        ++all;
        if (!(run == again)) ++differing;
        uncontrolled += run.uncontrolled + again.uncontrolled;
        traces.insert(run.trace);
      }
    }
    const double ms = std::chrono::duration<double, std::milli>(
                          std::chrono::steady_clock::now() - begin)
                          .count();
    if (wanted != nullptr) {
      std::printf(
          "%-9s %d of %d pairs differ, %zu traces, %.2f ms a run, "
          "uncontrolled %d\n",
          program.name, differing, all, traces.size(), ms / all / 2,
          static_cast<int>(uncontrolled));
    } else {
      EXPECT_EQ(differing, 0) << program.name;
      EXPECT_EQ(uncontrolled, 0u) << program.name;
    }
  }
}

// A process that computes until the object ends, or this process does.
class BusyProcess {
 public:
  BusyProcess() : child_(fork()) {
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile uint64_t count = 0;; count = count + 1) {
    }
  }
  BusyProcess(const BusyProcess&) = delete;
  BusyProcess& operator=(const BusyProcess&) = delete;
  ~BusyProcess() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  bool runs() const { return child_ > 0; }

 private:
  const pid_t child_;
};

// Other processes take the cores away at any moment.
TEST_F(ThreadOrder, OneSeedIsOneRunBesideBusyProcesses) {
  const BusyProcess one, other;
  ASSERT_TRUE(one.runs() && other.runs());
  for (const Program& program : Programs()) {
    for (int seed = 1; seed <= 2; ++seed) {
      const std::string config = "strategy=random,seed=" + std::to_string(seed);
      EXPECT_TRUE(Seeded(program, config) == Seeded(program, config))
          << program.name << " " << seed;
    }
  }
}

// The next thread of the system gets a number behind `last`, unless another
// process takes that.  Returns false if the system does not permit that.
bool SetLastNumber(int last) {
  FILE* const file = std::fopen("/proc/sys/kernel/ns_last_pid", "we");
  if (file == nullptr) return false;
  const bool written = std::fprintf(file, "%d", last) > 0;
  return std::fclose(file) == 0 && written;
}

// The numbers of threads rise, begin anew with small ones, and come to that of
// the process again.
TEST_F(ThreadOrder, DoesNotDependOnTheNumbersOfTheThreads) {
  int greatest = 0;
  FILE* const file = std::fopen("/proc/sys/kernel/pid_max", "re");
  if (file != nullptr) {
    EXPECT_EQ(std::fscanf(file, "%d", &greatest), 1);
    std::fclose(file);
  }
  if (greatest == 0 || !SetLastNumber(getpid() + 100)) {
    GTEST_SKIP() << "the system keeps the numbers of threads to itself";
  }
  const Program program = {"streams", &Programs::Streams};
  const std::string config = "strategy=random,seed=3";
  const Run usual = Seeded(program, config);
  for (const int cut : {getpid(), greatest}) {
    for (int before = 2; before <= 4; ++before) {
      ASSERT_TRUE(SetLastNumber(cut - before));
      EXPECT_TRUE(Seeded(program, config) == usual)
          << "with the number " << cut << " after " << before << " threads";
    }
  }
}

TEST_F(ThreadOrder, ATokenRepeats) {
  for (const Program& program : Programs()) {
    SCOPED_TRACE(program.name);
    for (int seed = 1; seed <= 3; ++seed) {
      const Run run =
          Seeded(program, "strategy=random,seed=" + std::to_string(seed));
      OK(sim().replay(self(), run.token.data(), run.token.size()));
      const Run again = Make(program);
      EXPECT_TRUE(run == again);
      EXPECT_EQ(run.token, again.token);
    }
  }
}

}  // namespace
}  // namespace devrt::test
