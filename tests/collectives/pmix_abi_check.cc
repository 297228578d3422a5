// SPDX-License-Identifier: Apache-2.0
//
// Compiles if pmix_abi.h declares what the installed pmix.h declares.
#include <pmix.h>

#include <cstddef>
#include <cstring>

#include "collectives/bootstrap/pmix_abi.h"

namespace pmix = devrt::collectives::internal::pmix;

static_assert(pmix::kSuccess == PMIX_SUCCESS);
static_assert(pmix::kTimeout == PMIX_ERR_TIMEOUT);
static_assert(pmix::kNotFound == PMIX_ERR_NOT_FOUND);
static_assert(pmix::kGlobal == PMIX_GLOBAL);
static_assert(pmix::kUint32 == PMIX_UINT32);
static_assert(pmix::kByteObject == PMIX_BYTE_OBJECT);
static_assert(pmix::kWildcard == (PMIX_RANK_WILDCARD));
static_assert(sizeof(pmix::Status) == sizeof(pmix_status_t));

static_assert(sizeof(pmix::Proc) == sizeof(pmix_proc_t));
static_assert(offsetof(pmix::Proc, rank) == offsetof(pmix_proc_t, rank));
static_assert(sizeof(pmix::Value) == sizeof(pmix_value_t));
static_assert(sizeof(pmix::Value::type) == sizeof(pmix_value_t::type));
static_assert(offsetof(pmix::Value, data) == offsetof(pmix_value_t, data));
static_assert(offsetof(pmix::Value, data.object.size) ==
              offsetof(pmix_value_t, data.bo.size));
static_assert(sizeof(pmix_scope_t) == sizeof(uint8_t));

int main() { return std::strcmp(pmix::kJobSize, PMIX_JOB_SIZE) == 0 ? 0 : 1; }
