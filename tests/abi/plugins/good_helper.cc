// SPDX-License-Identifier: Apache-2.0
//
// "good_helper": good.c once more, from a class by devrt_plugin_helper.h.  It
// is compiled against headers of an older minor version, too: it uses neither
// the last slot nor the last property (make_minor.py).

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace {

constexpr uint32_t kDevices = 2;
constexpr uint64_t kMemory = uint64_t{64} << 20;
constexpr uint32_t kAlignment = 256;

struct Stream {
  uint32_t device;
  uint32_t kind;
};

struct Event {
  uint32_t device;
};

Stream* Of(devrt_stream stream) { return reinterpret_cast<Stream*>(stream); }
Event* Of(devrt_event event) { return reinterpret_cast<Event*>(event); }

// The thread's current device plus one; 0: the thread has none yet.
thread_local uint32_t current = 0;

class GoodHelper {
 public:
  explicit GoodHelper(const devrt_host_v0* host) : host_(host) {
    for (uint32_t device = 0; device < kDevices; ++device) {
      for (uint32_t kind = 0; kind < 3; ++kind) {
        defaults_[device][kind] = {device, kind};
      }
    }
  }

  // Devices and memory
  devrt_status device_count(uint32_t* count) const {
    *count = kDevices;
    return nullptr;
  }
  devrt_status device_props(uint32_t device, devrt_device_props_v0* props) {
    if (device >= kDevices) return NoDevice(device);
    devrt_device_props_v0 mine = {};
    mine.ordinal = device;
    std::snprintf(mine.name, sizeof mine.name, "Good device %u", device);
    std::snprintf(mine.arch, sizeof mine.arch, "host");
    mine.uuid[0] = 0x61;
    mine.uuid[15] = static_cast<uint8_t>(device + 1);
    mine.multiprocessors = 1;
    mine.total_memory = kMemory;
    mine.alloc_alignment = kAlignment;
    mine.copy_engines = 1;
    mine.elapsed_resolution_ns = 1;
    mine.pageable_async = DEVRT_PAGEABLE_SYNC;
    devrt::plugin::WriteStruct(props, mine);
    return nullptr;
  }
  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes) {
    if (device >= kDevices) return NoDevice(device);
    std::lock_guard<std::mutex> lock(mu_);
    *free_bytes = kMemory - used_[device];
    *total_bytes = kMemory;
    return nullptr;
  }
  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr) {
    if (device >= kDevices) return NoDevice(device);
    std::lock_guard<std::mutex> lock(mu_);
    if (size > kMemory - used_[device]) throw std::bad_alloc();
    if (alignment < kAlignment) alignment = kAlignment;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, size) != 0) throw std::bad_alloc();
    used_[device] += size;
    *ptr = memory;
    return nullptr;
  }
  devrt_status dealloc(uint32_t device, void* ptr, uint64_t size) {
    if (device >= kDevices) return NoDevice(device);
    std::lock_guard<std::mutex> lock(mu_);
    std::free(ptr);
    used_[device] -= size;
    return nullptr;
  }

  // Streams
  devrt_status stream_create(uint32_t device, const devrt_stream_desc_v0* desc,
                             devrt_stream* stream) {
    if (device >= kDevices) return NoDevice(device);
    Stream* made = nullptr;
    switch (desc->kind) {
      case DEVRT_STREAM_CREATE:
        made = new Stream{device, DEVRT_STREAM_CREATE};
        break;
      case DEVRT_STREAM_LEGACY:
      case DEVRT_STREAM_PER_THREAD:
        made = &defaults_[device][desc->kind];
        break;
      case DEVRT_STREAM_ADOPT:
        return Fail(DEVRT_UNIMPLEMENTED, "foreign streams do not exist here");
      default:
        return Fail(DEVRT_INVALID_ARGUMENT, "unknown kind of stream");
    }
    *stream = reinterpret_cast<devrt_stream>(made);
    return nullptr;
  }
  devrt_status stream_destroy(devrt_stream stream) {
    if (Of(stream)->kind != DEVRT_STREAM_CREATE) {
      return Fail(DEVRT_INVALID_ARGUMENT,
                  "a default stream cannot be destroyed");
    }
    delete Of(stream);
    return nullptr;
  }
  devrt_status stream_query(devrt_stream, uint32_t* done) {
    *done = 1;
    return nullptr;
  }
  devrt_status stream_sync(devrt_stream) { return nullptr; }
  devrt_status stream_native(devrt_stream stream, void** native) {
    *native = stream;
    return nullptr;
  }
  devrt_status stream_wait_event(devrt_stream, devrt_event) { return nullptr; }

  // Events
  devrt_status event_create(uint32_t device, uint32_t, devrt_event* event) {
    if (device >= kDevices) return NoDevice(device);
    *event = reinterpret_cast<devrt_event>(new Event{device});
    return nullptr;
  }
  devrt_status event_destroy(devrt_event event) {
    delete Of(event);
    return nullptr;
  }
  devrt_status event_record(devrt_event event, devrt_stream stream) {
    if (Of(event)->device == Of(stream)->device) return nullptr;
    return Fail(DEVRT_INVALID_ARGUMENT,
                "the event belongs to another device than the stream");
  }
  devrt_status event_query(devrt_event, uint32_t* done) {
    *done = 1;
    return nullptr;
  }
  devrt_status event_sync(devrt_event) { return nullptr; }

  // Work
  devrt_status copy_async(devrt_stream, void* dst, const void* src,
                          uint64_t size, uint32_t) {
    std::memcpy(dst, src, size);
    return nullptr;
  }
  devrt_status fill_async(devrt_stream, void* dst, uint32_t value,
                          uint64_t size) {
    std::memset(dst, static_cast<int>(value & 0xff), size);
    return nullptr;
  }
  devrt_status device_sync(uint32_t device) {
    return device < kDevices ? nullptr : NoDevice(device);
  }
  devrt_status context_enter(uint32_t device, devrt_context* previous) {
    if (device >= kDevices) return NoDevice(device);
    if (previous != nullptr) *previous = {{current, 0}};
    current = device + 1;
    return nullptr;
  }
  devrt_status context_exit(const devrt_context* previous) {
    current = static_cast<uint32_t>(previous->state[0]);
    return nullptr;
  }
  devrt_status context_current(uint32_t* device) {
    *device = current == 0 ? 0 : current - 1;
    return nullptr;
  }

 private:
  devrt_status Fail(devrt_code code, std::string_view text) {
    return devrt::plugin::Error(host_, code, 0, text);
  }
  devrt_status NoDevice(uint32_t device) {
    return devrt::plugin::ErrorF(
        host_, DEVRT_INVALID_ARGUMENT, 0,
        "Device index value %u is out of index range [0, %u)", device,
        kDevices);
  }

  const devrt_host_v0* const host_;
  std::array<std::array<Stream, 3>, kDevices> defaults_;
  std::mutex mu_;
  std::array<uint64_t, kDevices> used_ = {};  // guarded by mu_
};

}  // namespace

#ifndef GOOD_WITHOUT_SYMBOLS
DEVRT_DEFINE_PLUGIN(GoodHelper, PLUGIN, "devrt tests", "1.0", 0, 500);
#endif
