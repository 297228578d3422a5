// SPDX-License-Identifier: Apache-2.0
#include "layers/trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "layers/trace/clock.h"

namespace devrt::trace {
namespace {

// A thread's state for writing; trivial, so that it works in every destructor.
struct ThreadWriter {
  RingHeader* ring;
  uint64_t written;
  bool has_none;
  uint8_t ends;  // number of destructor rounds at the thread's end
};
__thread ThreadWriter t_writer;

// A thread's cache of names, by the address of the text.
constexpr uint32_t kCached = 64;
struct CachedName {
  const char* text;
  uint32_t name;
};
__thread CachedName t_names[kCached];

std::string System(const char* path, const char* what) {
  return std::string(path) + ": " + what + ": " + std::strerror(errno);
}

// The start of a process in clock ticks since boot; 0 if it does not exist.
uint64_t StartOf(uint32_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  // Skips the process name, which may contain blanks and parentheses.
  std::istringstream words(text.substr(text.rfind(')') + 1));
  std::string word;
  for (int i = 0; i < 20; ++i) words >> word;
  return std::strtoull(word.c_str(), nullptr, 10);
}

std::string TakenBy(uint32_t pid, uint64_t start) {
  const std::string process = "process " + std::to_string(pid);
  const bool alive = start == 0 || start == StartOf(pid);
  return alive ? process + " writes its trace there; only one is traced"
               : "it holds the trace of " + process +
                     ", which has ended; only one is traced: remove the file "
                     "for another trace";
}

// MADV_POPULATE_WRITE, since Linux 5.14, which older headers lack.
constexpr int kPopulateWrite = 23;
#ifdef MADV_POPULATE_WRITE
static_assert(kPopulateWrite == MADV_POPULATE_WRITE);
#endif

// Allocates disk space for a part of the sparse file; false if the disk is
// full.  Without that, a write into a hole would raise SIGBUS.  Returns true if
// the kernel lacks MADV_POPULATE_WRITE.
bool Reserve(void* begin, uint64_t size) {
  const auto at = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = at / kPage * kPage;
  return madvise(reinterpret_cast<void*>(first), at + size - first,
                 kPopulateWrite) == 0 ||
         errno == EINVAL;
}

// Gives an empty file its size.  Returns the size of the file; 0 after an
// error.
uint64_t Grow(const char* path, int fd, bool* fresh, std::string* error) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    *error = System(path, "cannot be examined");
    return 0;
  }
  if (!S_ISREG(info.st_mode)) {
    *error = std::string(path) + ": it is not a regular file";
    return 0;
  }
  *fresh = info.st_size == 0;
  if (!*fresh) return static_cast<uint64_t>(info.st_size);
  const uint64_t size = FileBytes(kRingRecords);
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) {
    // ftruncate would raise SIGXFSZ.
    *error = std::string(path) + ": it takes " + std::to_string(size) +
             " bytes, mostly holes, and a file of this process may have " +
             std::to_string(limit.rlim_cur) + ": ulimit -f";
    return 0;
  }
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) {
    *error = System(path, "cannot grow");
    return 0;
  }
  return size;
}

FileHeader* Map(const char* path, int fd, std::string* error) {
  bool fresh = false;
  const uint64_t size = Grow(path, fd, &fresh, error);
  if (size == 0) return nullptr;
  if (size < kPage) {
    *error = std::string(path) + ": it is not a file of the trace layer";
    return nullptr;
  }
  void* const at =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    *error = System(path, "cannot be mapped");
    return nullptr;
  }
  auto* const header = static_cast<FileHeader*>(at);
  if (!Reserve(at, kPage + kNamesSize)) {
    *error = std::string(path) + ": there is no room for it on the disk";
    munmap(at, size);
    if (fresh) (void)!ftruncate(fd, 0);
    return nullptr;
  }
  if (fresh) InitHeader(header, kRingRecords, NowNs());
  if (const char* const why = CheckHeader(*header, size)) {
    *error = std::string(path) + ": " + why;
    munmap(at, size);
    return nullptr;
  }
  return header;
}

}  // namespace

Recorder* Recorder::Open(const char* path, std::string* error) {
  const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
  if (fd < 0) {
    *error = System(path, "cannot be opened");
    return nullptr;
  }
  FileHeader* const header = Map(path, fd, error);
  close(fd);
  if (header == nullptr) return nullptr;
  uint32_t nobody = 0;
  const auto self = static_cast<uint32_t>(getpid());
  if (!header->pid.compare_exchange_strong(nobody, self)) {
    header->refused_pids.fetch_add(1);
    *error =
        std::string(path) + ": " + TakenBy(nobody, header->pid_start.load());
    return nullptr;
  }
  header->pid_start.store(StartOf(self));
  return new Recorder(header);
}

