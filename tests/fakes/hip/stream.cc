// SPDX-License-Identifier: Apache-2.0
//
// Streams and callbacks, and what the legacy stream's rules cover.
#include <map>
#include <memory>

#include "tests/fakes/hip/driver.h"
#include "tests/fakes/hip/stale.h"

namespace devrt::fake {
namespace {

hipError_t NewEvent(int device, devrt_event* event) {
  return Sim<&devrt_ops_v0::event_create>(SimOf(device), 0u, event);
}

// With c9_missing_waits, for what takes part in the legacy stream's rules.
hipError_t AddBare(ihipStream_t* stream) {
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  const devrt_stream_desc_v0* const given = &desc;
  hipError_t error = Sim<&devrt_ops_v0::stream_create>(SimOf(stream->device),
                                                       given, &stream->bare);
  if (error == hipSuccess) error = NewEvent(stream->device, &stream->ahead);
  if (error == hipSuccess) error = NewEvent(stream->device, &stream->work);
  return error;
}

// The streams that the legacy stream of each device covers, if c9_missing_waits
// is on.
class Covered {
 public:
  void Add(ihipStream_t* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(stream);
  }
  void Remove(const ihipStream_t* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i] != stream) continue;
      streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
      return;
    }
  }
  // `bare` waits for the work of all of that device's.
  hipError_t WaitForWork(int device, devrt_stream bare) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const ihipStream_t* const stream : streams_) {
      if (stream->device != device) continue;
      const hipError_t error =
          Sim<&devrt_ops_v0::stream_wait_event>(bare, stream->work);
      if (error != hipSuccess) return error;
    }
    return hipSuccess;
  }

 private:
  std::mutex mutex_;
  std::vector<ihipStream_t*> streams_;
};

Covered& TheCovered() {
  static auto* const covered = new Covered();
  return *covered;
}

hipError_t MakeDefault(int device, uint32_t kind, ihipStream_t* stream) {
  stream->device = device;
  hipError_t error = static_cast<hipError_t>(
      engine::DefaultStream(SimOf(device), kind, &stream->sim));
  if (error != hipSuccess || !Has(kC9MissingWaits)) return error;
  error = AddBare(stream);
  if (error == hipSuccess) TheCovered().Add(stream);
  return error;
}

// Kept for ever: its work outlives the thread.
hipError_t Ensure(int device, uint32_t kind, ihipStream_t** mine) {
  static auto* const mutex = new std::mutex();
  static auto* const all = new std::vector<std::unique_ptr<ihipStream_t>>();
  if (*mine != nullptr) return hipSuccess;
  auto made = std::make_unique<ihipStream_t>();
  const hipError_t error = MakeDefault(device, kind, made.get());
  if (error != hipSuccess) return error;
  *mine = made.get();
  const std::lock_guard<std::mutex> lock(*mutex);
  all->push_back(std::move(made));
  return error;
}

hipError_t LegacyOf(int device, ihipStream_t** stream) {
  static auto* const mutex = new std::mutex();
  static auto* const streams = new std::map<int, ihipStream_t*>();
  const std::lock_guard<std::mutex> lock(*mutex);
  const hipError_t error =
      Ensure(device, DEVRT_STREAM_LEGACY, &(*streams)[device]);
  *stream = (*streams)[device];
  return error;
}

hipError_t PerThreadOf(int device, ihipStream_t** stream) {
  thread_local std::map<int, ihipStream_t*> streams;
  const hipError_t error =
      Ensure(device, DEVRT_STREAM_PER_THREAD, &streams[device]);
  *stream = streams[device];
  return error;
}

bool IsDefault(hipStream_t stream) {
  return stream == nullptr || stream == hipStreamPerThread;
}

