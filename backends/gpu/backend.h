// SPDX-License-Identifier: Apache-2.0
//
// A backend over a vendor's driver, as a template: what differs between vendors
// is the Api (backends/cuda/api.h says what one has), and nothing here asks
// which vendor it is.
//
// The members are defined in device.h memory.h stream.h ending.h records.h
// legacy_edges.h event.h copy.h kernels.h probe.h elementwise.h reduce.h; a
// plugin includes all of them and instantiates Backend<Api> once.
//
// Threads: every slot from any thread, as its tag says.  No lock that other
// objects' calls need is held across a native call that may wait, but for a
// device's first kernel (kernels.h), and where Api asks for edges of the legacy
// rules (legacy_edges.h).

#ifndef DEVRT_BACKENDS_GPU_BACKEND_H_
#define DEVRT_BACKENDS_GPU_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "backends/gpu/fresh_events.h"
#include "backends/gpu/queue_window.h"
#include "backends/gpu/tensor_args.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

namespace devrt::gpu {

// A device's kernels, compiled; the plugin's.
struct KernelImage {
  const void* data = nullptr;  // a fat binary; nullptr: there is none
};

template <class Api>
class Backend {
 public:
  static constexpr uint64_t kCapabilities =
      DEVRT_CAP_EVENT_TIMING | DEVRT_CAP_EVENT_IPC | DEVRT_CAP_HOST_FUNC |
      DEVRT_CAP_STREAM_PRIORITY | DEVRT_CAP_STREAM_EXTERNAL |
      DEVRT_CAP_PINNED_HOST | DEVRT_CAP_HOST_REGISTER | DEVRT_CAP_POINTER_INFO |
      DEVRT_CAP_PEER_COPY | DEVRT_CAP_PEER_ACCESS |
      (Api::kHasPools ? DEVRT_CAP_ASYNC_ALLOC : 0);

  // Loads the driver and counts devices; initialises nothing else.
  static std::unique_ptr<Backend> Open(const devrt_host_v0* host,
                                       devrt_status* error,
                                       uint64_t* capabilities);
  ~Backend();

