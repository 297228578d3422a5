// SPDX-License-Identifier: Apache-2.0
//
// The classes below the call stacks of findings: numbers of stacks, and places
// of code with libdw and without it.

#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "layers/validate/call_stacks.h"
#include "layers/validate/code_places.h"
#include "tests/support/libdw.h"
#include "tests/support/sanitizers.h"

namespace devrt::race {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

using testing::HasLibdw;
using testing::kNoLibdw;

// The caller of backtrace among the addresses: sanitizers have a function
// between the two.
constexpr int kCaller = DEVRT_TEST_ASAN || DEVRT_TEST_TSAN ? 1 : 0;

// A function of the C library of which sanitizers have no copy.
const void* FunctionOfC() { return reinterpret_cast<const void*>(&getppid); }

// An instruction of this function, and its line.
struct Here {
  const void* code = nullptr;
  int line = 0;
};
[[gnu::noinline]] Here FindHere() {
  void* addresses[3];
  const int line = __LINE__ + 1;
  backtrace(addresses, 3);
  return {static_cast<char*>(addresses[kCaller]) - 1, line};
}

TEST(CodePlaces, HaveTheFunctionAndTheLine) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  const Here here = FindHere();
  CodePlaces places;
  const std::vector<CodePlace> found = places.At(here.code);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].function, "devrt::race::(anonymous namespace)::FindHere");
  EXPECT_EQ(found[0].file, __FILE__);
  EXPECT_EQ(found[0].line, here.line);
  EXPECT_EQ(found[0].Text(), __FILE__ ":" + std::to_string(here.line));
}

[[gnu::noinline]] const void* CallerOfInlined() {
  void* addresses[3];
  [&]() __attribute__((always_inline)) { backtrace(addresses, 3); }
  ();
  return static_cast<char*>(addresses[kCaller]) - 1;
}

TEST(CodePlaces, HaveTheFunctionsThatTheCompilerPutIntoOne) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  CodePlaces places;
  const std::vector<CodePlace> found = places.At(CallerOfInlined());
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[1].function, EndsWith("CallerOfInlined"));
  EXPECT_EQ(found[0].file, __FILE__);
  EXPECT_EQ(found[1].file, __FILE__);
  // clang names a lambda expression "$_0".
  EXPECT_THAT(found[0].function, HasSubstr("CallerOfInlined"));
  EXPECT_THAT(found[0].function, AnyOf(EndsWith("::{lambda}"), HasSubstr("$")));
}

TEST(CodePlaces, WithoutLibdwHaveTheOffset) {
  CodePlaces places("libnone.so");
  const std::vector<CodePlace> own = places.At(FindHere().code);
  ASSERT_THAT(own, SizeIs(1));
  EXPECT_THAT(own[0].Text(),
              MatchesRegex("layers_validate_validator\\+0x[0-9a-f]+.*"));
  EXPECT_THAT(own[0].file, IsEmpty());
  const std::vector<CodePlace> other = places.At(FunctionOfC());
  ASSERT_THAT(other, SizeIs(1));
  EXPECT_THAT(other[0].Text(),
              MatchesRegex("libc\\.so\\.6\\+0x[0-9a-f]+ \\((__)?getppid\\)"));
}

TEST(CodePlaces, AnAddressOfNoModuleHasNone) {
  CodePlaces places;
  EXPECT_THAT(places.At(nullptr), IsEmpty());
  const int on_the_stack = 0;
  EXPECT_THAT(places.At(&on_the_stack), IsEmpty());
}

TEST(CodePlaces, OfAModuleThatWasUnloadedAreForgotten) {
  void* const module = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(module, nullptr) << dlerror();
  const void* const code = dlsym(module, "ns_sprintrr");
  CodePlaces places;
  EXPECT_THAT(places.At(code), SizeIs(1));
  dlclose(module);
  EXPECT_THAT(places.At(code), IsEmpty());
}

TEST(CodePlaces, HaveTheScopesOfFunctionsWithoutALinkageName) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  struct Local {
    __attribute__((always_inline)) const void* Find() const {
      void* addresses[3];
      backtrace(addresses, 3);
      return static_cast<char*>(addresses[kCaller]) - 1;
    }
  };
  CodePlaces places;
  const std::vector<CodePlace> found = places.At(Local().Find());
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].function,
              MatchesRegex(".*::TestBody(\\(\\))?::Local::Find"));
}

