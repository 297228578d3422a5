// SPDX-License-Identifier: Apache-2.0
//
// The command line of one subcommand: CLI11 parses the words against the
// command's table of flags, and the command then asks for the flags by name.

#ifndef DEVRT_TOOLS_ARGUMENTS_H_
#define DEVRT_TOOLS_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/command.h"

namespace devrt::tools {

class Arguments {
 public:
  // `words` follow the command's name.  "--flag=value" and "--flag value" are
  // the same; the last of several wins, but for All; "--" ends the flags.
  // INVALID_ARGUMENT names the word and the nearest flag.
  static absl::StatusOr<Arguments> Parse(const Command& command,
                                         absl::Span<const std::string> words);

  bool Has(std::string_view flag) const { return Find(flag) != nullptr; }
  // The flag's value, or `otherwise` when it was not given.
  std::string Get(std::string_view flag, std::string_view otherwise) const;
  // The values of a flag that counts each time, in their order.
  std::vector<std::string> All(std::string_view flag) const;
  // INVALID_ARGUMENT unless it is a whole number from `least` to `most`.
  absl::StatusOr<int64_t> GetNumber(std::string_view flag, int64_t otherwise,
                                    int64_t least, int64_t most) const;
  // The words that are no flags.
  const std::vector<std::string>& words() const { return words_; }

 private:
  absl::Status AddWords(const Command& command,
                        absl::Span<const std::string> rest);
  const std::string* Find(std::string_view flag) const;

  std::vector<std::pair<std::string, std::string>> flags_;
  std::vector<std::string> words_;
};

// The one of `choices` that `word` was probably meant to be, or "".
std::string Nearest(std::string_view word,
                    absl::Span<const std::string> choices);

// ` (did you mean "--size"?)`, or "".
std::string DidYouMean(std::string_view word,
                       absl::Span<const std::string> choices);

// The whole text of `devrt NAME --help`, 80 columns.
std::string HelpText(const Command& command);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_ARGUMENTS_H_
