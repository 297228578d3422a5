// SPDX-License-Identifier: Apache-2.0
#include "cts/ordered_op.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;
// The values of the block: before, from Produce, from the operation, from
// EnqueueLater.
constexpr uint8_t kProduced = 1, kOwn = 2, kLater = 3;
constexpr uint64_t kWatchTimeout = 20'000'000'000;

}  // namespace

const char* ToString(OpKind kind) {
  switch (kind) {
    case OpKind::kFill:
      return "fill";
    case OpKind::kHostToDevice:
      return "copy to the device";
    case OpKind::kDeviceToDevice:
      return "copy within the device";
    case OpKind::kDeviceToHost:
      return "copy to the host";
    case OpKind::kPeer:
      return "copy to another device";
    case OpKind::kHostFunc:
      return "host function";
    case OpKind::kRecord:
      return "record";
    case OpKind::kKernel:
      return "kernel";
  }
  return "?";
}

std::vector<OpKind> OrderedOp::Kinds(Test& t) {
  const Machine& m = t.machine();
  std::vector<OpKind> kinds = {OpKind::kFill, OpKind::kDeviceToDevice,
                               OpKind::kRecord};
  if (m.Has(DEVRT_CAP_PINNED_HOST)) {
    kinds.push_back(OpKind::kHostToDevice);
    kinds.push_back(OpKind::kDeviceToHost);
  }
  if (m.Has(DEVRT_CAP_PEER_COPY) && t.devices().size() > 1) {
    kinds.push_back(OpKind::kPeer);
  }
  if (m.probe() != nullptr) {
    kinds.push_back(OpKind::kKernel);
    // A gate that is a host function may keep others from running (C46).
    if (m.Has(DEVRT_CAP_HOST_FUNC)) kinds.push_back(OpKind::kHostFunc);
  }
  return kinds;
}

OrderedOp::OrderedOp(Test& t, OpKind kind, uint32_t device)
    : t_(&t),
      kind_(kind),
      device_(device),
      x_(t, device, kSize),
      y_(t, device, kSize),
      host_(t, device, kSize),
      ran_(std::make_shared<std::atomic<bool>>(false)) {
  if (kind == OpKind::kHostToDevice) {
    std::fill_n(host_.ptr(), kSize, kOwn);
  }
  if (kind == OpKind::kPeer) {
    peer_.emplace(t, t.device() == device ? t.device(1) : t.device(), kSize);
  }
  if (kind == OpKind::kRecord) event_.emplace(t, device);
  if (kind != OpKind::kKernel) return;
  Machine& m = t.machine();
  watcher_.emplace(t, device);
  t.Require(m.CallExtension(&devrt_probe_v0::flag_create, m.probe(),
                            m.probe_self(), device, &flag_),
            "flag creation");
  t.Require(
      m.CallExtension(&devrt_probe_v0::flag_wait, m.probe(), m.probe_self(),
                      watcher_->handle(), flag_, kWatchTimeout),
      "wait for a flag");
}

OrderedOp::~OrderedOp() {
  if (flag_ == nullptr) return;
  Machine& m = t_->machine();
  t_->Ok(m.CallExtension(&devrt_probe_v0::flag_set, m.probe(), m.probe_self(),
                         flag_, 1u),
         "flag set");
  t_->Ok(m.Call<&Ops::device_sync>(device_), "device sync");
  t_->Ok(m.CallExtension(&devrt_probe_v0::flag_destroy, m.probe(),
                         m.probe_self(), flag_),
         "flag destruction");
}

bool OrderedOp::Overwrites() const {
  return kind_ == OpKind::kFill || kind_ == OpKind::kHostToDevice;
}

std::string OrderedOp::Name(const char* what) const {
  return absl::StrCat("a ", ToString(kind_), " ", what);
}

void OrderedOp::Produce(const RawStream& stream) const {
  stream.Fill(x_.ptr(), kProduced, kSize);
}

