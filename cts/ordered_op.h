// SPDX-License-Identifier: Apache-2.0
//
// One operation of any kind, and whether it ran where it should have.
//
//   for (const OpKind kind : OrderedOp::Kinds(t)) {
//     const RawStream a(t, device), b(t, device, DEVRT_STREAM_BLOCKING);
//     OrderedOp op(t, kind, device);
//     Gate gate(t);
//     gate.Hold(a);
//     op.Produce(a);
//     ... whatever orders b after a ...
//     op.Enqueue(b);
//     op.ExpectNotYet();
//     gate.Open();
//     b.Sync();
//     op.ExpectAfter();
//   }
//
// Produce sets a block to 1; the operation reads that, overwrites it, or can be
// seen to have run.  Threads: the body's.

#ifndef DEVRT_CTS_ORDERED_OP_H_
#define DEVRT_CTS_ORDERED_OP_H_

#include <atomic>
#include <cstdint>
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
  // What can be enqueued behind a gate and does not wait for it: copies of
  // pageable memory may.
  static std::vector<OpKind> Kinds(Test& t);

  OrderedOp(Test& t, OpKind kind, uint32_t device);
  OrderedOp(const OrderedOp&) = delete;
  ~OrderedOp();

  void Produce(const RawStream& stream) const;
  void Enqueue(const RawStream& stream);
  // Behind it in the same stream: what it must not see.
  void EnqueueLater(const RawStream& stream);
  // Lets devices run; then it must not have.
  void ExpectNotYet();
  // Once its stream is idle: it ran behind what was produced and before what
  // was enqueued later.
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
  // A host function may come late where a plugin is wrong.
  std::shared_ptr<std::atomic<bool>> ran_;
};

}  // namespace devrt::cts

#endif  // DEVRT_CTS_ORDERED_OP_H_
