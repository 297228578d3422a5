// SPDX-License-Identifier: Apache-2.0
#include "cts/every_call.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;
constexpr uint64_t kTooMuch = uint64_t{1} << 60;

class Caller {
 public:
  Caller(Test& t, uint32_t device,
         const std::function<void(const char*)>& after)
      : t_(t), m_(t.machine()), device_(device), after_(after) {}

  void Run() {
    Queries();
    Memory();
    DefaultStreams();
    Events();
    Work();
    HostMemory();
    AsyncMemory();
    Extensions();
    Peers();
    Refused();
    Done(m_.Call<&Ops::device_sync>(device_), "device_sync");
  }

 private:
  void Done(const Result& result, const char* call) {
    t_.Ok(result, call);
    after_(call);
  }
  void Fails(const Result& result, const char* call) {
    t_.Expect(!result.ok(), absl::StrCat(call, " refuses what is wrong"));
    after_(call);
  }

  void Queries() {
    uint32_t count = 0, current = 0;
    Done(m_.Call<&Ops::device_count>(&count), "device_count");
    devrt_device_props_v0 props = {};
    props.struct_size = sizeof props;
    Done(m_.Call<&Ops::device_props>(device_, &props), "device_props");
    uint64_t free = 0, total = 0;
    Done(m_.Call<&Ops::mem_info>(device_, &free, &total), "mem_info");
    Done(m_.Call<&Ops::context_current>(&current), "context_current");
    if (!m_.Has(DEVRT_CAP_POINTER_INFO)) return;
    devrt_pointer_info_v0 info = {};
    info.struct_size = sizeof info;
    Done(m_.Call<&Ops::pointer_info>(static_cast<const void*>(&info), &info),
         "pointer_info");
  }

  void Memory() {
    void* ptr = nullptr;
    Done(m_.Call<&Ops::alloc>(device_, kSize, uint64_t{0}, &ptr), "alloc");
    Done(m_.Call<&Ops::dealloc>(device_, ptr, kSize), "dealloc");
    Fails(m_.Call<&Ops::alloc>(device_, kTooMuch, uint64_t{0}, &ptr), "alloc");
  }

