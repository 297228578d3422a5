// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/launch.h"

#include <exception>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "devrt/runtime/status.h"
#include "runtime/common/thread_end.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/use_hooks.h"
#include "streams/operations/copy_route.h"

namespace devrt {

void LaunchContext::Fail(std::string_view text) const {
  if (kernel_ != nullptr) kernel_->fail(kernel_, text.data(), text.size());
}

const void* LaunchContext::LocalBytes(const void* ptr, uint64_t bytes,
                                      uint32_t mode) const {
  if (kernel_ == nullptr) return ptr;
  return kernel_->local(kernel_, ptr, bytes, mode);
}

namespace internal {
namespace {

struct HostKernel {
  DeviceRecord* device;
  std::unique_ptr<LaunchBody> body;
};

// The backend's thread has other work to do, so neither an exception nor
// pthread_exit may leave the kernel, and no request to cancel may end it.
void RunHostKernel(void* arg, const devrt_kernel_context_v0* kernel) {
  auto* self = static_cast<HostKernel*>(arg);
  LaunchContext context(Device(self->device), kernel, nullptr);
  const HostFunctionScope inside;
  const NoCancel no_cancel;
  try {
    absl::Status status;
    if (!RunToItsEnd([&] { status = self->body->Run(context); })) {
      context.Fail("the kernel called pthread_exit: return from it instead");
    } else if (!status.ok()) {
      context.Fail(
          std::string_view(status.message().data(), status.message().size()));
    }
  } catch (const std::exception& e) {
    context.Fail(e.what());
  } catch (...) {
    context.Fail("the kernel threw an exception");
  }
}

void DestroyHostKernel(void* arg) { delete static_cast<HostKernel*>(arg); }

absl::Status LaunchOnHost(const StreamTarget& t,
                          const ExtensionOf<devrt_launch_v0>& launch,
                          const Access* accesses, size_t count,
                          std::unique_ptr<LaunchBody> body,
                          const LaunchOptions& options) {
  for (size_t i = 0; i < count; ++i) {
    if (accesses[i].size == 0) continue;
    DEVRT_RETURN_IF_ERROR(CheckAccess(accesses[i].ptr));
  }
  auto kernel = std::make_unique<HostKernel>();
  kernel->device = t.device;
  kernel->body = std::move(body);
  devrt_launch_desc_v0 desc{};
  desc.struct_size = sizeof desc;
  desc.access_count = static_cast<uint32_t>(count);
  desc.accesses = accesses;
  desc.name = options.name;
  desc.duration_ns = options.duration_ns;
  desc.body = &RunHostKernel;
  desc.destroy = &DestroyHostKernel;
  desc.arg = kernel.get();
  absl::Status status = FromPlugin(
      t.device, launch.table->launch(launch.self, t.handle, &desc), "launch");
  t.MarkDirty();
  if (status.ok()) kernel.release();
  return status;
}

// The function enqueues its work, with the stream's device current (C15).
absl::Status LaunchNative(const StreamTarget& t, const Access* accesses,
                          size_t count, LaunchBody* body,
                          const LaunchOptions& options) {
  const auto& race = DeviceStreams::Of(t.device)->race;
  if (ABSL_PREDICT_FALSE(race.table != nullptr)) {
    // A race detector sees nothing of what the function enqueues.
    DEVRT_RETURN_IF_ERROR(FromPlugin(
        t.device,
        race.table->stream_access(race.self, t.handle, options.name, accesses,
                                  static_cast<uint32_t>(count)),
        "launch"));
  }
  // StreamRef::Native would mark the stream as exposed, but the function has
  // the handle only for this call.
  void* native = nullptr;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      t.device, t.ops().stream_native(t.self(), t.handle, &native), "launch"));
  devrt_context previous;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      t.device, t.ops().context_enter(t.self(), t.device->ordinal, &previous),
      "launch"));
  struct Restore {
    const StreamTarget& t;
    const devrt_context& previous;
    ~Restore() {
      (void)FromPlugin(t.device, t.ops().context_exit(t.self(), &previous),
                       "launch");
      t.MarkDirty();
    }
  } restore{t, previous};
  return body->Run(LaunchContext(Device(t.device), nullptr, native));
}

void NoteAccesses(StreamRef stream, const Access* accesses, size_t count) {
  if (count == 0 || g_use_hook.load(std::memory_order_relaxed) == nullptr) {
    return;
  }
  absl::InlinedVector<UsedRange, 8> used;
  for (size_t i = 0; i < count; ++i) {
    used.push_back({accesses[i].ptr, accesses[i].size});
  }
  NoteUses(stream, used.data(), used.size());
}

}  // namespace

absl::Status LaunchErased(StreamRef stream, const Access* accesses,
                          size_t count, std::unique_ptr<LaunchBody> body,
                          const LaunchOptions& options, CallSite site) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "Launch", site, &t));
  SetCallSite(site, options.name);
  const auto& launch = DeviceStreams::Of(t.device)->launch;
  if (launch.table != nullptr) {
    absl::Status status =
        LaunchOnHost(t, launch, accesses, count, std::move(body), options);
    if (status.ok()) NoteAccesses(stream, accesses, count);
    return status;
  }
  // A body that failed may have enqueued work before.
  absl::Status status = LaunchNative(t, accesses, count, body.get(), options);
  NoteAccesses(stream, accesses, count);
  return status;
}

}  // namespace internal
}  // namespace devrt
