// SPDX-License-Identifier: Apache-2.0
//
// Memory snapshots for PyTorch's memory viewer.

#ifndef DEVRT_TOOLS_MEMORY_TORCH_PICKLE_H_
#define DEVRT_TOOLS_MEMORY_TORCH_PICKLE_H_

#include <string>

#include "devrt/memory/history.h"

namespace devrt::tools {

// The bytes of a pickle that the viewer opens: the dictionaries that PyTorch's
// documentation describes, without a class (docs/reference/memory-snapshot.md).
std::string ToTorchPickle(const MemorySnapshot& snapshot);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_MEMORY_TORCH_PICKLE_H_
