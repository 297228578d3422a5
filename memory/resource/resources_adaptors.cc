// SPDX-License-Identifier: Apache-2.0
//
// The adaptors of devrt/memory/resources.h.

#include <atomic>
#include <exception>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "devrt/memory/resources.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/common/thread_end.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/process_state.h"

namespace devrt {
namespace {

using internal::Hex;

std::string Text(StreamRef stream) {
  std::ostringstream text;
  text << stream;
  return text.str();
}

MemoryProperties AdaptedProperties(const MemoryResource& upstream,
                                   const char* name) {
  MemoryProperties p = upstream.properties();
  p.name = absl::StrCat(name, "(", p.name, ")");
  return p;
}

// Forwards every call to its upstream.  The properties of a resource do not
// change.
template <typename Base>
class Adaptor : public Base {
 public:
  Adaptor(std::shared_ptr<MemoryResource> upstream, const char* name)
      : Base(upstream->device()),
        upstream_(std::move(upstream)),
        properties_(AdaptedProperties(*upstream_, name)) {}

  MemoryProperties properties() const override { return properties_; }

 protected:
  MemoryResource& upstream() const { return *upstream_; }
  absl::StatusOr<void*> Forward(const MemoryRequest& r) {
    return upstream_->Allocate(r.stream, r.bytes, r.alignment, r.site);
  }
  absl::Status Forward(const MemoryReturn& r) {
    return upstream_->Deallocate(r.stream, r.pointer, r.bytes, r.site);
  }

  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    return Forward(r);
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    return Forward(r);
  }
  absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                           CallSite site) override {
    return upstream_->RecordUse(pointer, stream, site);
  }
  absl::Status DoTrim() override { return upstream_->Trim(); }

  const std::shared_ptr<MemoryResource> upstream_;
  MemoryProperties properties_;
};

// ---- Logging ----------------------------------------------------------------

class Logging final : public Adaptor<MemoryResource> {
 public:
  Logging(std::shared_ptr<MemoryResource> upstream, MemorySink sink)
      : Adaptor(std::move(upstream), "logging"), sink_(std::move(sink)) {}

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    absl::StatusOr<void*> made = Forward(r);
    // Frees the block if the sink ends the thread.
    absl::Cleanup give_back = [&] {
      if (!made.ok()) return;
      upstream().Deallocate(r.stream, *made, r.bytes, r.site).IgnoreError();
    };
    Write(absl::StrCat("allocate ", r.bytes, " bytes on ", Text(r.stream), ": ",
                       made.ok() ? Hex(*made) : StatusText(made.status())));
    std::move(give_back).Cancel();
    return made;
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    absl::Status status = Forward(r);
    Write(absl::StrCat("deallocate ", r.bytes, " bytes at ", Hex(r.pointer),
                       " on ", Text(r.stream), ": ", StatusText(status)));
    return status;
  }
  absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                           CallSite site) override {
    absl::Status status = upstream().RecordUse(pointer, stream, site);
    Write(absl::StrCat("record use of ", Hex(pointer), " on ", Text(stream),
                       ": ", StatusText(status)));
    return status;
  }
  absl::Status DoTrim() override {
    absl::Status status = upstream().Trim();
    Write(absl::StrCat("trim: ", StatusText(status)));
    return status;
  }

  // The sink may throw, and the caller must get the block all the same.
  void Write(const std::string& line) const {
    const std::string named = absl::StrCat(properties_.name, ": ", line);
    if (sink_ == nullptr) {
      DEVRT_LOG(kInfo, named);
      return;
    }
    try {
      sink_(named);
    } catch (...) {
      internal::PassThreadEnd();
      DEVRT_LOG(kWarning,
                absl::StrCat("the sink of resource \"", properties_.name,
                             "\" threw an exception at: ", line));
    }
  }

  const MemorySink sink_;
};

// ---- Statistics -------------------------------------------------------------

