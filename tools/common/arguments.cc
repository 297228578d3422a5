// SPDX-License-Identifier: Apache-2.0
#include "tools/common/arguments.h"

#include <algorithm>
#include <charconv>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/text/text.h"
#include "devrt/runtime/status.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

constexpr size_t kHelpColumn = 21;

std::vector<std::string> FlagNames(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : command.flags) names.emplace_back(flag.name);
  return names;
}

// A switch, or a flag whose value may be left out: "--flag" or "--flag=value".
bool MayStandAlone(const Flag& flag) {
  return flag.value == nullptr || flag.value[0] == '[';
}

// "--size=MiB", "--witness[=RUNS]"
std::string FlagTitle(const Flag& flag) {
  if (flag.value == nullptr) return flag.name;
  if (MayStandAlone(flag)) {
    return absl::StrFormat("%s[=%s", flag.name, flag.value + 1);
  }
  return absl::StrFormat("%s=%s", flag.name, flag.value);
}

// The number of words that the command takes besides its flags.
size_t ArgumentCount(const Command& command) {
  if (command.argument == nullptr) return 0;
  const std::string_view words = command.argument;
  return 1 + static_cast<size_t>(std::count(words.begin(), words.end(), ' '));
}

bool TakesRest(const Command& command) {
  return command.argument != nullptr && absl::EndsWith(command.argument, "...");
}

// "-" alone names standard input or output.
bool LooksLikeFlag(std::string_view word) {
  return word.size() > 1 && word[0] == '-';
}

// `value` is what CLI11 found: "true" for a switch without a value.
absl::Status CheckValue(const Flag& flag, const std::string& value) {
  if (flag.value == nullptr && value != "true") {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s takes no value, but was given %s", flag.name, Quoted(value)));
  }
  if (flag.value != nullptr && value.empty()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s needs a value: %s", flag.name, FlagTitle(flag)));
  }
  return absl::OkStatus();
}

}  // namespace

std::string Nearest(std::string_view word,
                    absl::Span<const std::string> choices) {
  constexpr size_t kLongest = 40;  // the distance is quadratic
  constexpr size_t kShortestPrefix = 3;
  if (word.size() > kLongest) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& choice : choices) {
    const std::string_view bare =
        word.substr(std::min(word.find_first_not_of('-'), word.size()));
    const bool prefix =
        bare.size() >= kShortestPrefix &&
        choice.compare(choice.find_first_not_of('-'), bare.size(), bare) == 0;
    const size_t distance = prefix ? 1 : internal::EditDistance(word, choice);
    if (distance < best_distance) {
      best = choice;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(std::string_view word,
                       absl::Span<const std::string> choices) {
  const std::string nearest = Nearest(word, choices);
  return nearest.empty() ? ""
                         : absl::StrFormat(" (did you mean \"%s\"?)", nearest);
}

absl::StatusOr<Arguments> Arguments::Parse(
    const Command& command, absl::Span<const std::string> words) {
  CLI::App app;
  app.set_help_flag();  // each command has --help in its table
  app.allow_extras();   // DidYouMean answers for flags that are not there
  app.prefix_command(TakesRest(command));
  std::vector<std::pair<const Flag*, CLI::Option*>> options;
  for (const Flag& flag : command.flags) {
    const std::string names =
        absl::StrCat(flag.name, flag.letter == nullptr ? "" : ",",
                     flag.letter == nullptr ? "" : flag.letter);
    CLI::Option* const option = MayStandAlone(flag)
                                    ? app.add_flag(names)
                                    : app.add_option(names)->expected(0, 1);
    options.emplace_back(&flag, option->take_all());
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(Printable(error.what()));
  }
  Arguments arguments;
  for (const auto& [flag, option] : options) {
    for (const std::string& value : option->results()) {
      DEVRT_RETURN_IF_ERROR(CheckValue(*flag, value));
      arguments.flags_.emplace_back(flag->name, value);
    }
  }
  DEVRT_RETURN_IF_ERROR(arguments.AddWords(command, app.remaining()));
  return arguments;
}

// `rest` has the words that are neither flags of the command nor their values,
// and the "--" that ends the flags.
absl::Status Arguments::AddWords(const Command& command,
                                 absl::Span<const std::string> rest) {
  bool flags_ended = false;
  for (const std::string& word : rest) {
    if (!flags_ended && word == "--") {
      flags_ended = true;
    } else if (!flags_ended && LooksLikeFlag(word)) {
      const std::string name = word.substr(0, word.find('='));
      return absl::InvalidArgumentError(
          absl::StrFormat("unknown flag %s%s", Quoted(name),
                          DidYouMean(name, FlagNames(command))));
    } else {
      words_.push_back(word);
      flags_ended = flags_ended || TakesRest(command);
    }
  }
  if (TakesRest(command) || words_.size() <= ArgumentCount(command)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "unexpected argument %s", Quoted(words_[ArgumentCount(command)])));
}

const std::string* Arguments::Find(std::string_view flag) const {
  for (size_t i = flags_.size(); i-- > 0;) {
    if (flags_[i].first == flag) return &flags_[i].second;
  }
  return nullptr;
}

std::string Arguments::Get(std::string_view flag,
                           std::string_view otherwise) const {
  const std::string* value = Find(flag);
  return value == nullptr ? std::string(otherwise) : *value;
}

std::vector<std::string> Arguments::All(std::string_view flag) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : flags_) {
    if (name == flag) values.push_back(value);
  }
  return values;
}

absl::StatusOr<int64_t> Arguments::GetNumber(std::string_view flag,
                                             int64_t otherwise, int64_t least,
                                             int64_t most) const {
  const std::string* text = Find(flag);
  if (text == nullptr) return otherwise;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s is a whole number from %d to %d, not %s", flag,
                        least, most, Quoted(*text)));
  }
  return value;
}

std::string HelpText(const Command& command) {
  std::string text =
      absl::StrFormat("devrt %s: %s\n\n", command.name, command.summary);
  text += absl::StrFormat("usage: devrt %s [flags]", command.name);
  if (command.argument != nullptr) {
    text += absl::StrFormat(" %s", command.argument);
  }
  text += "\n\n" + Wrap(command.details, kTextWidth, 0) + "\n\nFlags:\n";
  for (const Flag& flag : command.flags) {
    std::string title = "  " + FlagTitle(flag);
    if (flag.letter != nullptr) {
      title = absl::StrFormat(
          "  %s%s%s, %s", flag.letter, flag.value == nullptr ? "" : " ",
          flag.value == nullptr ? "" : flag.value, FlagTitle(flag));
    }
    if (title.size() + 2 > kHelpColumn) {
      text += title + "\n";
      title.clear();
    }
    text += PadRight(title, kHelpColumn) +
            Wrap(flag.help, kTextWidth, kHelpColumn) + "\n";
  }
  text += "\nExit codes: 0 success; 1 failure; 2 wrong usage.\n";
  return text;
}

}  // namespace devrt::tools
