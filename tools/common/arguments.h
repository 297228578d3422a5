// SPDX-License-Identifier: Apache-2.0
//
// The command line of one subcommand: CLI11 parses the words against the
// command's table of flags, and the command then asks for the flags by name.

#ifndef DEVRT_TOOLS_COMMON_ARGUMENTS_H_
#define DEVRT_TOOLS_COMMON_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/common/command.h"

namespace devrt::tools {

class Arguments {
 public:
  // `words` are the words after the command's name.  A value follows its flag
  // as "--flag=value" or "--flag value".  A value that may be left out follows
  // as "--flag=value" only; without it the flag's value is "true".  "--" ends
  // the flags.
  // INVALID_ARGUMENT names the wrong word and the nearest flag.
  static absl::StatusOr<Arguments> Parse(const Command& command,
                                         absl::Span<const std::string> words);

  bool Has(std::string_view flag) const { return Find(flag) != nullptr; }
  // The last value of the flag, or `otherwise` if the flag was not given.
  std::string Get(std::string_view flag, std::string_view otherwise) const;
  // All values of a flag that may be given several times, in order.
  std::vector<std::string> All(std::string_view flag) const;
  // The value as a number; INVALID_ARGUMENT unless it is a whole number from
  // `least` to `most`.
  absl::StatusOr<int64_t> GetNumber(std::string_view flag, int64_t otherwise,
                                    int64_t least, int64_t most) const;
  // The words besides the flags.
  const std::vector<std::string>& words() const { return words_; }

 private:
  absl::Status AddWords(const Command& command,
                        absl::Span<const std::string> rest);
  const std::string* Find(std::string_view flag) const;

  std::vector<std::pair<std::string, std::string>> flags_;
  std::vector<std::string> words_;
};

// The choice that is most like `word`; "" if none is like it.
std::string Nearest(std::string_view word,
                    absl::Span<const std::string> choices);

// ` (did you mean "--size"?)`, or "" if no choice is like `word`.
std::string DidYouMean(std::string_view word,
                       absl::Span<const std::string> choices);

// The whole text of `devrt NAME --help`, 80 columns.
std::string HelpText(const Command& command);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_ARGUMENTS_H_
