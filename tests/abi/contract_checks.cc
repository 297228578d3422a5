// SPDX-License-Identifier: Apache-2.0
#include "tests/abi/contract_checks.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <thread>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "tests/support/fake_host.h"

namespace {

std::atomic<int> exit_handlers{0};

}  // namespace

// Counts what a plugin registers for the end of the process: atexit functions
// and the destructors of static objects.
extern "C" int __cxa_atexit(void (*)(void*), void* arg, void* dso) noexcept;
extern "C" int __cxa_atexit(void (*function)(void*), void* arg,
                            void* dso) noexcept {
  using Function = int (*)(void (*)(void*), void*, void*);
  static const Function next =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "__cxa_atexit"));
  exit_handlers.fetch_add(1);
  return next(function, arg, dso);
}

namespace devrt::test {
namespace {

// One opened plugin, and what its calls are made with.
struct Opened {
  FakeHost host;
  devrt_ops_v0 ops = {};
  void* self = nullptr;
  uint64_t capabilities = 0;
  uint32_t devices = 0;
};

using Text = std::string;  // of a violation; empty: none

std::string ErrorText(devrt_status status) {
  const OwnedStatus owned(status);
  return owned.ok() ? "" : owned.text();
}

int CountThreads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}

std::vector<std::string> Variables() {
  std::vector<std::string> all;
  for (char** v = environ; *v != nullptr; ++v) all.emplace_back(*v);
  return all;
}

// ---- Opening: P2, P4
// ----------------------------------------------------------

// Standard output as a file, so that every byte of it can be counted.
off_t WrittenToStdout() {
  std::fflush(stdout);
  return lseek(STDOUT_FILENO, 0, SEEK_CUR);
}

// Copies the plugin's answer as a host does.
Text Take(const devrt_backend_v0& backend, Opened* opened) {
  if (backend.ops == nullptr) return "P5: open gave no table";
  std::memcpy(&opened->ops, backend.ops,
              std::min<size_t>(backend.ops->struct_size, sizeof opened->ops));
  opened->self = backend.self;
  opened->capabilities = backend.capabilities;
  return ErrorText(opened->ops.device_count(opened->self, &opened->devices));
}

Text Open(const std::string& path, Opened* opened) {
  const int handlers = exit_handlers.load();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return dlerror();
  const auto open = reinterpret_cast<devrt_plugin_open_fn_v0>(
      dlsym(library, DEVRT_PLUGIN_OPEN_SYMBOL));
  const int threads = CountThreads();
  const std::vector<std::string> variables = Variables();
  const off_t written = WrittenToStdout();
  devrt_backend_v0 backend = {};
  backend.struct_size = sizeof backend;
  const std::string error = ErrorText(open(opened->host.table(), &backend));
  if (CountThreads() != threads) return "P2: open started a thread";
  if (WrittenToStdout() != written) return "P4: open wrote to stdout";
  if (Variables() != variables) return "P4: open changed the environment";
  if (exit_handlers.load() != handlers) {
    return "P4: open left something for the end of the process";
  }
  return error.empty() ? Take(backend, opened) : error;
}

// ---- Calls
// --------------------------------------------------------------------

devrt_status Create(Opened* o, uint32_t device, devrt_stream* stream) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  return o->ops.stream_create(o->self, device, &desc, stream);
}

Text FailuresChangeNothing(Opened* o) {
  uint64_t before = 0, after = 0, total = 0;
  OwnedStatus ignored(o->ops.mem_info(o->self, 0, &before, &total));
  void* pointer = o;
  const OwnedStatus status(
      o->ops.alloc(o->self, 0, uint64_t{1} << 60, 0, &pointer));
  if (status.ok()) return "P7: alloc gave an exabyte";
  if (pointer != o) return "P7: alloc failed and set the pointer";
  ignored = OwnedStatus(o->ops.mem_info(o->self, 0, &after, &total));
  return after == before ? "" : "P7: alloc failed and took memory";
}

Text NotReadyIsNoError(Opened* o) {
  devrt_stream stream = nullptr;
  const std::string error = ErrorText(Create(o, 0, &stream));
  if (!error.empty()) return "stream_create: " + error;
  uint32_t done = 2;
  const std::string answer =
      ErrorText(o->ops.stream_query(o->self, stream, &done));
  ErrorText(o->ops.stream_destroy(o->self, stream));
  if (!answer.empty())
    return "P8: stream_query answers with an error: " + answer;
  return done <= 1 ? "" : "P8: stream_query says neither yes nor no";
}

Text BlocksAreAligned(Opened* o) {
  devrt_device_props_v0 props = {};
  props.struct_size = sizeof props;
  ErrorText(o->ops.device_props(o->self, 0, &props));
  for (const uint64_t asked : {uint64_t{0}, uint64_t{4096}}) {
    for (const uint64_t size : {uint64_t{1}, uint64_t{100}, uint64_t{4097}}) {
      void* pointer = nullptr;
      const std::string error =
          ErrorText(o->ops.alloc(o->self, 0, size, asked, &pointer));
      if (!error.empty()) return "alloc: " + error;
      const uint64_t promised =
          std::max<uint64_t>(asked, props.alloc_alignment);
      const bool aligned = reinterpret_cast<uintptr_t>(pointer) % promised == 0;
      ErrorText(o->ops.dealloc(o->self, 0, pointer, size));
      if (aligned) continue;
      return "P10: alloc gave a block that is not aligned to " +
             std::to_string(promised);
    }
  }
  return "";
}