class Counting final : public Adaptor<StatisticsResource> {
 public:
  explicit Counting(std::shared_ptr<MemoryResource> upstream)
      : Adaptor(std::move(upstream), "statistics") {
    properties_.has_statistics = true;
  }

  Stat allocations() const override {
    if (internal::IsForkedChild()) return {};
    MutexLock lock(&mutex_);
    return allocations_;
  }
  Stat bytes() const override {
    if (internal::IsForkedChild()) return {};
    MutexLock lock(&mutex_);
    return bytes_;
  }
  uint64_t failures() const override {
    if (internal::IsForkedChild()) return 0;
    MutexLock lock(&mutex_);
    return failures_;
  }

 private:
  static void Increase(Stat* stat, int64_t by) {
    stat->current += by;
    stat->allocated += by;
    if (stat->current > stat->peak) stat->peak = stat->current;
  }
  static void Decrease(Stat* stat, int64_t by) {
    stat->current -= by;
    stat->freed += by;
  }

  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    absl::StatusOr<void*> made = Forward(r);
    MutexLock lock(&mutex_);
    if (made.ok()) {
      Increase(&allocations_, 1);
      Increase(&bytes_, static_cast<int64_t>(r.bytes));
    } else {
      ++failures_;
    }
    return made;
  }
  // Count before the free: another thread may get the memory at once.
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    {
      MutexLock lock(&mutex_);
      Decrease(&allocations_, 1);
      Decrease(&bytes_, static_cast<int64_t>(r.bytes));
    }
    return Forward(r);
  }

  mutable Mutex mutex_;
  Stat allocations_ DEVRT_GUARDED_BY(mutex_);
  Stat bytes_ DEVRT_GUARDED_BY(mutex_);
  uint64_t failures_ DEVRT_GUARDED_BY(mutex_) = 0;
};

// ---- Limit ------------------------------------------------------------------

class Limit final : public Adaptor<MemoryResource> {
 public:
  Limit(std::shared_ptr<MemoryResource> upstream, uint64_t bytes)
      : Adaptor(std::move(upstream), "limit"), limit_(bytes) {}

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (r.bytes > limit_ - used) return Refuse(r, used);
    } while (!used_.compare_exchange_weak(used, used + r.bytes));
    absl::StatusOr<void*> made = Forward(r);
    if (!made.ok()) used_.fetch_sub(r.bytes);
    return made;
  }
  // Subtract behind the free, so that the limit is never exceeded.
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    absl::Status status = Forward(r);
    used_.fetch_sub(r.bytes);
    return status;
  }

  absl::Status Refuse(const MemoryRequest& r, uint64_t used) const {
    OutOfMemoryInfo info;
    info.requested = r.bytes;
    return internal::OutOfMemoryError(
        device().record(), info,
        absl::ResourceExhaustedError(
            absl::StrCat("Resource \"", properties_.name, "\" may hand out ",
                         limit_, " bytes, of which ", used, " are in use.")));
  }

  const uint64_t limit_;
  std::atomic<uint64_t> used_{0};  // at most limit_
};

// ---- Failures on purpose ----------------------------------------------------