// An entry point about a stream.
template <typename Body>
hipError_t CallOn(const char* name, hipStream_t stream, unsigned rules,
                  const Body& body) {
  return Call(name, rules, [&] {
    Target target;
    const hipError_t error = Resolve(name, stream, &target);
    return error == hipSuccess ? body(target) : error;
  });
}

}  // namespace

hipError_t Resolve(const char* call, hipStream_t stream, Target* target) {
  if (IsDefault(stream)) {
    target->is_legacy = stream == nullptr;
    const int device = UseCurrentDevice();
    const hipError_t error = target->is_legacy
                                 ? LegacyOf(device, &target->own)
                                 : PerThreadOf(device, &target->own);
    if (error != hipSuccess) return error;
  } else {
    Streams().Check(stream, call, "stream");
    target->own = stream;
  }
  target->device = target->own->device;
  target->sim_device = SimOf(target->device);
  target->sim = target->own->sim;
  target->modules =
      reinterpret_cast<const void*>(static_cast<uintptr_t>(target->device) + 1);
  return hipSuccess;
}

// ---- Waits that are missing -------------------------------------------------
//
// A wait goes to a simulated stream beside, which takes no part in the legacy
// stream's rules; the next work of the stream itself waits for that one, and it
// for all work.  A record is made there.

Submission::Submission(const Target& target) : target_(target) {
  ihipStream_t* const own = target.own;
  if (own->bare == nullptr) return;
  lock_ = std::unique_lock<std::mutex>(own->mutex);
  (void)Sim<&devrt_ops_v0::event_record>(own->ahead, own->bare);
  (void)Sim<&devrt_ops_v0::stream_wait_event>(own->sim, own->ahead);
}

hipError_t Submission::End(hipError_t error) {
  const ihipStream_t* const own = target_.own;
  if (own->bare == nullptr || error != hipSuccess) return error;
  error = Sim<&devrt_ops_v0::event_record>(own->work, own->sim);
  if (error != hipSuccess) return error;
  return Sim<&devrt_ops_v0::stream_wait_event>(own->bare, own->work);
}

