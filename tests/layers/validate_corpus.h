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

#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
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

  // Kernels that say what they use.
  static void Write(StreamRef s, void* p, uint64_t bytes = kBlock) {
    Use(s, devrt::Write(p, bytes), "write");
  }
  static void Read(StreamRef s, const void* p, uint64_t bytes = kBlock) {
    Use(s, devrt::Read(p, bytes), "read");
  }
  static void Update(StreamRef s, void* p, uint64_t bytes = kBlock) {
    Use(s, ReadWrite(p, bytes), "update");
  }
  // A kernel that the program enqueues on the native stream, and declares to
  // the layer only.
  static void Native(StreamRef s, Access access) {
    EXPECT_OK(s.Native());
    EXPECT_OK(validate::AnnotateWork(s, {access}, "native kernel"));
  }
  // Lets the stream's work last: devrt queries events of its own, and the layer
  // takes an answer that work is complete for a wait of the host.
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
    return static_cast<char*>(pinned_.back());
  }

 private:
  static void Use(StreamRef s, Access access, const char* name) {
    LaunchOptions options;
    options.name = name;
    EXPECT_OK(Launch(
        s, {access}, [](const LaunchContext&) {}, options));
  }

  const bool mended_;
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
