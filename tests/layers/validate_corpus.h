// SPDX-License-Identifier: Apache-2.0
//
// Small programs with a mistake in the order of their work, and how a program
// of the corpus is written.
//
//   {"MissingWait", "read-after-write", [](Program& p) {
//      p.Write(p.a, p.x);
//      p.Mend([&] { p.Wait(p.b, p.Record(p.a)); });
//      p.Read(p.b, p.x);
//    }},
//
// Each program runs twice: as it is, in which the validate layer must find the
// mistake; and mended, with what Mend adds, in which it must find nothing.
//
// Threads: one.

#ifndef DEVRT_TESTS_LAYERS_VALIDATE_CORPUS_H_
#define DEVRT_TESTS_LAYERS_VALIDATE_CORPUS_H_

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {

inline constexpr uint64_t kBlock = 4096;

// The simulator's, or that of DEVRT_TEST_BACKEND.
inline std::string BackendName() {
  const char* const name = std::getenv("DEVRT_TEST_BACKEND");
  return name != nullptr ? name : "mtia";
}

// Two devices, streams on them, and memory.
class Program {
 public:
  explicit Program(bool mended) : mended_(mended) {
    x = NewBlock(d);
    y = NewBlock(d);
    far = NewBlock(e);
    for (char* const block : {x, y, far}) {
      const std::vector<char> contents(kBlock, NextValue());
      EXPECT_OK(devrt::Copy(DefaultStream(block == far ? e : d), block,
                            contents.data(), kBlock));
    }
    for (const Device device : {d, e}) {
      blocks_.emplace_back(device, Must(Allocate(device, kSeenBytes)));
      seen_.push_back(static_cast<uint64_t*>(blocks_.back().second));
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  // Runs `act` in the mended program only, or in the faulty one only.
  void Mend(const std::function<void()>& act) const {
    if (mended_) act();
  }
  void Fault(const std::function<void()>& act) const {
    if (!mended_) act();
  }
  bool mended() const { return mended_; }

  // Kernels that say what they use.  On the simulator each computes something
  // of its own, so that another order shows: a write writes a new value, an
  // update depends on the value before, and a read notes what it has seen.
  void Write(StreamRef s, void* p, uint64_t bytes = kBlock) {
    const char value = NextValue();
    const auto body = [=](const LaunchContext& kernel) {
      auto* const to = Local(kernel, static_cast<char*>(p), bytes);
      if (to != nullptr) std::memset(to, value, bytes);
    };
    Use(s, {devrt::Write(p, bytes)}, "write", body);
  }
  void Read(StreamRef s, const void* p, uint64_t bytes = kBlock) {
    uint64_t* const seen = NextSeen(s);
    const auto body = [=](const LaunchContext& kernel) {
      const auto* const from =
          Local(kernel, static_cast<const char*>(p), bytes);
      uint64_t* const to = Local(kernel, seen, sizeof *seen);
      if (from == nullptr || to == nullptr) return;
      *to = std::hash<std::string_view>()({from, bytes});
    };
    Use(s, {devrt::Read(p, bytes), devrt::Write(seen, sizeof *seen)}, "read",
        body);
  }
  void Update(StreamRef s, void* p, uint64_t bytes = kBlock) {
    const char value = NextValue();
    const auto body = [=](const LaunchContext& kernel) {
      auto* const at = Local(kernel, static_cast<char*>(p), bytes);
      for (uint64_t i = 0; at != nullptr && i < bytes; ++i) {
        at[i] = static_cast<char>(3 * at[i] + value);
      }
    };
    Use(s, {ReadWrite(p, bytes)}, "update", body);
  }
  // A kernel that the program enqueues on the native stream, and declares to
  // the layer only.
  static void Native(StreamRef s, Access access) {
    EXPECT_OK(s.Native());
    EXPECT_OK(validate::AnnotateWork(s, {access}, "native kernel"));
  }
  // Lets the stream's work last: operations on arrays come after work that
  // devrt found complete by a query of its own.
  static void KeepBusy(StreamRef s) { EXPECT_OK(Spin(s, 50'000'000)); }
  static void Copy(StreamRef s, void* to, const void* from,
                   uint64_t bytes = kBlock) {
    EXPECT_OK(CopyAsync(s, to, from, bytes));
  }

  Event& NewEvent(Device device) {
    events_.push_back(Must(Event::Create(device)));
    return events_.back();
  }
  // An event recorded on the stream.
  Event& Record(StreamRef s) {
    Event& event = NewEvent(s.device());
    EXPECT_OK(event.Record(s));
    return event;
  }
  static void Wait(StreamRef s, const Event& event) {
    EXPECT_OK(s.Wait(event));
  }
  static void Sync(StreamRef s) { EXPECT_OK(s.Synchronize()); }

  // The calling thread reads `from` and writes `to`, which are host memory.
  // Returns when the bytes are there.
  void HostCopy(void* to, const void* from, uint64_t bytes = kBlock) {
    EXPECT_OK(devrt::Copy(DefaultStream(d), to, from, bytes));
  }

  static Stream Blocking(Device device) {
    StreamOptions options;
    options.blocking = true;
    return Must(Stream::Create(device, options));
  }

  const Backend backend = Must(GetBackend(BackendName()));
  Device d = backend.devices().front();
  Device e = backend.devices().back();  // `d` on a machine with one GPU
  Stream a = Must(Stream::Create(d));
  Stream b = Must(Stream::Create(d));
  Stream c = Must(Stream::Create(d));
  Stream f = Must(Stream::Create(e));  // of the second device
  // Raw memory, which lives as long as the program.
  char* x;
  char* y;
  char* far;
  // More of it, and pinned memory of the host:
  char* NewBlock(Device device) {
    blocks_.emplace_back(device, Must(Allocate(device, kBlock)));
    return static_cast<char*>(blocks_.back().second);
  }
  char* NewPinned() {
    pinned_.push_back(Must(AllocateHost(d, kBlock)));
    std::memset(pinned_.back(), NextValue(), kBlock);
    return static_cast<char*>(pinned_.back());
  }
  // A value that the program has not used before.
  char NextValue() { return static_cast<char>(++values_); }

 private:
  static constexpr uint64_t kSeenBytes = uint64_t{1} << 16;

  template <typename Body>
  static void Use(StreamRef s, std::initializer_list<Access> accesses,
                  const char* name, Body body) {
    LaunchOptions options;
    options.name = name;
    EXPECT_OK(Launch(s, accesses, body, options));
  }

  // Where the kernel finds the memory; nullptr on a GPU, whose kernels these
  // are not, and for memory that its device cannot access.
  template <typename T>
  static T* Local(const LaunchContext& kernel, T* p, uint64_t bytes) {
    return kernel.on_host() ? kernel.Local(p, bytes / sizeof(T)) : nullptr;
  }

  // Memory of the stream's device that no other kernel uses.
  uint64_t* NextSeen(StreamRef s) {
    const uint64_t number = reads_++ % (kSeenBytes / sizeof(uint64_t));
    return seen_[s.device() == d ? 0 : 1] + number;
  }

  const bool mended_;
  std::atomic<uint32_t> values_{0};
  std::atomic<uint64_t> reads_{0};
  std::vector<uint64_t*> seen_;  // of `d` and of `e`
  std::deque<Event> events_;
  std::vector<std::pair<Device, void*>> blocks_;
  std::vector<void*> pinned_;
};

inline Program::~Program() {
  EXPECT_OK(d.Synchronize());
  EXPECT_OK(e.Synchronize());
  for (const auto& [device, block] : blocks_) EXPECT_OK(Free(device, block));
  for (void* const block : pinned_) EXPECT_OK(FreeHost(block));
}

struct Mistake {
  const char* name;
  const char* kind;  // the kind that the layer must report
  std::function<void(Program&)> body;
};

struct RightProgram {
  const char* name;
  std::function<void(Program&)> body;
};

std::vector<RightProgram> RightPrograms();

std::vector<Mistake> AllocatorMistakes();
std::vector<Mistake> ArrayMistakes();
std::vector<Mistake> HostMistakes();
std::vector<Mistake> MemoryMistakes();
std::vector<Mistake> OrderMistakes();
std::vector<Mistake> ReportMistakes();
// For exact order of host threads: AllMistakes lacks them.
std::vector<Mistake> ThreadMistakes();

inline std::vector<Mistake> AllMistakes() {
  std::vector<Mistake> all;
  for (const auto& some :
       {AllocatorMistakes(), ArrayMistakes(), HostMistakes(), MemoryMistakes(),
        OrderMistakes(), ReportMistakes()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

template <typename T>
std::string NameOf(const ::testing::TestParamInfo<T>& info) {
  return info.param.name;
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_LAYERS_VALIDATE_CORPUS_H_
