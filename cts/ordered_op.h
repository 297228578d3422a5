// SPDX-License-Identifier: Apache-2.0
//
// One operation of any kind, and checks that it ran in the right order.
//
//   for (const OpKind kind : OrderedOp::Kinds(t)) {
//     const RawStream a(t, device), b(t, device, DEVRT_STREAM_BLOCKING);
//     OrderedOp op(t, kind, device);
//     Gate gate(t);
//     gate.Hold(a);
//     op.Produce(a);
//     ... order b after a ...
//     op.Enqueue(b);
//     op.ExpectNotYet();
//     gate.Open();
//     b.Sync();
//     op.ExpectAfter();
//   }
//
// Produce sets a block to 1.  The operation reads that block, overwrites it, or
// leaves another trace that it ran.  Threads: the body's.

#ifndef DEVRT_CTS_ORDERED_OP_H_
#define DEVRT_CTS_ORDERED_OP_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "cts/objects.h"

namespace devrt::cts {

enum class OpKind {
  kFill,
  kHostToDevice,
  kDeviceToDevice,
  kDeviceToHost,
  kPeer,
  kHostFunc,
  kRecord,
  kKernel,
};

const char* ToString(OpKind kind);

class OrderedOp {
 public:
  // The kinds that can be enqueued after a gate without waiting for it.  Copies
  // of pageable memory may wait, so they are left out.
  static std::vector<OpKind> Kinds(Test& t);

  OrderedOp(Test& t, OpKind kind, uint32_t device);
  OrderedOp(const OrderedOp&) = delete;
  ~OrderedOp();

  void Produce(const RawStream& stream) const;
  void Enqueue(const RawStream& stream);
  // Enqueues work after the operation whose result it must not see.
  void EnqueueLater(const RawStream& stream);
  // Lets devices run and expects that the operation has not run.
  void ExpectNotYet();
  // Call it when the stream is idle: expects that the operation ran after
  // Produce and before EnqueueLater.
  void ExpectAfter();

 private:
  bool Overwrites() const;
  std::string Name(const char* what) const;

  Test* const t_;
  const OpKind kind_;
  const uint32_t device_;
  DeviceBlock x_, y_;
  std::optional<DeviceBlock> peer_;
  HostBlock host_;
  std::optional<RawEvent> event_;
  std::optional<RawStream> watcher_;
  devrt_flag flag_ = nullptr;
  bool has_later_ = false;
  // Shared, because a wrong plugin may call the host function late.
  std::shared_ptr<std::atomic<bool>> ran_;
};

// Expects of every kind of operation that it runs on `after` when the earlier
// work of `before` is complete.  Calls `while_held` while that work is held.
void ExpectOrdered(
    Test& t, const RawStream& before, const RawStream& after,
    const std::function<void()>& while_held = [] {});

}  // namespace devrt::cts

#endif  // DEVRT_CTS_ORDERED_OP_H_
