// SPDX-License-Identifier: Apache-2.0
//
// devrt for coexistence.py: plain functions, so that a language with ctypes can
// call it beside its own GPU libraries.
//
// A backend and an ordinal name a device.  Functions that give an int answer -1
// after an error, those that give a pointer nullptr; coexist_error() has its
// text then, of the calling thread.
#include <cstdint>
#include <string>
#include <utility>

#include "devrt/devrt.h"

#define COEXIST extern "C" __attribute__((visibility("default")))

namespace {

thread_local std::string t_error;

int Take(const absl::Status& status) {
  if (status.ok()) return 0;
  t_error = status.ToString();
  return -1;
}

// The value on the heap, or nullptr.
template <typename T>
void* Keep(absl::StatusOr<T> made) {
  if (Take(made.status()) != 0) return nullptr;
  return new T(*std::move(made));
}

const devrt::Stream& StreamOf(void* stream) {
  return *static_cast<devrt::Stream*>(stream);
}

const devrt::Flag& FlagOf(void* flag) {
  return *static_cast<devrt::Flag*>(flag);
}

}  // namespace

COEXIST const char* coexist_error() { return t_error.c_str(); }

// 0 where this machine has none.
COEXIST int coexist_device_count(const char* backend) {
  const auto devices = devrt::Devices(backend);
  if (absl::IsUnavailable(devices.status())) {
    t_error = devices.status().ToString();
    return 0;
  }
  if (Take(devices.status()) != 0) return -1;
  return static_cast<int>(devices->size());
}

COEXIST int coexist_current(const char* backend) {
  const auto device = devrt::CurrentDevice(backend);
  return Take(device.status()) == 0 ? device->index() : -1;
}

COEXIST void* coexist_guard_new(const char* backend, int index) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return nullptr;
  auto* const guard = new devrt::DeviceGuard(*device);
  if (Take(guard->status()) == 0) return guard;
  delete guard;
  return nullptr;
}

COEXIST void coexist_guard_delete(void* guard) {
  delete static_cast<devrt::DeviceGuard*>(guard);
}

// ---- Streams ----------------------------------------------------------------

COEXIST void* coexist_stream_new(const char* backend, int index) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return nullptr;
  return Keep(devrt::Stream::Create(*device));
}

COEXIST void* coexist_stream_adopt(const char* backend, int index,
                                   void* native) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return nullptr;
  return Keep(devrt::Stream::FromNative(*device, native));
}

COEXIST void coexist_stream_delete(void* stream) {
  delete static_cast<devrt::Stream*>(stream);
}

COEXIST void* coexist_stream_native(void* stream) {
  const auto native = StreamOf(stream).Native();
  return Take(native.status()) == 0 ? *native : nullptr;
}

COEXIST int coexist_stream_query(void* stream) {
  const auto done = StreamOf(stream).Query();
  return Take(done.status()) == 0 ? *done : -1;
}

COEXIST int coexist_stream_sync(void* stream) {
  return Take(StreamOf(stream).Synchronize());
}

COEXIST int coexist_stream_wait(void* stream, void* other) {
  return Take(StreamOf(stream).Wait(StreamOf(other)));
}

// ---- Flags ------------------------------------------------------------------

COEXIST void* coexist_flag_new(const char* backend, int index) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return nullptr;
  return Keep(devrt::Flag::Create(*device));
}

COEXIST void coexist_flag_delete(void* flag) {
  delete static_cast<devrt::Flag*>(flag);
}

COEXIST int coexist_flag_wait_on(void* flag, void* stream,
                                 uint64_t timeout_ns) {
  return Take(FlagOf(flag).WaitOn(StreamOf(stream), timeout_ns));
}

COEXIST int coexist_flag_set(void* flag) { return Take(FlagOf(flag).Set()); }

// ---- Memory -----------------------------------------------------------------

COEXIST void* coexist_alloc(const char* backend, int index, uint64_t bytes) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return nullptr;
  const auto memory = devrt::Allocate(*device, bytes);
  return Take(memory.status()) == 0 ? *memory : nullptr;
}

COEXIST int coexist_free(const char* backend, int index, void* memory) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return -1;
  return Take(devrt::Free(*device, memory));
}

COEXIST int coexist_fill(void* stream, void* memory, int value,
                         uint64_t bytes) {
  return Take(devrt::FillAsync(StreamOf(stream), memory,
                               static_cast<uint8_t>(value), bytes));
}

COEXIST int coexist_copy(void* stream, void* dst, const void* src,
                         uint64_t bytes) {
  return Take(devrt::CopyAsync(StreamOf(stream), dst, src, bytes));
}

// Waits for it.
COEXIST int coexist_read(void* stream, void* host, const void* memory,
                         uint64_t bytes) {
  return Take(devrt::Copy(StreamOf(stream), host, memory, bytes));
}

COEXIST int64_t coexist_free_bytes(const char* backend, int index) {
  const auto device = devrt::GetDevice(backend, index);
  if (Take(device.status()) != 0) return -1;
  const auto memory = device->GetMemoryInfo();
  if (Take(memory.status()) != 0) return -1;
  return static_cast<int64_t>(memory->free_bytes);
}

// The ordinal of the device that `memory` is of, -1 for what is none's.
COEXIST int coexist_device_of(const void* memory) {
  const auto info = devrt::GetPointerInfo(memory);
  if (Take(info.status()) != 0 || !info->device.has_value()) return -1;
  return info->device->index();
}
