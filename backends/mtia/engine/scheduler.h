// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_SCHEDULER_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_SCHEDULER_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/collectives.h"
#include "backends/mtia/engine/deferred.h"
#include "backends/mtia/engine/driver.h"
#include "backends/mtia/engine/execution.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/op_pool.h"
#include "backends/mtia/engine/streams.h"
#include "backends/mtia/engine/tokens.h"

namespace devrt::mtia {

// Takes operations from their submission to their end, and decides which of
// them may run.  It owns the operations and the list of streams whose first
// operation has to be looked at again.
//
// An operation may run when it is the first of its stream and all that it
// depends on has ended.  The driver, which decides when it runs, is told.
//
// Threads: every member is called inside the machine, but last_op_id.
class Scheduler {
 public:
  // All of them outlive this object.
  Scheduler(const Config* config, History* history, Streams* streams,
            Tokens* tokens, const Execution* execution,
            Collectives* collectives)
      : config_(config),
        history_(history),
        streams_(streams),
        tokens_(tokens),
        execution_(execution),
        collectives_(collectives) {}

  // Sets the driver of the machine that begins.
  void UseDriver(Driver* driver) { driver_ = driver; }
  // Throws away all work.  The driver is at rest.
  void Reset();

  // ---- submission ----

  // A new operation.  The caller fills it in, and submits or recycles it.
  Op* NewOp(OpKind kind, StreamCore* s, HostThread* me, const char* name);
  void Recycle(Op* op);
  // Appends `op` to its stream.
  void Submit(Op* op);
  // Makes the operation at `p` touch no memory, unless it has ended.
  void Drop(const Point& p);
  void Record(Event* event, StreamCore* s, HostThread* me);
  void WaitEvent(StreamCore* s, Event* event, HostThread* me);
  // Ends the handle, and also the stream if the handle owns it.  Submitted work
  // still runs.  Event waits that no operation followed become an operation, so
  // that a wait for the device still covers them.
  void ReleaseStream(Stream* stream, HostThread* me);
  // The number of the newest operation.  From any thread.
  uint64_t last_op_id() const {
    return last_op_id_.load(std::memory_order_relaxed);
  }

  // ---- ends of operations ----

  // Called when `op`, the first of its stream, has run.
  void Complete(Op* op, VTime end);
  // Called when a worker has ended `op`, which was discarded while it ran.
  void Abandon(Op* op) {
    if (op->kind == OpKind::kCopy) --running_discarded_copies_;
    Retire(op);
  }
  // Discards all work of the busy streams of `device`, and what waits for it.
  // `origin` outlives the failure.
  void FailStreams(uint32_t device, const Fault* origin);
  // Tells the driver which operations may run now.
  void Drain();

  // True if a copy that was discarded still touches memory.
  bool has_running_discarded_copies() const {
    return running_discarded_copies_ != 0;
  }
  // What has to be called outside the machine.
  bool has_deferred() const { return !deferred_.empty(); }
  Deferred TakeDeferred() { return std::exchange(deferred_, Deferred()); }

 private:
  void Append(Op* op, StreamCore* s);
  void Enqueue(StreamCore* s);
  void EvaluateHead(StreamCore* s);
  void BlockOn(StreamCore* s, const Point& p);
  void StopWaiting(StreamCore* s);
  void WakeWaiters(StreamCore* s);
  void PopHead(StreamCore* s);
  void Retire(Op* op);
  void Fail(StreamCore* s, const Fault* origin);
  void DiscardAll(StreamCore* s);
  void DiscardOp(Op* op, const Fault& fault);
  void ThrowAway(StreamCore* s);

  const Config* const config_;
  History* const history_;
  Streams* const streams_;
  Tokens* const tokens_;
  const Execution* const execution_;
  Collectives* const collectives_;
  Driver* driver_ = nullptr;
  OpPool pool_;
  Deferred deferred_;
  std::vector<StreamCore*> to_evaluate_;
  bool draining_ = false;
  bool discarded_ = false;  // since the driver was told
  uint32_t running_discarded_copies_ = 0;
  std::atomic<uint64_t> last_op_id_{0};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_SCHEDULER_H_
