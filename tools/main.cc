// SPDX-License-Identifier: Apache-2.0
//
// The command `devrt`: finds the subcommand, runs it and returns its exit code.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

const Command* const kCommands[] = {
    &kDemoCommand,        &kListCommand,    &kInfoCommand,
    &kTopoCommand,        &kInspectCommand, &kMemoryCommand,
    &kCollectivesCommand, &kBenchCommand,   &kCtsCommand,
    &kTraceCommand,       &kCheckCommand,   &kNewBackendCommand};

std::string Usage() {
  std::string text =
      "devrt: one runtime for every accelerator in the process\n\n"
      "usage: devrt COMMAND [flags]\n\nCommands:\n";
  size_t longest = 0;
  for (const Command* command : kCommands) {
    longest = std::max(longest, std::strlen(command->name));
  }
  for (const Command* command : kCommands) {
    text += absl::StrFormat("  %s  %s\n", PadRight(command->name, longest),
                            command->summary);
  }
  text +=
      "\nFlags:\n"
      "  --help     Print this text, or that of a command: devrt demo --help.\n"
      "  --version  Print the version.\n"
      "\nExit codes: 0 success; 1 failure; 2 wrong usage.\n";
  return text;
}

const Command* FindCommand(const std::string& name) {
  for (const Command* command : kCommands) {
    if (command->name == name) return command;
  }
  return nullptr;
}

int WrongUsage(const std::string& text) {
  absl::FPrintF(stderr, "devrt: %s\nTry: devrt --help\n", text);
  return kUsage;
}

int UnknownCommand(const std::string& word) {
  std::vector<std::string> choices = {"--help", "--version", "help"};
  for (const Command* command : kCommands) choices.emplace_back(command->name);
  const char* what = word[0] == '-' ? "flag" : "command";
  return WrongUsage(absl::StrFormat("unknown %s %s%s", what, Quoted(word),
                                    DidYouMean(word, choices)));
}

int RunCommand(const Command& command, const std::vector<std::string>& words) {
  absl::StatusOr<Arguments> arguments = Arguments::Parse(command, words);
  if (!arguments.ok()) {
    return UsageError(command, Explain(arguments.status()));
  }
  if (arguments->Has(kHelpFlag.name)) {
    Print(HelpText(command));
    return kSuccess;
  }
  return command.run(*arguments);
}

int Run(std::vector<std::string> words) {
  if (words.empty()) return WrongUsage("no command given\n\n" + Usage());
  std::string first = words[0];
  words.erase(words.begin());
  if (first == "help" && !words.empty()) {
    first = words[0];
    words[0] = kHelpFlag.name;
  }
  const bool version = first == "--version";
  if (version || first == "--help" || first == "-h" || first == "help") {
    if (!words.empty()) {
      return WrongUsage(
          absl::StrFormat("%s takes no %s", first, Quoted(words[0])));
    }
    Print(version ? "devrt " DEVRT_VERSION "\n" : Usage());
    return kSuccess;
  }
  const Command* command = FindCommand(first);
  return command == nullptr ? UnknownCommand(first)
                            : RunCommand(*command, words);
}

}  // namespace

}  // namespace devrt::tools

int main(int argc, char** argv) {
  using devrt::tools::kFailure;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) words.emplace_back(argv[i]);
  const int code = devrt::tools::Run(std::move(words));
  const absl::Status flushed = devrt::tools::FlushOutput();
  if (flushed.ok()) return code;
  absl::FPrintF(stderr, "devrt: %s\n", flushed.message());
  return code == 0 ? kFailure : code;
}
