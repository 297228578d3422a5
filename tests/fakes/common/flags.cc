// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/common/flags.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/fakes/common/calls.h"
#include "tests/fakes/common/simulator.h"

namespace devrt::fake {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::microseconds kPoll{100};

// A kernel that has begun to wait.  In virtual mode it waits twice: for `flag`
// as long as the host sees it wait, then for `rest`, so that the simulated time
// of the timeout passes, too.
struct Watch {
  const uint32_t* word;
  Clock::time_point deadline;
  devrt_flag flag;
  devrt_flag rest;  // or NULL
};

struct State {
  std::mutex mutex;  // guards what follows; held over no call
  std::condition_variable armed;
  std::vector<Watch> watches;
  std::vector<devrt_flag> spent;  // open, to be destroyed
  bool has_poller = false;
  std::atomic<size_t> count{0};  // of both
  // Waits under way: a kernel may end while its flag is yet to be waited for.
  std::atomic<int> submitting{0};
};

State& TheState() {
  static auto* const state = new State();
  return *state;
}

class SubmissionScope {
 public:
  SubmissionScope() { ++TheState().submitting; }
  ~SubmissionScope() { --TheState().submitting; }
  SubmissionScope(const SubmissionScope&) = delete;
};

uint32_t Load(const uint32_t* word) {
  return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

// Where flags cannot be destroyed: kernels and callbacks run inside the
// simulator, and opening is all that is allowed there.
void Open(bool inside) {
  State& state = TheState();
  if (state.count == 0) return;
  std::vector<devrt_flag> open, gone;
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    const bool fault = FaultCode() != 0;
    const Clock::time_point now = Clock::now();
    for (size_t i = 0; i < state.watches.size();) {
      Watch& watch = state.watches[i];
      const bool set = fault || Load(watch.word) != 0;
      if (!set && now < watch.deadline) {
        ++i;
        continue;
      }
      open.push_back(watch.flag);
      if (watch.rest != nullptr && !set) {
        watch = {watch.word, Clock::time_point::max(), watch.rest, nullptr};
        ++i;
        continue;
      }
      if (watch.rest != nullptr) open.push_back(watch.rest);
      state.watches.erase(state.watches.begin() +
                          static_cast<std::ptrdiff_t>(i));
    }
    if (inside || state.submitting != 0) {
      state.spent.insert(state.spent.end(), open.begin(), open.end());
    } else {
      gone.swap(state.spent);
      gone.insert(gone.end(), open.begin(), open.end());
      open.clear();
    }
    state.count = state.watches.size() + state.spent.size();
  }
  for (const devrt_flag flag : open) {
    (void)engine::Probe<&devrt_probe_v0::flag_set>(flag, 1u);
  }
  // Waits for a destroyed flag end.
  for (const devrt_flag flag : gone) {
    (void)engine::Probe<&devrt_probe_v0::flag_destroy>(flag);
  }
}

void Poll() {
  State& state = TheState();
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(state.mutex);
      state.armed.wait(lock, [&] { return state.count != 0; });
    }
    Open(false);
    std::this_thread::sleep_for(kPoll);
  }
}

void Arm(const Watch& watch) {
  State& state = TheState();
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    if (!state.has_poller) std::thread(&Poll).detach();
    state.has_poller = true;
    state.watches.push_back(watch);
    state.count = state.watches.size() + state.spent.size();
  }
  state.armed.notify_one();
  Open(true);
}

}  // namespace

int WaitForWord(const Work& work, const uint32_t* word, uint64_t timeout) {
  const SubmissionScope submission;
  devrt_flag flag = nullptr, rest = nullptr;
  int error =
      engine::Probe<&devrt_probe_v0::flag_create>(work.sim_device, &flag);
  if (error == 0 && timeout != 0 && engine::IsVirtual()) {
    error = engine::Probe<&devrt_probe_v0::flag_create>(work.sim_device, &rest);
  }
  if (error != 0) return error;
  error = engine::LaunchBody(
      work.sim, "devrt_wait", [=](const devrt_kernel_context_v0& context) {
        if (context.local(&context, word, sizeof *word, DEVRT_ACCESS_READ) ==
            nullptr) {
          return;
        }
        Arm({word,
             timeout == 0 ? Clock::time_point::max()
                          : Clock::now() + std::chrono::nanoseconds(timeout),
             flag, rest});
      });
  if (error != 0) return error;
  error =
      engine::Probe<&devrt_probe_v0::flag_wait>(work.sim, flag, uint64_t{0});
  if (error != 0 || rest == nullptr) return error;
  return engine::Probe<&devrt_probe_v0::flag_wait>(work.sim, rest, timeout);
}

int SetWord(const Work& work, uint32_t* word, uint32_t value) {
  return engine::LaunchBody(
      work.sim, "devrt_set", [=](const devrt_kernel_context_v0& context) {
        void* const local =
            context.local(&context, word, sizeof *word, DEVRT_ACCESS_WRITE);
        if (local == nullptr) return;
        __atomic_store_n(static_cast<uint32_t*>(local), value,
                         __ATOMIC_RELEASE);
        Open(true);
      });
}

void OpenFlags() { Open(InCallback()); }

void ForgetWords(const void* begin, size_t size) {
  State& state = TheState();
  if (state.count == 0) return;
  const auto* const first = static_cast<const char*>(begin);
  {
    const std::lock_guard<std::mutex> lock(state.mutex);
    for (size_t i = 0; i < state.watches.size();) {
      const Watch& watch = state.watches[i];
      const auto* const at = reinterpret_cast<const char*>(watch.word);
      if (at < first || at >= first + size) {
        ++i;
        continue;
      }
      state.spent.push_back(watch.flag);
      if (watch.rest != nullptr) state.spent.push_back(watch.rest);
      state.watches.erase(state.watches.begin() +
                          static_cast<std::ptrdiff_t>(i));
    }
  }
  OpenFlags();
}

}  // namespace devrt::fake