void OrderedOp::Enqueue(const RawStream& stream) {
  Machine& m = t_->machine();
  switch (kind_) {
    case OpKind::kFill:
      return stream.Fill(x_.ptr(), kOwn, kSize);
    case OpKind::kHostToDevice:
      return stream.Copy(x_.ptr(), host_.ptr(), kSize, DEVRT_COPY_H2D);
    case OpKind::kDeviceToDevice:
      return stream.Copy(y_.ptr(), x_.ptr(), kSize, DEVRT_COPY_D2D);
    case OpKind::kDeviceToHost:
      return stream.Copy(host_.ptr(), x_.ptr(), kSize, DEVRT_COPY_D2H);
    case OpKind::kPeer:
      return t_->Require(
          m.Call<&Ops::copy_peer_async>(
              stream.handle(), static_cast<void*>(peer_->ptr()),
              peer_->device(), static_cast<const void*>(x_.ptr()), device_,
              kSize),
          "copy to another device");
    case OpKind::kHostFunc:
      return stream.HostFunc([ran = ran_](devrt_code) { *ran = true; });
    case OpKind::kRecord:
      return event_->Record(stream);
    case OpKind::kKernel:
      return t_->Require(
          m.CallExtension(&devrt_probe_v0::flag_set_async, m.probe(),
                          m.probe_self(), stream.handle(), flag_, 1u),
          "flag set in stream order");
  }
}

void OrderedOp::EnqueueLater(const RawStream& stream) {
  has_later_ = true;
  if (Overwrites()) {
    // The later copy must come after the operation, or it copies the value of
    // Produce.
    stream.Copy(y_.ptr(), x_.ptr(), kSize, DEVRT_COPY_D2D);
  }
  stream.Fill(x_.ptr(), kLater, kSize);
}

void OrderedOp::ExpectNotYet() {
  t_->Settle();
  switch (kind_) {
    case OpKind::kHostFunc:
      t_->Expect(!*ran_, Name("has not run yet"));
      break;
    case OpKind::kRecord:
      t_->Expect(!event_->Query(), Name("is not complete yet"));
      break;
    case OpKind::kKernel:
      t_->Expect(!watcher_->Query(), Name("has not run yet"));
      break;
    default:
      break;  // the values show it
  }
}

void OrderedOp::ExpectAfter() {
  const char* const what = "ran in its place";
  if (has_later_)
    t_->Expect(x_.Holds(kLater), "what was enqueued later is last");
  switch (kind_) {
    case OpKind::kFill:
    case OpKind::kHostToDevice:
      t_->Expect((has_later_ ? y_ : x_).Holds(kOwn), Name(what));
      break;
    case OpKind::kDeviceToDevice:
      t_->Expect(y_.Holds(kProduced), Name(what));
      break;
    case OpKind::kDeviceToHost:
      t_->Expect(host_.Holds(kProduced), Name(what));
      break;
    case OpKind::kPeer:
      t_->Expect(peer_->Holds(kProduced), Name(what));
      break;
    case OpKind::kHostFunc:
      t_->Expect(*ran_, Name("has run"));
      break;
    case OpKind::kRecord:
      t_->Expect(event_->Query(), Name("is complete"));
      break;
    case OpKind::kKernel:
      t_->Expect(t_->Eventually([&] { return watcher_->Query(); }),
                 Name("has run"));
      break;
  }
}

void ExpectOrdered(Test& t, const RawStream& before, const RawStream& after,
                   const std::function<void()>& while_held) {
  for (const OpKind kind : OrderedOp::Kinds(t)) {
    OrderedOp op(t, kind, after.device());
    {
      Gate gate(t);
      gate.Hold(before);
      op.Produce(before);
      op.Enqueue(after);
      op.ExpectNotYet();
      while_held();
    }
    after.Sync();
    op.ExpectAfter();
  }
}

}  // namespace devrt::cts