hipError_t BareOf(const Target& target, Bare use, devrt_stream* bare) {
  *bare = target.sim;
  if (target.own->bare == nullptr) return hipSuccess;
  *bare = target.own->bare;
  if (use == Bare::kWait) return hipSuccess;
  // A record comes behind the work of the other side, as everywhere; the end of
  // the legacy stream is that of the others, too.
  if (target.is_legacy) return TheCovered().WaitForWork(target.device, *bare);
  if (use == Bare::kEnd) return hipSuccess;
  ihipStream_t* legacy = nullptr;
  const hipError_t error = LegacyOf(target.device, &legacy);
  return error != hipSuccess
             ? error
             : Sim<&devrt_ops_v0::stream_wait_event>(*bare, legacy->work);
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

// ---- Streams ----------------------------------------------------------------

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags,
                                       int priority) {
  return Call("hipStreamCreateWithPriority", kDeviceCall, [&] {
    if (flags != hipStreamDefault && flags != hipStreamNonBlocking) {
      return hipErrorInvalidValue;
    }
    auto made = std::make_unique<ihipStream_t>();
    made->device = UseCurrentDevice();
    made->flags = flags;
    made->priority = priority;
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = DEVRT_STREAM_CREATE;
    desc.flags = flags == hipStreamDefault ? DEVRT_STREAM_BLOCKING : 0;
    desc.priority = priority;
    const devrt_stream_desc_v0* const given = &desc;
    hipError_t error = Sim<&devrt_ops_v0::stream_create>(SimOf(made->device),
                                                         given, &made->sim);
    if (error != hipSuccess) return error;
    if (Has(kC9MissingWaits) && flags == hipStreamDefault) {
      error = AddBare(made.get());
      if (error != hipSuccess) return error;
      TheCovered().Add(made.get());
    }
    *stream = made.release();
    Streams().Add(*stream);
    return hipSuccess;
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return Call("hipStreamDestroy", kDeviceCall, [&] {
    if (IsDefault(stream)) return hipErrorInvalidHandle;
    Streams().Check(stream, "hipStreamDestroy", "stream");
    uint32_t done = 1;
    if (Has(kC17DropsWork)) {
      (void)Sim<&devrt_ops_v0::stream_query>(stream->sim, &done);
    }
    if (done == 0) {
      Die("hipStreamDestroy: %p has work left, which HIP may drop",
          static_cast<void*>(stream));
    }
    Streams().Remove(stream);
    const std::unique_ptr<ihipStream_t> gone(stream);
    if (gone->bare != nullptr) {
      TheCovered().Remove(stream);
      (void)Sim<&devrt_ops_v0::event_destroy>(gone->ahead);
      (void)Sim<&devrt_ops_v0::event_destroy>(gone->work);
      (void)Sim<&devrt_ops_v0::stream_destroy>(gone->bare);
    }
    return Sim<&devrt_ops_v0::stream_destroy>(gone->sim);
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return CallOn("hipStreamQuery", stream, kInCallback, [](const Target& t) {
    devrt_stream bare = nullptr;
    hipError_t error = BareOf(t, Bare::kEnd, &bare);
    uint32_t done = 0;
    if (error == hipSuccess) {
      error = Sim<&devrt_ops_v0::stream_query>(bare, &done);
    }
    if (error != hipSuccess) return error;
    return done != 0 ? hipSuccess : hipErrorNotReady;
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return CallOn("hipStreamSynchronize", stream, kDeviceCall,
                [](const Target& t) {
                  devrt_stream bare = nullptr;
                  hipError_t error = BareOf(t, Bare::kEnd, &bare);
                  if (error == hipSuccess) {
                    error = Sim<&devrt_ops_v0::stream_sync>(bare);
                  }
                  if (error == hipSuccess) ShowWrites();
                  return error;
                });
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
  return CallOn("hipStreamGetFlags", stream, kDeviceCall,
                [&](const Target& target) {
                  *flags = target.own->flags;
                  return hipSuccess;
                });
}

hipError_t hipStreamGetPriority(hipStream_t stream, int* priority) {
  return CallOn(
      "hipStreamGetPriority", stream, kDeviceCall, [&](const Target& target) {
        const auto props = engine::PropsOf(target.sim_device);
        const int asked = target.own->priority;
        *priority = asked > props.priority_least      ? props.priority_least
                    : asked < props.priority_greatest ? props.priority_greatest
                                                      : asked;
        return hipSuccess;
      });
}

int hipGetStreamDeviceId(hipStream_t stream) {
  if (IsDefault(stream)) return CurrentDevice();
  Streams().Check(stream, "hipGetStreamDeviceId", "stream");
  return stream->device;
}

hipError_t hipStreamAddCallback(hipStream_t stream,
                                hipStreamCallback_t callback, void* user_data,
                                unsigned flags) {
  return CallOn(
      "hipStreamAddCallback", stream, kDeviceCall, [&](const Target& target) {
        if (flags != 0 || callback == nullptr) return hipErrorInvalidValue;
        struct Closure {
          hipStream_t stream;
          hipStreamCallback_t callback;
          void* user_data;
        };
        auto closure =
            std::make_unique<Closure>(Closure{stream, callback, user_data});
        void (*const run)(void*, devrt_status) = [](void* arg,
                                                    devrt_status status) {
          const std::unique_ptr<Closure> c(static_cast<Closure*>(arg));
          const auto code = static_cast<hipError_t>(engine::Translate(status));
          const CallbackScope inside;
          c->callback(c->stream, code, c->user_data);
        };
        const hipError_t error = Submit(target, [&] {
          const hipError_t given = Sim<&devrt_ops_v0::host_func>(
              target.sim, run, static_cast<void*>(closure.get()));
          if (given == hipSuccess) closure.release();
          return given;
        });
        return error;
      });
}