// A signal handler may end the process in the middle of a call.
TEST(CodePlaces, ACallThatIsUnderWayIsSeen) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  const std::string pipe =
      ::testing::TempDir() + "places." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  CodePlaces places(pipe.c_str());
  CallStacks stacks(nullptr, &places);
  EXPECT_FALSE(stacks.IsBusy());
  // Loading the library waits until the pipe has a writer.
  std::thread caller([&] { places.At(reinterpret_cast<void*>(&FindHere)); });
  while (!stacks.IsBusy()) std::this_thread::yield();
  EXPECT_TRUE(places.IsBusy());
  close(open(pipe.c_str(), O_WRONLY));
  caller.join();
  EXPECT_FALSE(stacks.IsBusy());
  unlink(pipe.c_str());
}

// A module's initialization may wait for the lock of who writes a report.
TEST(CallStacks, DoNotWaitForModulesThatAreLoaded) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  CodePlaces places;
  CallStacks stacks(nullptr, &places);
  stacks.Want(true);
  std::promise<void> is_loading;
  std::promise<void> is_ready;
  std::future<CallStack> stack = std::async(std::launch::async, [&] {
    // Variables of the thread are made at its first calls: libdw's for any
    // module, and libelf's for one whose debug information is looked for.
    places.At(reinterpret_cast<const void*>(&FindHere));
    places.At(FunctionOfC());
    is_ready.set_value();
    is_loading.get_future().wait();
    return stacks.TextOf(stacks.Take(), "");
  });
  is_ready.get_future().wait();
  const std::string pipe =
      ::testing::TempDir() + "module." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread loader([&] { dlopen(pipe.c_str(), RTLD_NOW); });
  // The loader waits for the module's text as long as the pipe is open.
  int writer = -1;
  while ((writer = open(pipe.c_str(), O_WRONLY | O_NONBLOCK)) < 0) {
    std::this_thread::yield();
  }
  is_loading.set_value();
  EXPECT_EQ(stack.wait_for(std::chrono::seconds(10)),
            std::future_status::ready);
  close(writer);
  loader.join();
  EXPECT_THAT(stack.get().frames, Not(IsEmpty()));
  unlink(pipe.c_str());
}

// A host with an interpreter, whose program has these frames.
struct FakeHost {
  static inline devrt_program_frame_v0 frames[] = {
      {"model.py", "Model.step", 12, 0}, {"train.py", "<module>", 40, 0}};
  static inline devrt_program_frames_v0 list = {sizeof(devrt_program_frames_v0),
                                                2, frames, 3, 0};
  static inline uint32_t wanted = 0;
  static inline const void* interpreter = nullptr;
  static inline bool knows_frames = true;
  static inline const devrt_program_stack_v0 stack = {
      sizeof(devrt_program_stack_v0), 0,
      [](void*, uint32_t on) { on != 0 ? ++wanted : --wanted; },
      [](void*) -> const devrt_program_frames_v0* {
        return knows_frames ? &list : nullptr;
      },
      [](void*, uint32_t index) -> const void* {
        return index == 0 ? interpreter : nullptr;
      }};

  devrt_host_v0 table = {};
  FakeHost() {
    table.struct_size = sizeof table;
    table.get_extension = [](void*, const char* name) -> const void* {
      const bool known = std::strcmp(name, DEVRT_PROGRAM_STACK_EXTENSION) == 0;
      return known ? &stack : nullptr;
    };
  }
};

TEST(CallStacks, OneStackHasOneNumber) {
  CodePlaces places;
  CallStacks stacks(nullptr, &places);
  std::vector<uint32_t> numbers;
  // Volatile: not three calls in a row in place of the loop.
  for (volatile int i = 0; i < 3; i = i + 1) numbers.push_back(stacks.Take());
  EXPECT_THAT(numbers, ElementsAre(1, 1, 1));
  EXPECT_EQ(stacks.Take(), 2);
}

TEST(CallStacks, TooManyStacksHaveNoNumber) {
  CodePlaces places;
  CallStacks stacks(nullptr, &places, 1);
  const uint32_t first = stacks.Take();
  const uint32_t second = stacks.Take();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  EXPECT_THAT(stacks.TextOf(first, "").frames, Not(IsEmpty()));
  EXPECT_THAT(stacks.TextOf(second, "").frames, IsEmpty());
}

