// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of `devrt`.  Each has a file, which defines its Command.

#ifndef DEVRT_TOOLS_COMMANDS_H_
#define DEVRT_TOOLS_COMMANDS_H_

#include "tools/common/command.h"

namespace devrt::tools {

extern const Command kBenchCommand;
extern const Command kCheckCommand;
extern const Command kCollectivesCommand;
extern const Command kListCommand;
extern const Command kInfoCommand;
extern const Command kInspectCommand;
extern const Command kTopoCommand;
extern const Command kDemoCommand;
extern const Command kMemoryCommand;
extern const Command kTraceCommand;
extern const Command kCtsCommand;
extern const Command kNewBackendCommand;

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMANDS_H_
