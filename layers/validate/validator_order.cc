// SPDX-License-Identifier: Apache-2.0
//
// Order that the Validator learns late: flags, and devrt's own queries
// (docs/decisions/0030-order-known-late.md).
#include <mutex>

#include "layers/validate/validator.h"

namespace devrt::race {
namespace {

using Lock = std::lock_guard<FindingsMutex>;

uint64_t NumberOf(devrt_flag flag) { return reinterpret_cast<uint64_t>(flag); }

}  // namespace

void Validator::WaitForFlag(const Caller& caller, devrt_stream stream,
                            devrt_flag flag) {
  const Lock lock(mutex_);
  const StreamEntry entry = Find(stream, caller.stream_number);
  if (entry.actor == kNoActor) return;
  detector_.WaitForFlag(ToCall(caller), entry.actor, NumberOf(flag));
}

void Validator::SetFlag(const Caller& caller, devrt_stream stream,
                        devrt_flag flag, bool value) {
  const Lock lock(mutex_);
  if (!value) return detector_.ClearFlag(NumberOf(flag));
  const Actor actor =
      stream == nullptr ? kNoActor : Find(stream, caller.stream_number).actor;
  detector_.SetFlag(ToCall(caller), actor, NumberOf(flag));
}

void Validator::RemoveFlag(devrt_flag flag) {
  const Lock lock(mutex_);
  detector_.RemoveFlag(NumberOf(flag));
}

void Validator::EndOwnQuery(WaitedWork work) {
  const Lock lock(mutex_);
  detector_.EndOwnQuery(work.Take());
}

void Validator::OrderAfterOwnQueries(devrt_stream later) {
  const Lock lock(mutex_);
  if (later == nullptr) return detector_.HostWait(Thread(), detector_.own());
  const StreamEntry entry = Find(later);
  if (entry.actor == kNoActor) return;
  detector_.order().Wait(Thread(), entry.actor, detector_.own());
}

}  // namespace devrt::race