  devrt_status device_count(uint32_t* count);
  devrt_status device_props(uint32_t device, devrt_device_props_v0* props);
  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes);
  devrt_status device_sync(uint32_t device);
  devrt_status context_enter(uint32_t device, devrt_context* previous);
  devrt_status context_exit(const devrt_context* previous);
  devrt_status context_current(uint32_t* device);

  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr);
  devrt_status dealloc(uint32_t device, void* ptr, uint64_t size);
  devrt_status alloc_async(devrt_stream stream, uint64_t size,
                           uint64_t alignment, void** ptr);
  devrt_status dealloc_async(devrt_stream stream, void* ptr, uint64_t size);
  devrt_status host_alloc(uint32_t device, uint64_t size, uint64_t alignment,
                          void** ptr);
  devrt_status host_dealloc(void* ptr, uint64_t size);
  devrt_status host_register(uint32_t device, void* ptr, uint64_t size);
  devrt_status host_unregister(void* ptr);
  devrt_status pointer_info(const void* ptr, devrt_pointer_info_v0* info);

  devrt_status stream_create(uint32_t device, const devrt_stream_desc_v0* desc,
                             devrt_stream* stream);
  devrt_status stream_destroy(devrt_stream stream);
  devrt_status stream_query(devrt_stream stream, uint32_t* done);
  devrt_status stream_sync(devrt_stream stream);
  devrt_status stream_native(devrt_stream stream, void** native);
  // Where Api::kHasCaptures: devrt.capture/0.
  devrt_status StreamIsCapturing(devrt_stream stream, uint32_t* yes);
  devrt_status StreamCaptureId(devrt_stream stream, uint64_t* id);
  devrt_status CaptureRetain(devrt_stream stream, void (*release)(void* arg),
                             void* arg);
  devrt_status ExchangeThreadMode(uint32_t* mode);
  const devrt_capture_v0* CaptureTable() const;
  devrt_status stream_wait_event(devrt_stream stream, devrt_event event);
  devrt_status host_func(devrt_stream stream,
                         void (*fn)(void* arg, devrt_status error), void* arg);

  devrt_status event_create(uint32_t device, uint32_t flags,
                            devrt_event* event);
  devrt_status event_destroy(devrt_event event);
  devrt_status event_record(devrt_event event, devrt_stream stream);
  devrt_status event_query(devrt_event event, uint32_t* done);
  devrt_status event_sync(devrt_event event);
  devrt_status event_elapsed_ns(devrt_event begin, devrt_event end,
                                int64_t* nanoseconds);
  devrt_status event_native(devrt_event event, void** native);

  devrt_status copy_async(devrt_stream stream, void* dst, const void* src,
                          uint64_t size, uint32_t kind);
  devrt_status fill_async(devrt_stream stream, void* dst, uint32_t value,
                          uint64_t size);
  devrt_status copy_peer_async(devrt_stream stream, void* dst,
                               uint32_t dst_device, const void* src,
                               uint32_t src_device, uint64_t size);
  devrt_status peer_can_access(uint32_t device, uint32_t peer, uint32_t* can);
  devrt_status peer_enable(uint32_t device, uint32_t peer);
  devrt_status peer_disable(uint32_t device, uint32_t peer);

  const void* get_extension(const char* name);

 private:
  using Error = typename Api::Error;
  using Context = typename Api::Context;

  struct Stream;
  // Of a device's legacy rules (legacy_edges.h).
  struct BareWork {
    uint64_t count = 0;
    uint64_t joined = 0;         // of these, by the legacy stream
    uint64_t legacy_joined = 0;  // of the legacy stream's, by this one
    typename Api::Event event{};
    bool is_behind_it = false;  // the event is
  };
  struct LegacyEdges {
    std::mutex mutex;  // guards what follows, and BareWork of the streams
    std::vector<Stream*> blocking;
    BareWork legacy;
    std::vector<typename Api::Event> left;  // behind that of destroyed streams
  };
  struct Device {
    uint32_t ordinal = 0;
    typename Api::Device native{};
    std::atomic<Context> context{};  // retained once somebody names it
    std::atomic<uint64_t> context_id{0};
    std::mutex mutex;  // guards the next two
    devrt_device_props_v0 props{};
    bool has_props = false;
    std::mutex kernels_mutex;  // held while the kernels are tried out
    struct Probe {
      typename Api::Function spin{}, wait{}, set{}, fault{};
    } probe;
    std::atomic<bool> has_kernels{false};
    struct Tensors {
      typename Api::Function fill{}, convert{};
      typename Api::Function apply[kKernelDtypeCount] = {};
      typename Api::Function rows[kKernelDtypeCount] = {};
      typename Api::Function cast[kCastDtypeCount] = {};
      typename Api::Function tiles[kTileKernelCount] = {};
      struct Reductions {
        typename Api::Function claim{};
        typename Api::Function run[kKernelDtypeCount] = {};
      } reduce, columns;
    } tensors;
    std::atomic<bool> has_tensors{false};
    LegacyEdges edges;
    std::atomic<typename Api::Pool> pool{};  // of devrt's own (pool.h)
  };
  struct Stream {
    Device* device;
    typename Api::Stream native;
    uint32_t kind;
    bool blocking;
    // Of a per-thread stream: whose it is, and whether that thread has ended.
    std::thread::id thread;
    std::shared_ptr<std::atomic<bool>> ended;
    Context context;  // it was made in
    uint64_t context_id;
    // Records on a blocking stream, which its query may not see (C19).
    std::atomic<uint64_t> records{0};
    std::atomic<uint64_t> records_complete{0};
    // Where the Api needs fresh events.
    std::shared_ptr<RecordClock> clock = Api::kPendingRecordsAreFixed
                                             ? std::make_shared<RecordClock>()
                                             : nullptr;
    std::mutex marker_mutex;  // guards what follows
    typename Api::Event marker{};
    bool marker_pending = false;
    uint64_t marked_records = 0;               // the marker is behind these
    FreshEvents<Api> markers;                  // other than `marker`
    std::atomic<typename Api::Event> fence{};  // of Fence
    QueueWindow<Api> window;
    BareWork bare;
  };
  struct Event {
    Device* device;
    uint32_t flags;
    std::mutex mutex;  // held while the native event is made or exchanged
    std::atomic<typename Api::Event> native{};
    FreshEvents<Api> others;         // earlier native events of it
    std::atomic<Context> context{};  // of the native event
    std::atomic<uint64_t> context_id{0};
    // Of streams of other contexts that it was recorded on.
    struct Left {
      Context context;
      uint64_t context_id;
      typename Api::Event native;
      FreshEvents<Api> others;
    };
    std::vector<Left> left;
    // How often it was recorded, and which of these is known to be complete:
    // asking a finished event is the driver's most expensive answer.
    std::atomic<uint64_t> records{0};
    std::atomic<uint64_t> complete{0};
    std::atomic<bool> shared{false};  // with another process: it may record
  };
  struct Flag {
    Device* device;
    volatile uint32_t* word;  // pinned
  };

  // The thread's context is `context` until the scope's end, on every path.
  class ContextScope {
   public:
    ContextScope(const Api& api, Context context) : api_(api) {
      error_ = api_.Current(&previous_);
      if (error_ != Api::kSuccess || previous_ == context) return;
      error_ = api_.SetCurrent(context);
      switched_ = error_ == Api::kSuccess;
    }
    ~ContextScope() {
      if (switched_) (void)api_.SetCurrent(previous_);
    }
    ContextScope(const ContextScope&) = delete;
    Error error() const { return error_; }

   private:
    const Api& api_;
    Context previous_{};
    Error error_;
    bool switched_ = false;
  };

  explicit Backend(const devrt_host_v0* host, std::unique_ptr<Api> api,
                   uint32_t count)
      : host_(host), api_(std::move(api)), count_(count), devices_(count) {
    for (uint32_t i = 0; i < count; ++i) devices_[i].ordinal = i;
  }

  static Stream* Of(devrt_stream s) { return reinterpret_cast<Stream*>(s); }
  static Event* Of(devrt_event e) { return reinterpret_cast<Event*>(e); }
  static Flag* Of(devrt_flag f) { return reinterpret_cast<Flag*>(f); }

  // ---- errors.cc's part of the template, in device.h
  devrt_status Refuse(devrt_code code, const char* format, ...)
      __attribute__((format(printf, 3, 4)));
  // nullptr for success; `device` is at fault if it is known.
  devrt_status Take(Error error, const char* entry_point,
                    const Device* device = nullptr);
  // Of what is given up: an earlier fault is not its to report (C94).
  devrt_status TakeEnd(Error error, const char* entry_point,
                       const Device* device = nullptr);
  // The fault that has ended the process's devices, for calls that need not
  // ask the driver.
  devrt_status Fault(const char* entry_point, const Device* device) {
    const Error fault = fault_.load(std::memory_order_relaxed);
    return fault == Api::kSuccess ? nullptr : Take(fault, entry_point, device);
  }
  bool ComesAgain(Error native, const Device* device);
  devrt_status Find(uint32_t ordinal, Device** device);
  // Names it: makes its primary context if there is none.
  devrt_status Enter(Device* device, Context* context);
  // An error where another library has reset the device, or destroyed a context
  // of its own: what was made there is gone, and using it may crash the driver.
  // The context itself may have been made again, at the same address.
  Error CheckAlive(Context context, uint64_t id) const {
    uint64_t now = 0;
    const Error error = api_->ContextId(context, &now);
    // Inside of a host function it cannot be asked.
    if (error == Api::kNotPermitted) return Api::kSuccess;
    if (error != Api::kSuccess) return error;
    return __builtin_expect(now == id, 1) ? error : Api::kContextIsDestroyed;
  }
  template <typename Object>
  Error CheckAlive(const Object& object) const {
    return CheckAlive(object.context, object.context_id);
  }
  // Initialises the driver; again and again, until it succeeds.
  devrt_status Ready() {
    if (is_ready_.load(std::memory_order_acquire)) return nullptr;
    return Init();
  }
  devrt_status Init();

  // Default streams are meant by the current context.
  template <typename Call>
  Error InContext(const Stream& stream, Call call) {
    if (stream.kind != DEVRT_STREAM_LEGACY &&
        stream.kind != DEVRT_STREAM_PER_THREAD) {
      return call();
    }
    return WithContext(stream, call);
  }
  template <typename Call>
  Error WithContext(const Stream& stream, Call call) {
    const ContextScope scope(*api_, stream.context);
    return scope.error() != Api::kSuccess ? scope.error() : call();
  }
  // Mapped memory, also of others in the process, is looked up in the current
  // context, whichever the stream's is (decision 10).
  template <typename Call>
  Error CopyAnywhere(const Stream& stream, Call call) {
    const Error error = call();
    if (!Api::kHasVirtualMemory || error != Api::kInvalidValue) return error;
    return WithContext(stream, call);
  }
  // A question.
  template <typename Call>
  Error On(const Stream& stream, Call call) {
    const Error error = CheckAlive(stream);
    return error != Api::kSuccess ? error : InContext(stream, call);
  }
  // An operation: with some vendors it has to find its stream's device current
  // (C15, C16), and to come behind bare work of the legacy rules (C9).
  template <typename Call>
  Error Enqueue(Stream* stream, Call call) {
    Error error = CheckAlive(*stream);
    if (error == Api::kSuccess) error = JoinLegacy(stream);
    if (error != Api::kSuccess) return error;
    if constexpr (Api::kRunsOnCurrentDevice) return WithContext(*stream, call);
    return InContext(*stream, call);
  }
  // An operation on a stream: waits for room in its queue, then submits.
  template <typename Call>
  devrt_status Submit(Stream* stream, const char* entry_point, Call call);
  // A caller's slow way through context_enter, _exit and _current.
  [[gnu::noinline]] devrt_status EnterFirst(uint32_t ordinal,
                                            devrt_context* previous);
  [[gnu::noinline]] devrt_status Switch(Error asked, Device* device,
                                        Context before,
                                        devrt_context* previous);
  [[gnu::noinline]] devrt_status Restore(Error asked, Context before);
  [[gnu::noinline]] devrt_status FindCurrent(Error asked, Context now,
                                             uint32_t* ordinal);
  void* Align(void* memory, uint64_t size, uint64_t alignment);
  template <typename Call>
  Error FreeAligned(void* ptr, Call free);
  devrt_status Adopt(Device* device, void* native, devrt_stream* stream);
  devrt_status DefaultStream(Device* device, uint32_t kind,
                             devrt_stream* stream);
  Stream* OfEndingThread(Device* device);
  Stream* OfEndedThread(Device* device);
  void DestroyEventsOf(Stream* stream);
  Error Renew(FreshEvents<Api>* others, Stream* stream,
              typename Api::Event current, unsigned flags,
              typename Api::Event* event);
  void Renewed(FreshEvents<Api>* others);
  RecordMark LastRecord(Event* event, typename Api::Event* native);
  Error RecordFresh(Event* event, Stream* stream);

  // ---- ending.h
  devrt_status DestroyLater(std::unique_ptr<Stream> stream);
  void DestroyEnded();

  // ---- legacy_edges.h
  void AddBlocking(Stream* stream);
  void RemoveBlocking(Stream* stream);
  Error JoinLegacy(Stream* stream);
  Error RecordBare(Stream* stream, BareWork* bare);
  Error NoteBareWork(Stream* stream);
  Error WaitBare(Stream* stream, typename Api::Event event);
  bool ReadsEarly(const Stream& stream, uint64_t size, uint32_t kind) const;
  Error Fence(Stream* stream);
  static bool HidesRecords(const Stream& stream);
  Error RecordMarker(Stream* stream);
  Error SynchronizeRecords(Stream* stream);
  static void NoteMarkerComplete(Stream* stream);
  Error QueryRecords(Stream* stream);
  devrt_status EnsureEvent(Event* event, Context context, uint64_t id);
  // Whether nothing need be asked.  What others record is not counted here.
  static bool IsKnownComplete(const Event& event, uint64_t records) {
    return event.complete.load(std::memory_order_acquire) == records &&
           !event.shared.load(std::memory_order_acquire);
  }

  // ---- devrt.event_ipc/0, in event.h
  devrt_status EventExport(devrt_event event, devrt_event_handle_v0* name);
  devrt_status EventOpen(uint32_t device, const devrt_event_handle_v0* name,
                         devrt_event* opened);

  // ---- kernels.h
  template <typename Load>
  devrt_status LoadOnce(Device* device, std::atomic<bool>* is_loaded,
                        const Load& load);
  devrt_status LoadKernels(Device* device);
  devrt_status LoadTensors(Device* device);
  Error LoadProbeImage(Device* device);
  Error LoadTensorImages(Device* device);
  Error TryTensorKernels(Device* device);
  template <typename Call>
  Error TryOut(const Call& call);
  devrt_status Launch(Stream* stream, typename Api::Function function,
                      unsigned blocks, unsigned threads, void** arguments);

  // ---- probe.h
  devrt_status LaunchProbe(Stream* stream, typename Api::Function function,
                           void** arguments) {
    return Launch(stream, function, 1, 1, arguments);
  }
  devrt_status ProbeSpin(devrt_stream stream, uint64_t nanoseconds);
  devrt_status FlagCreate(uint32_t device, devrt_flag* flag);
  devrt_status FlagDestroy(devrt_flag flag);
  devrt_status FlagWait(devrt_stream stream, devrt_flag flag, uint64_t timeout);
  devrt_status FlagSet(devrt_flag flag, uint32_t value);
  devrt_status FlagSetAsync(devrt_stream stream, devrt_flag flag,
                            uint32_t value);
  devrt_status ProbeFault(devrt_stream stream, uint32_t form);

  // ---- elementwise.h
  devrt_status ElementwiseSupports(uint32_t op, uint32_t dtype, uint32_t* yes);
  devrt_status ElementwiseFill(devrt_stream stream, const devrt_tensor_v0* out,
                               const void* value);
  devrt_status ElementwiseApply(devrt_stream stream, uint32_t op,
                                const devrt_tensor_v0* out,
                                const devrt_tensor_v0* inputs,
                                uint32_t input_count);

  // ---- reduce.h
  devrt_status ReduceSupports(uint32_t op, uint32_t in_dtype,
                              uint32_t out_dtype, uint32_t* yes);
  devrt_status Reduce(devrt_stream stream, uint32_t op,
                      const devrt_tensor_v0* out, const devrt_tensor_v0* in,
                      uint32_t axes);

  // ---- pool.h, where Api::kHasPools
  devrt_status FindPool(Device* device, typename Api::Pool* pool);
  Error AllowPool(uint32_t device, uint32_t peer, bool allow);
  Error AllowPeer(uint32_t device, uint32_t peer, bool allow,
                  const char** what);
  // Once more where there was no room, without what the pool keeps unused.
  template <typename Call>
  Error WithRoom(const Device& device, Call call) {
    const Error error = call();
    if constexpr (Api::kHasPools) {
      const auto pool = device.pool.load(std::memory_order_acquire);
      if (pool != typename Api::Pool{} &&
          Api::MeaningOf(error).status == DEVRT_RESOURCE_EXHAUSTED &&
          api_->TrimPool(pool) == Api::kSuccess) {
        return call();
      }
    }
    return error;
  }

  // ---- virtual_memory.h, where Api::kHasVirtualMemory
  struct Chunk {
    uint32_t device = 0;
    uint64_t size = 0;
    uint64_t native = 0;
    char* at = nullptr;  // nullptr: mapped nowhere
  };
  struct Reserved {
    uint32_t device;
    uint64_t size;
    uint64_t granularity;
  };
  devrt_status VmFind(uint32_t device, Device** found, uint64_t* granularity);
  devrt_status VmInfo(uint32_t device, devrt_virtual_memory_info_v0* info);
  devrt_status VmReserve(uint32_t device, uint64_t size, uint64_t alignment,
                         void** base);
  devrt_status VmRelease(void* base, uint64_t size);
  devrt_status VmCreate(uint32_t device, uint64_t size, devrt_chunk* chunk);
  devrt_status VmDestroy(devrt_chunk chunk);
  devrt_status VmMap(void* address, uint64_t size, devrt_chunk chunk);
  devrt_status VmUnmap(void* address, uint64_t size);
  devrt_status VmCheckPart(char* at, uint64_t size, uint32_t* device);
  Error AllowMapped(uint32_t device, uint32_t peer, bool allow);
  void DescribeMapped(const void* ptr, devrt_pointer_info_v0* info);
  const void* VirtualMemoryTable();

  const devrt_host_v0* const host_;
  const std::unique_ptr<Api> api_;
  const uint32_t count_;
  std::atomic<Error> fault_{Api::kSuccess};
  std::mutex init_mutex_;
  std::atomic<bool> is_ready_{false};
  std::vector<Device> devices_;  // all that were counted

  std::atomic<uint32_t> last_ticket_{0};  // of reductions in parts

  std::mutex mutex_;  // guards what follows
  struct Span {
    void* ptr;
    uint64_t size;
  };
  std::map<void*, Span> aligned_;  // what was given out, by its allocation
  // Of all allocations that were ever aligned; at first of none.
  std::atomic<uintptr_t> first_aligned_{UINTPTR_MAX};
  std::atomic<uintptr_t> last_aligned_{0};
  std::unordered_map<uint32_t, std::unique_ptr<Stream>> legacy_;
  std::vector<std::unique_ptr<Stream>> per_thread_;
  std::vector<Stream*> foreign_;  // adopted, of other contexts
  struct Ending {
    std::unique_ptr<Stream> stream;
    typename Api::Event last;  // behind all of its work
  };
  std::mutex endings_mutex_;  // guards the next one
  std::vector<Ending> endings_;
  std::mutex peers_mutex_;                    // guards what follows
  std::unordered_map<uint64_t, bool> peers_;  // (device, peer): by us
  std::map<char*, Reserved> reserved_;
  std::map<char*, Chunk*> mapped_;
  std::unordered_map<Chunk*, std::unique_ptr<Chunk>> chunks_;
  // Nothing was ever mapped outside of them.
  std::atomic<uintptr_t> mapped_begin_{UINTPTR_MAX};
  std::atomic<uintptr_t> mapped_end_{0};
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_BACKEND_H_