class Failing final : public Adaptor<MemoryResource> {
 public:
  Failing(std::shared_ptr<MemoryResource> upstream,
          const FailureInjection& when)
      : Adaptor(std::move(upstream), "failure"), when_(when) {}

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    const uint64_t number = 1 + count_.fetch_add(1);
    const char* why = Reason(number, r.bytes);
    if (why == nullptr) return Forward(r);
    const std::string text =
        absl::StrCat("Allocation ", number, " of resource \"", properties_.name,
                     "\" fails because it was told to (", why, ").");
    if (when_.code != absl::StatusCode::kResourceExhausted) {
      return absl::Status(when_.code, text);
    }
    OutOfMemoryInfo info;
    info.requested = r.bytes;
    return internal::OutOfMemoryError(device().record(), info,
                                      absl::ResourceExhaustedError(text));
  }

  // The reason why the allocation fails; nullptr if it does not.
  const char* Reason(uint64_t number, uint64_t bytes) const {
    if (number == when_.fail_at) return "fail_at";
    if (when_.fail_every != 0 && number % when_.fail_every == 0) {
      return "fail_every";
    }
    if (when_.fail_above != 0 && bytes > when_.fail_above) return "fail_above";
    if (Fraction(number) < when_.probability) return "probability";
    return nullptr;
  }

  // A number in [0, 1) that depends on `number` and the seed alone.
  double Fraction(uint64_t number) const {
    uint64_t x = when_.seed * 0x9E3779B97F4A7C15 + number;  // splitmix64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
  }

  const FailureInjection when_;
  std::atomic<uint64_t> count_{0};
};

// ---- One call at a time -----------------------------------------------------

// The only lock of devrt that is held while a resource is called.  An upstream
// that is safe for threads is called without it.  The thread that holds the
// lock may come in again: an out-of-memory callback may free through this
// resource.
class ThreadSafe final : public Adaptor<MemoryResource> {
 public:
  explicit ThreadSafe(std::shared_ptr<MemoryResource> upstream)
      : Adaptor(std::move(upstream), "thread_safe"),
        locks_(!properties_.thread_safe) {
    properties_.thread_safe = true;
  }

 private:
  template <typename F>
  std::invoke_result_t<F> WithLock(F f) DEVRT_EXCLUDES(mutex_) {
    const std::thread::id self = std::this_thread::get_id();
    // Only this thread stores its own id there.
    if (!locks_ || inside_.load(std::memory_order_relaxed) == self) return f();
    MutexLock lock(&mutex_);
    inside_.store(self, std::memory_order_relaxed);
    const absl::Cleanup leave = [this] {
      inside_.store(std::thread::id(), std::memory_order_relaxed);
    };
    return f();
  }

  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    return WithLock([&] { return Forward(r); });
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    return WithLock([&] { return Forward(r); });
  }
  absl::Status DoRecordUse(const void* pointer, StreamRef stream,
                           CallSite site) override {
    return WithLock(
        [&] { return upstream().RecordUse(pointer, stream, site); });
  }
  absl::Status DoTrim() override {
    return WithLock([&] { return upstream().Trim(); });
  }

  const bool locks_;
  Mutex mutex_;
  std::atomic<std::thread::id> inside_{};
};

}  // namespace

std::shared_ptr<MemoryResource> LoggingResource(
    std::shared_ptr<MemoryResource> upstream, MemorySink sink) {
  if (upstream == nullptr) return nullptr;
  return std::make_shared<Logging>(std::move(upstream), std::move(sink));
}

// Here, so that the library has the vtable.
StatisticsResource::~StatisticsResource() = default;

std::shared_ptr<StatisticsResource> StatisticsResource::Make(
    std::shared_ptr<MemoryResource> upstream) {
  if (upstream == nullptr) return nullptr;
  return std::make_shared<Counting>(std::move(upstream));
}

std::shared_ptr<MemoryResource> LimitResource(
    std::shared_ptr<MemoryResource> upstream, uint64_t bytes) {
  if (upstream == nullptr) return nullptr;
  return std::make_shared<Limit>(std::move(upstream), bytes);
}

std::shared_ptr<MemoryResource> FailureResource(
    std::shared_ptr<MemoryResource> upstream, const FailureInjection& when) {
  if (upstream == nullptr) return nullptr;
  return std::make_shared<Failing>(std::move(upstream), when);
}

std::shared_ptr<MemoryResource> ThreadSafeResource(
    std::shared_ptr<MemoryResource> upstream) {
  if (upstream == nullptr) return nullptr;
  return std::make_shared<ThreadSafe>(std::move(upstream));
}

}  // namespace devrt