  void DefaultStreams() {
    for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
      const RawStream s = RawStream::Default(t_, device_, kind);
      after_("stream_create");
      s.Sync();
      after_("stream_sync");
      Fails(m_.Call<&Ops::stream_destroy>(s.handle()), "stream_destroy");
    }
  }

  void Events() {
    const bool timing = m_.Has(DEVRT_CAP_EVENT_TIMING);
    const uint32_t flags = timing ? DEVRT_EVENT_TIMING : 0;
    RawStream s(t_, device_);
    after_("stream_create");
    std::optional<RawEvent> begin(std::in_place, t_, device_, flags);
    after_("event_create");
    const RawEvent end(t_, device_, flags);
    begin->Record(s);
    after_("event_record");
    end.Record(s);
    s.Wait(*begin);
    after_("stream_wait_event");
    end.Sync();
    after_("event_sync");
    t_.Expect(end.Query(), "an event is complete once it was waited for");
    after_("event_query");
    int64_t ns = 0;
    if (timing) Done(begin->ElapsedTo(end, &ns), "event_elapsed_ns");
    Done(begin->Destroy(), "event_destroy");
    void* native = nullptr;
    // No capability stands for this slot: it may return UNIMPLEMENTED.
    m_.Call<&Ops::event_native>(end.handle(), &native);
    after_("event_native");
    Done(m_.Call<&Ops::stream_native>(s.handle(), &native), "stream_native");
    Done(s.Destroy(), "stream_destroy");
  }

  void Work() {
    const DeviceBlock x(t_, device_, kSize), y(t_, device_, kSize);
    const HostBlock host(t_, device_, kSize), other(t_, device_, kSize);
    const RawStream s(t_, device_);
    s.Fill(x.ptr(), 1, kSize);
    after_("fill_async");
    s.Copy(x.ptr(), host.ptr(), kSize, DEVRT_COPY_H2D);
    after_("copy_async H2D");
    s.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
    after_("copy_async D2D");
    s.Copy(host.ptr(), y.ptr(), kSize, DEVRT_COPY_D2H);
    after_("copy_async D2H");
    s.Copy(other.ptr(), host.ptr(), kSize, DEVRT_COPY_H2H);
    after_("copy_async H2H");
    const auto ran = std::make_shared<std::atomic<bool>>(false);
    if (m_.Has(DEVRT_CAP_HOST_FUNC)) {
      s.HostFunc([ran](devrt_code) { *ran = true; });
      after_("host_func");
    }
    s.Query();
    after_("stream_query");
    s.Sync();
    after_("stream_sync");
    t_.Equal(ran->load(), m_.Has(DEVRT_CAP_HOST_FUNC),
             "whether the host function has run");
  }

  void HostMemory() {
    if (m_.Has(DEVRT_CAP_PINNED_HOST)) {
      void* ptr = nullptr;
      Done(m_.Call<&Ops::host_alloc>(device_, kSize, uint64_t{0}, &ptr),
           "host_alloc");
      Done(m_.Call<&Ops::host_dealloc>(ptr, kSize), "host_dealloc");
      Fails(m_.Call<&Ops::host_alloc>(device_, kTooMuch, uint64_t{0}, &ptr),
            "host_alloc");
    }
    if (!m_.Has(DEVRT_CAP_HOST_REGISTER)) return;
    alignas(kSize) static char page[kSize];
    void* const ptr = page;
    Done(m_.Call<&Ops::host_register>(device_, ptr, kSize), "host_register");
    Fails(m_.Call<&Ops::host_register>(device_, ptr, kSize), "host_register");
    Done(m_.Call<&Ops::host_unregister>(ptr), "host_unregister");
    Fails(m_.Call<&Ops::host_unregister>(ptr), "host_unregister");
  }

  void AsyncMemory() {
    if (!m_.Has(DEVRT_CAP_ASYNC_ALLOC)) return;
    const RawStream s(t_, device_);
    void* ptr = nullptr;
    Done(m_.Call<&Ops::alloc_async>(s.handle(), kSize, uint64_t{0}, &ptr),
         "alloc_async");
    Done(m_.Call<&Ops::dealloc_async>(s.handle(), ptr, kSize), "dealloc_async");
    Fails(m_.Call<&Ops::alloc_async>(s.handle(), kTooMuch, uint64_t{0}, &ptr),
          "alloc_async");
    s.Sync();
  }

  void Extensions() {
    t_.Expect(!m_.backend().GetExtension("no.such.extension/9", 8).ok(),
              "no backend has this extension");
    after_("get_extension");
    if (m_.Has(DEVRT_CAP_STREAM_EXTERNAL)) Adopt();
    if (m_.probe() == nullptr) return;
    const RawStream s(t_, device_);
    s.Delay(1000);
    after_("spin");
    s.Sync();
  }

  void Adopt() {
    const RawStream owner(t_, device_);
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = DEVRT_STREAM_ADOPT;
    t_.Require(m_.Call<&Ops::stream_native>(owner.handle(), &desc.native),
               "stream_native");
    devrt_stream adopted = nullptr;
    Done(
        m_.Call<&Ops::stream_create>(
            device_, static_cast<const devrt_stream_desc_v0*>(&desc), &adopted),
        "stream_create ADOPT");
    Done(m_.Call<&Ops::stream_destroy>(adopted), "stream_destroy");
  }

  void Peers() {
    for (const uint32_t peer : t_.devices()) {
      if (peer == device_) continue;
      if (m_.Has(DEVRT_CAP_PEER_COPY)) CopyTo(peer);
      if (!m_.Has(DEVRT_CAP_PEER_ACCESS)) continue;
      uint32_t can = 0;
      Done(m_.Call<&Ops::peer_can_access>(device_, peer, &can),
           "peer_can_access");
      if (can == 0) continue;
      Done(m_.Call<&Ops::peer_enable>(device_, peer), "peer_enable");
      Fails(m_.Call<&Ops::peer_enable>(device_, peer), "peer_enable");
      Done(m_.Call<&Ops::peer_disable>(device_, peer), "peer_disable");
      Fails(m_.Call<&Ops::peer_disable>(device_, peer), "peer_disable");
    }
  }

  void CopyTo(uint32_t peer) {
    const DeviceBlock here(t_, device_, kSize), there(t_, peer, kSize);
    const RawStream s(t_, device_);
    Done(m_.Call<&Ops::copy_peer_async>(
             s.handle(), static_cast<void*>(there.ptr()), peer,
             static_cast<const void*>(here.ptr()), device_, kSize),
         "copy_peer_async");
    s.Sync();
  }

  void Refused() {
    const uint32_t none = NoSuchDevice(t_);
    devrt_event event = nullptr;
    Fails(m_.Call<&Ops::event_create>(none, 0u, &event), "event_create");
    Fails(m_.Call<&Ops::device_sync>(none), "device_sync");
    Fails(m_.Call<&Ops::context_enter>(none,
                                       static_cast<devrt_context*>(nullptr)),
          "context_enter");
    for (const uint32_t other : t_.devices()) {
      if (other == device_) continue;
      const RawEvent here(t_, device_);
      const RawStream there(t_, other);
      Fails(m_.Call<&Ops::event_record>(here.handle(), there.handle()),
            "event_record");
    }
  }

  Test& t_;
  Machine& m_;
  const uint32_t device_;
  const std::function<void(const char*)>& after_;
};

}  // namespace

void CallEverything(Test& t, uint32_t device,
                    const std::function<void(const char*)>& after) {
  Caller(t, device, after).Run();
}

uint32_t NoSuchDevice(const Test& t) {
  return static_cast<uint32_t>(t.cpp_device().backend().device_count());
}

}  // namespace devrt::cts
