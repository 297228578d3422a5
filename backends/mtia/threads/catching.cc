// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/catching.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "backends/mtia/threads/host_threads.h"

#if defined(__SANITIZE_THREAD__)
#define DEVRT_MTIA_SIGNALS_ARE_LATE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DEVRT_MTIA_SIGNALS_ARE_LATE 1
#endif
#endif

namespace devrt::mtia {
namespace {

// A system call that the signal has interrupted.  The system has set the
// registers back, so that the call begins anew when the handler returns.
struct Interrupted {
  uint64_t number, word, op, value, timeout;
};

#if defined(DEVRT_MTIA_SIGNALS_ARE_LATE)
constexpr bool kCanCatch = false;
bool Read(const ucontext_t&, Interrupted*) { return false; }
#elif defined(__x86_64__)
constexpr bool kCanCatch = true;
bool Read(const ucontext_t& context, Interrupted* call) {
  constexpr unsigned char kSyscall[] = {0x0f, 0x05};
  const greg_t* const r = context.uc_mcontext.gregs;
  const auto* const at = reinterpret_cast<const void*>(r[REG_RIP]);
  if (std::memcmp(at, kSyscall, sizeof kSyscall) != 0) return false;
  const auto value = [r](int name) { return static_cast<uint64_t>(r[name]); };
  *call = {value(REG_RAX), value(REG_RDI), value(REG_RSI), value(REG_RDX),
           value(REG_R10)};
  return true;
}
#elif defined(__aarch64__)
constexpr bool kCanCatch = true;
bool Read(const ucontext_t& context, Interrupted* call) {
  constexpr unsigned char kSvc[] = {0x01, 0x00, 0x00, 0xd4};
  const auto* const r = context.uc_mcontext.regs;
  const auto* const at = reinterpret_cast<const void*>(context.uc_mcontext.pc);
  if (std::memcmp(at, kSvc, sizeof kSvc) != 0) return false;
  *call = {r[8], r[0], r[1], r[2], r[3]};
  return true;
}
#else
constexpr bool kCanCatch = false;
bool Read(const ucontext_t&, Interrupted*) { return false; }
#endif

// Sleeps, if the thread waits in a lock.
void SleepInLock(const ucontext_t& context) {
  HostThread* const me = t_host;
  Interrupted call;
  if (me == nullptr || !Read(context, &call) || call.number != SYS_futex ||
      call.timeout != 0) {
    return;
  }
  const uint64_t command = call.op & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return;
  g_threads->baton.SleepCaught(me, reinterpret_cast<const uint32_t*>(call.word),
                               static_cast<uint32_t>(call.value));
}

// The thread holds no lock of devrt's simulator where it waits, nor of the
// allocator of the program: the holder of those would run, and the thread would
// not have been called.
//
// The C library lets pthread_cancel end a thread at any instruction of some of
// these waits, and so of this handler.  A request waits until the thread holds
// nothing, and no destructor is on the way.
void Handle(int, siginfo_t*, void* context) {
  const int before = errno;
  int state = PTHREAD_CANCEL_ENABLE, type = PTHREAD_CANCEL_DEFERRED;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
  SleepInLock(*static_cast<const ucontext_t*>(context));
  errno = before;
  pthread_setcancelstate(state, nullptr);
  // In a wait that is no cancellation point the type is another one.
  if (type == PTHREAD_CANCEL_ASYNCHRONOUS) pthread_testcancel();
  pthread_setcanceltype(type, nullptr);
}

// The greatest real-time signal that the program does not use, or 0.
int ClaimSignal() {
  for (int signal = SIGRTMAX; signal > SIGRTMIN; --signal) {
    struct sigaction present;
    if (sigaction(signal, nullptr, &present) != 0 ||
        present.sa_handler != SIG_DFL) {
      continue;
    }
    struct sigaction mine = {};
    mine.sa_sigaction = &Handle;
    mine.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    return sigaction(signal, &mine, nullptr) == 0 ? signal : 0;
  }
  return 0;
}

// The program may have taken the signal since.  Another action may end the
// process.
bool IsOurs(int signal) {
  struct sigaction present;
  return sigaction(signal, nullptr, &present) == 0 &&
         (present.sa_flags & SA_SIGINFO) != 0 &&
         present.sa_sigaction == &Handle;
}

}  // namespace

bool CallIntoHandler(int32_t tid) {
  if (!kCanCatch) return false;
  static const int signal = ClaimSignal();
  return signal != 0 && IsOurs(signal) &&
         syscall(SYS_tgkill, getpid(), tid, signal) == 0;
}

}  // namespace devrt::mtia
