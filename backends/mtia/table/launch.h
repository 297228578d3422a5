// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_TABLE_LAUNCH_H_
#define DEVRT_BACKENDS_MTIA_TABLE_LAUNCH_H_

#include "backends/mtia/table/submit.h"
#include "devrt/backends/abi/devrt_launch.h"

namespace devrt::mtia {

// Submits a kernel.  After an error `desc.arg` still belongs to the caller.
devrt_status SubmitKernel(Submission* submission,
                          const devrt_launch_desc_v0& desc);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_LAUNCH_H_