TEST(CallStacks, BeginAtTheCallOfTheProgram) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  CodePlaces places;
  CallStacks stacks(nullptr, &places);
  const int line = __LINE__ + 1;
  const uint32_t number = stacks.Take();
  const std::string site = __FILE__ ":" + std::to_string(line);
  const CallStack stack = stacks.TextOf(number, site);
  ASSERT_THAT(stack.frames, Not(IsEmpty()));
  EXPECT_EQ(stack.frames[0].line, line);
  EXPECT_THAT(stack.frames[0].function, HasSubstr("BeginAtTheCall"));
  EXPECT_EQ(stack.frames.back().function, "main");
  EXPECT_EQ(stack.left_out, 0);

  // The compiler may have got the whole path; other folders have other files.
  const std::string& folder = stack.frames[0].folder;
  ASSERT_THAT(folder, EndsWith("/"));
  const CallStack whole = stacks.TextOf(number, folder + site);
  EXPECT_EQ(whole.frames.size(), stack.frames.size()) << folder;
  const CallStack other = stacks.TextOf(number, "/other/" + site);
  EXPECT_GT(other.frames.size(), stack.frames.size());
}

// This program contains a host, so its functions are devrt's by their names.
TEST(CallStacks, LeaveOutDevrtInTheProgram) {
  FakeHost host;
  host.table.call_site = [](void*) -> const devrt_call_site_v0* {
    return nullptr;
  };
  CodePlaces places;
  CallStacks stacks(&host.table, &places);
  FakeHost::knows_frames = false;
  const int line = __LINE__ + 1;
  const uint32_t number = stacks.Take();
  FakeHost::knows_frames = true;
  const CallStack without = stacks.TextOf(number, "other.cc:1");
  ASSERT_THAT(without.frames, Not(IsEmpty()));
  const std::string& first = without.frames[0].function;
  // A sanitizer's backtrace is no function of devrt.
  if (kCaller == 0) {
    EXPECT_THAT(first, HasSubstr("testing::internal::"));
  }
  EXPECT_THAT(first, Not(StartsWith("devrt::")));
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  // The line of the call is the program's, whatever the name.
  const CallStack with =
      stacks.TextOf(number, __FILE__ ":" + std::to_string(line));
  EXPECT_EQ(with.frames[0].line, line);
}

TEST(CallStacks, HaveTheLinesOfCallsAndNotOfTheirReturns) {
  if (!HasLibdw()) GTEST_SKIP() << kNoLibdw;
  CodePlaces places;
  CallStacks stacks(nullptr, &places);
  const int line = __LINE__ + 1;
  stacks.Take();
  asm volatile("nop");
  std::vector<int> lines;
  for (const CodePlace& frame : stacks.TextOf(1, "").frames) {
    if (frame.file == __FILE__) lines.push_back(frame.line);
  }
  EXPECT_THAT(lines, ElementsAre(line));
}

TEST(CallStacks, GoOnInTheProgramOfAnInterpreter) {
  const FakeHost host;
  FakeHost::interpreter = reinterpret_cast<const void*>(&FindHere);
  CodePlaces places;
  CallStacks stacks(&host.table, &places);
  stacks.Want(true);
  EXPECT_EQ(FakeHost::wanted, 1);
  const CallStack stack = stacks.TextOf(stacks.Take(), "model.py:12");
  // This program is the interpreter, so its frames are left out.
  ASSERT_THAT(stack.frames, SizeIs(2));
  EXPECT_EQ(stack.frames[0].function, "Model.step");
  EXPECT_EQ(stack.frames[0].Text(), "model.py:12");
  EXPECT_EQ(stack.frames[1].Text(), "train.py:40");
  EXPECT_EQ(stack.left_out, 3);
  stacks.Want(false);
  EXPECT_EQ(FakeHost::wanted, 0);
}

TEST(CallStacks, KeepNativeFramesInFrontOfAnInterpreter) {
  const FakeHost host;
  FakeHost::interpreter = FunctionOfC();
  CodePlaces places;
  CallStacks stacks(&host.table, &places);
  const CallStack stack = stacks.TextOf(stacks.Take(), "");
  ASSERT_GT(stack.frames.size(), 3);
  EXPECT_THAT(stack.frames[0].module, HasSubstr("layers_validate_validator"));
  EXPECT_EQ(stack.frames.back().function, "<module>");
  EXPECT_FALSE(stack.is_cut);
  // The code that the interpreter called has given up the interpreter's lock.
  FakeHost::knows_frames = false;
  const CallStack cut = stacks.TextOf(stacks.Take(), "");
  FakeHost::knows_frames = true;
  EXPECT_EQ(cut.frames.size() + 2, stack.frames.size());
  EXPECT_TRUE(cut.is_cut);
}

}  // namespace
}  // namespace devrt::race
