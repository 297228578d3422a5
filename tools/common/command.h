// SPDX-License-Identifier: Apache-2.0
//
// A subcommand of `devrt`: its name, its texts, its flags and its function.
// tools/commands.h names all of them.

#ifndef DEVRT_TOOLS_COMMON_COMMAND_H_
#define DEVRT_TOOLS_COMMON_COMMAND_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace devrt::tools {

// Exit codes of every command; docs/reference/cli.md promises them.
inline constexpr int kSuccess = 0;
inline constexpr int kFailure = 1;
inline constexpr int kUsage = 2;

class Arguments;

struct Flag {
  const char* name;              // "--size"
  const char* value;             // "MiB", "[N]" if it may be left out; nullptr
                                 // for a switch
  const char* help;              // one sentence, wrapped when printed
  const char* letter = nullptr;  // "-o", a short name; or nullptr
};

struct Command {
  const char* name;  // "info"
  // The arguments, "NAME [DIR]", one word for each.  "..." at the end: the rest
  // is the command line of another program.  nullptr: no arguments.
  const char* argument;
  const char* summary;  // one line of `devrt --help`
  const char* details;  // paragraphs of `devrt info --help`
  absl::Span<const Flag> flags;
  int (*run)(const Arguments& arguments);
};

inline constexpr Flag kJsonFlag = {
    "--json", nullptr, "Print one JSON object, for programs to read."};
inline constexpr Flag kHelpFlag = {"--help", nullptr, "Print this text.", "-h"};

// Prints "devrt NAME: TEXT" and how to get help to stderr.  Returns kUsage.
int UsageError(const Command& command, std::string_view text);

// Prints "devrt NAME: TEXT" to stderr.  Returns kFailure.
int Failure(const Command& command, std::string_view text);

// The message of `status`.
std::string Explain(const absl::Status& status);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_COMMAND_H_
