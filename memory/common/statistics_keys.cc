// SPDX-License-Identifier: Apache-2.0

#include "memory/common/statistics_keys.h"

#include <utility>

namespace devrt {
namespace internal {

namespace {

void Add(StatisticFields* fields, const std::string& name, Stat* stat) {
  fields->emplace(name + ".current", &stat->current);
  fields->emplace(name + ".peak", &stat->peak);
  fields->emplace(name + ".allocated", &stat->allocated);
  fields->emplace(name + ".freed", &stat->freed);
}

void Add(StatisticFields* fields, const std::string& name, PoolStat* stat) {
  Add(fields, name + ".all", &stat->all);
  Add(fields, name + ".small_pool", &stat->small_pool);
  Add(fields, name + ".large_pool", &stat->large_pool);
}

void Add(StatisticFields* fields, const std::string& name, DurationStat* stat) {
  fields->emplace(name + ".total", &stat->total);
  fields->emplace(name + ".max", &stat->max);
  fields->emplace(name + ".min", &stat->min);
  fields->emplace(name + ".count", &stat->count);
  fields->emplace(name + ".avg", &stat->avg);
}

StatisticKeys Values(const StatisticFields& fields) {
  StatisticKeys keys;
  keys.reserve(fields.size());
  for (const auto& [name, value] : fields) keys.emplace_back(name, *value);
  return keys;
}

}  // namespace

StatisticFields FieldsOf(MemoryStatistics* s) {
  StatisticFields fields;
  Add(&fields, "allocation", &s->allocation);
  Add(&fields, "segment", &s->segment);
  Add(&fields, "active", &s->active);
  Add(&fields, "inactive_split", &s->inactive_split);
  Add(&fields, "allocated_bytes", &s->allocated_bytes);
  Add(&fields, "reserved_bytes", &s->reserved_bytes);
  Add(&fields, "active_bytes", &s->active_bytes);
  Add(&fields, "inactive_split_bytes", &s->inactive_split_bytes);
  Add(&fields, "requested_bytes", &s->requested_bytes);
  Add(&fields, "oversize_allocations", &s->oversize_allocations);
  Add(&fields, "oversize_segments", &s->oversize_segments);
  fields.emplace("num_alloc_retries", &s->num_alloc_retries);
  fields.emplace("num_ooms", &s->num_ooms);
  fields.emplace("num_sync_all_streams", &s->num_sync_all_streams);
  fields.emplace("num_device_alloc", &s->num_device_alloc);
  fields.emplace("num_device_free", &s->num_device_free);
  fields.emplace("max_split_size", &s->max_split_size);
  return fields;
}

StatisticFields FieldsOf(PinnedStatistics* s) {
  StatisticFields fields;
  Add(&fields, "allocations", &s->allocations);
  Add(&fields, "active_requests", &s->active_requests);
  Add(&fields, "allocated_bytes", &s->allocated_bytes);
  Add(&fields, "active_bytes", &s->active_bytes);
  fields.emplace("num_host_alloc", &s->num_host_alloc);
  fields.emplace("num_host_free", &s->num_host_free);
  Add(&fields, "host_alloc_time", &s->host_alloc_time);
  Add(&fields, "host_free_time", &s->host_free_time);
  return fields;
}

}  // namespace internal

StatisticKeys ToKeys(const MemoryStatistics& statistics) {
  MemoryStatistics copy = statistics;
  return internal::Values(internal::FieldsOf(&copy));
}

StatisticKeys ToKeys(const PinnedStatistics& statistics) {
  PinnedStatistics copy = statistics;
  return internal::Values(internal::FieldsOf(&copy));
}

}  // namespace devrt
