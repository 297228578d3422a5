// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/segv_handler.h"

#include <signal.h>
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>

namespace devrt::mtia {
namespace {

constexpr size_t kMaxListeners = 16;

std::array<std::atomic<SegvListener*>, kMaxListeners> g_listeners{};
struct sigaction g_previous;

void ReadContext(void* context, AccessFault* fault) {
#if defined(__x86_64__)
  constexpr greg_t kWriteBit = 2;  // of the page fault's error code
  const auto& registers =
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  fault->instruction = reinterpret_cast<const void*>(registers[REG_RIP]);
  fault->access =
      (registers[REG_ERR] & kWriteBit) != 0 ? Access::kWrite : Access::kRead;
#elif defined(__aarch64__)
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
  fault->instruction = reinterpret_cast<const void*>(machine.pc);
#else
  (void)context;
  (void)fault;
#endif
}

// Calls the former handler as the system would: with its signal mask,
// SA_NODEFER and SA_RESETHAND.
void CallPrevious(int signal, siginfo_t* info, void* context) {
  const struct sigaction previous = g_previous;
  if ((previous.sa_flags & SA_RESETHAND) != 0) {
    g_previous.sa_handler = SIG_DFL;
    g_previous.sa_flags = 0;
  }
  sigset_t saved;
  pthread_sigmask(SIG_BLOCK, &previous.sa_mask, &saved);
  if ((previous.sa_flags & SA_NODEFER) != 0) {
    sigset_t self;
    sigemptyset(&self);
    sigaddset(&self, signal);
    pthread_sigmask(SIG_UNBLOCK, &self, nullptr);
  }
  if ((previous.sa_flags & SA_SIGINFO) != 0) {
    previous.sa_sigaction(signal, info, context);
  } else {
    previous.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &saved, nullptr);
}

void PassOn(int signal, siginfo_t* info, void* context) {
  const bool from_access = info->si_code > 0;
  const bool is_function =
      (g_previous.sa_flags & SA_SIGINFO) != 0 ||
      (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN);
  if (is_function) {
    CallPrevious(signal, info, context);
    return;
  }
  if (!from_access && g_previous.sa_handler == SIG_IGN) return;
  // The access repeats when this handler returns.  It then ends the process,
  // and the core file shows the access.  A signal that was sent does not
  // repeat.
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigemptyset(&standard.sa_mask);
  sigaction(signal, &standard, nullptr);
  if (!from_access) raise(signal);
}

void OnSignal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  bool retry = false;
  if (info->si_code > 0) {
    AccessFault fault;
    fault.address = static_cast<const std::byte*>(info->si_addr);
    ReadContext(context, &fault);
    for (const auto& slot : g_listeners) {
      SegvListener* listener = slot.load(std::memory_order_acquire);
      retry = listener != nullptr && listener->OnSegv(fault);
      if (retry) break;
    }
  }
  if (!retry) PassOn(signal, info, context);
  errno = saved_errno;
}

bool Install() {
  struct sigaction action = {};
  action.sa_sigaction = OnSignal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  // Set before the handler is installed, which uses it.
  if (sigaction(SIGSEGV, nullptr, &g_previous) != 0) return false;
  return sigaction(SIGSEGV, &action, nullptr) == 0;
}

}  // namespace

bool AddSegvListener(SegvListener* listener) {
  static const bool installed = Install();
  if (!installed) return false;
  for (auto& slot : g_listeners) {
    SegvListener* none = nullptr;
    if (slot.compare_exchange_strong(none, listener)) return true;
  }
  return false;
}

void RemoveSegvListener(SegvListener* listener) {
  for (auto& slot : g_listeners) {
    SegvListener* expected = listener;
    if (slot.compare_exchange_strong(expected, nullptr)) return;
  }
}

}  // namespace devrt::mtia