Recorder::Recorder(FileHeader* header) : header_(header) {
  pthread_key_create(&thread_end_, &ThreadEnds);
}

RingHeader* Recorder::EndedRing() {
  const std::lock_guard<std::mutex> lock(ended_mutex_);
  if (ended_.empty()) return nullptr;
  RingHeader* const ring = ended_.front();
  ended_.pop_front();
  header_->reused.fetch_add(
      std::min(ring->written.load(), header_->ring_records));
  ring->written.store(0);
  std::memset(ring->thread_name, 0, sizeof ring->thread_name);
  return ring;
}

void Recorder::ThreadEnds(void* self) {
  auto* const recorder = static_cast<Recorder*>(self);
  // Other destructors of this thread may still use devrt, so the ring is given
  // back late; but not in the last round, where sanitizers end their own
  // support for the thread.
  constexpr int kRounds = PTHREAD_DESTRUCTOR_ITERATIONS - 1;
  if (++t_writer.ends < kRounds) {
    pthread_setspecific(recorder->thread_end_, recorder);
    return;
  }
  const std::lock_guard<std::mutex> lock(recorder->ended_mutex_);
  recorder->ended_.push_back(t_writer.ring);
  t_writer.ring = nullptr;
  t_writer.has_none = true;
}

RingHeader* Recorder::NewRing() {
  const uint32_t index = header_->ring_count.fetch_add(1);
  if (index >= header_->max_rings) {
    header_->ring_count.store(header_->max_rings);
    return nullptr;
  }
  RingHeader* const ring = RingAt(header_, index);
  if (Reserve(ring, RingBytes(header_->ring_records))) return ring;
  no_space_.store(true, std::memory_order_relaxed);
  return nullptr;
}

RingHeader* Recorder::ThreadRing() {
  if (t_writer.has_none) return nullptr;
  RingHeader* ring = NewRing();
  if (ring == nullptr) ring = EndedRing();
  if (ring == nullptr) {
    t_writer.has_none = true;
    return nullptr;
  }
  ring->tid = static_cast<uint32_t>(syscall(SYS_gettid));
  pthread_getname_np(pthread_self(), ring->thread_name,
                     sizeof ring->thread_name);
  t_writer = {ring, 0, false, 0};
  pthread_setspecific(thread_end_, this);
  return ring;
}

void Recorder::Write(const Record& record) {
  RingHeader* ring = t_writer.ring;
  if (__builtin_expect(ring == nullptr, 0)) {
    ring = ThreadRing();
    if (ring == nullptr) {
      CountWithoutRing();
      return;
    }
  }
  RecordsOf(ring)[t_writer.written % header_->ring_records] = record;
  ring->written.store(++t_writer.written, std::memory_order_release);
}

uint8_t Recorder::AddBackend(const char* name) {
  const uint32_t index = header_->backend_count.fetch_add(1);
  if (index >= kMaxBackends) {
    header_->backend_count.store(kMaxBackends);
    return kMaxBackends - 1;
  }
  std::strncpy(header_->backends[index], name,
               sizeof header_->backends[index] - 1);
  return static_cast<uint8_t>(index);
}

void Recorder::Push(RingHeader* ring, const Record& record) {
  if (ring == nullptr) {
    CountWithoutRing();
    return;
  }
  const uint64_t written = ring->written.load(std::memory_order_relaxed);
  RecordsOf(ring)[written % header_->ring_records] = record;
  ring->written.store(written + 1, std::memory_order_release);
}

uint32_t Recorder::StaticName(const char* text) {
  if (text == nullptr) return 0;
  CachedName& cached =
      t_names[(reinterpret_cast<uintptr_t>(text) >> 3) % kCached];
  if (cached.text != text) cached = {text, Name(text)};
  return cached.name;
}

uint32_t Recorder::Name(const char* text) {
  if (text == nullptr || *text == '\0') return 0;
  const std::lock_guard<std::mutex> lock(names_mutex_);
  const auto [found, is_new] = names_.try_emplace(text, 0);
  if (!is_new) return found->second;
  const uint64_t size = found->first.size() + 1;
  const uint64_t used = header_->names_used.load(std::memory_order_relaxed);
  if (size > header_->names_size - used) return 0;  // full: no name is kept
  std::memcpy(reinterpret_cast<char*>(header_) + header_->names_offset + used,
              found->first.c_str(), size);
  header_->names_used.store(used + size, std::memory_order_release);
  found->second = static_cast<uint32_t>(used + 1);
  return found->second;
}

}  // namespace devrt::trace