Text AnyThreadMayCall(Opened* o) {
  std::string error;
  std::thread([&] {
    devrt_stream stream = nullptr;
    error = ErrorText(Create(o, 0, &stream));
    if (error.empty()) error = ErrorText(o->ops.stream_sync(o->self, stream));
    if (stream != nullptr) {
      ErrorText(o->ops.stream_destroy(o->self, stream));
    }
  }).join();
  return error.empty() ? "" : "P12: another thread is refused: " + error;
}

struct HostCall {
  std::atomic<int> count{0};
  std::atomic<bool> here{false};
  const std::thread::id caller = std::this_thread::get_id();
};

Text HostFunctionsRunOnce(Opened* o) {
  if ((o->capabilities & DEVRT_CAP_HOST_FUNC) == 0) return "";
  static HostCall call;  // a second call may come later
  devrt_stream stream = nullptr;
  ErrorText(Create(o, 0, &stream));
  const auto function = [](void* arg, devrt_status) {
    HostCall* const made = static_cast<HostCall*>(arg);
    made->count.fetch_add(1);
    made->here = made->here || std::this_thread::get_id() == made->caller;
  };
  ErrorText(o->ops.host_func(o->self, stream, function, &call));
  ErrorText(o->ops.stream_sync(o->self, stream));
  ErrorText(o->ops.stream_destroy(o->self, stream));
  if (call.here) return "P15: a host function ran on the caller's thread";
  if (call.count == 1) return "";
  return "P15: a host function ran " + std::to_string(call.count) + " times";
}

Text ContextsAreRestored(Opened* o) {
  const uint32_t last = o->devices - 1;
  uint32_t outside = 99, inside = 99;
  devrt_context outer = {}, inner = {};
  ErrorText(o->ops.context_current(o->self, &outside));
  ErrorText(o->ops.context_enter(o->self, last, &outer));
  ErrorText(o->ops.context_enter(o->self, 0, &inner));
  ErrorText(o->ops.context_exit(o->self, &inner));
  ErrorText(o->ops.context_current(o->self, &inside));
  ErrorText(o->ops.context_exit(o->self, &outer));
  uint32_t after = 99;
  ErrorText(o->ops.context_current(o->self, &after));
  return inside == last && after == outside
             ? ""
             : "P17: context_exit did not restore what was current";
}

Text HandlesDiffer(Opened* o) {
  devrt_stream streams[2] = {};
  devrt_event events[2] = {};
  for (int i = 0; i < 2; ++i) {
    ErrorText(Create(o, 0, &streams[i]));
    ErrorText(o->ops.event_create(o->self, 0, 0, &events[i]));
    if (streams[i] == nullptr || events[i] == nullptr) {
      return "P18: a handle is null";
    }
  }
  if (streams[0] == streams[1] || events[0] == events[1]) {
    return "P18: two live objects have one handle";
  }
  for (int i = 0; i < 2; ++i) {
    ErrorText(o->ops.stream_destroy(o->self, streams[i]));
    ErrorText(o->ops.event_destroy(o->self, events[i]));
  }
  return "";
}

// Handles first: the others make and destroy streams.
constexpr Text (*kChecks[])(Opened*) = {
    &HandlesDiffer,       &FailuresChangeNothing, &NotReadyIsNoError,
    &BlocksAreAligned,    &AnyThreadMayCall,      &HostFunctionsRunOnce,
    &ContextsAreRestored,
};

Text TryEverything(const std::string& path) {
  auto* const opened = new Opened;  // the child ends with it
  Text text = Open(path, opened);
  for (const auto check : kChecks) {
    if (text.empty()) text = check(opened);
  }
  return text;
}

// ---- The child
// ------------------------------------------------------------------

[[noreturn]] void RunChild(const std::string& path, int report) {
  const int output = memfd_create("stdout", 0);
  dup2(output, STDOUT_FILENO);
  alarm(30);  // a plugin that hangs
  const std::string text = "R" + TryEverything(path);
  if (write(report, text.data(), text.size()) < 0) _exit(1);
  _exit(0);
}

std::string ReadAll(int from) {
  std::string all;
  char buffer[512];
  for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;) {
    all.append(buffer, static_cast<size_t>(n));
  }
  return all;
}

}  // namespace

std::string FirstViolation(const std::string& path) {
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) RunChild(path, report[1]);
  close(report[1]);
  const std::string text = ReadAll(report[0]);
  close(report[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!text.empty()) return text.substr(1);  // after the mark
  return WIFSIGNALED(status) ? "P4: the process ended by signal " +
                                   std::to_string(WTERMSIG(status))
                             : "P4: the process exited with " +
                                   std::to_string(WEXITSTATUS(status));
}

}  // namespace devrt::test
