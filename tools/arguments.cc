// SPDX-License-Identifier: Apache-2.0
#include "tools/arguments.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "backends/text/text.h"
#include "tools/text.h"

namespace devrt::tools {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 21;

const Flag* FindFlag(const Command& command, std::string_view name) {
  for (const Flag& flag : command.flags) {
    if (flag.name == name || (flag.letter != nullptr && flag.letter == name)) {
      return &flag;
    }
  }
  return nullptr;
}

std::vector<std::string> FlagNames(const Command& command) {
  std::vector<std::string> names;
  for (const Flag& flag : command.flags) names.emplace_back(flag.name);
  return names;
}

std::string FlagTitle(const Flag& flag) {
  return flag.value == nullptr
             ? flag.name
             : absl::StrFormat("%s=%s", flag.name, flag.value);
}

// How many words the command takes besides its flags.
size_t ArgumentCount(const Command& command) {
  if (command.argument == nullptr) return 0;
  const std::string_view words = command.argument;
  return 1 + static_cast<size_t>(std::count(words.begin(), words.end(), ' '));
}

bool TakesRest(const Command& command) {
  return command.argument != nullptr && absl::EndsWith(command.argument, "...");
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
  Arguments arguments;
  bool flags_ended = false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!flags_ended && word == "--") {
      flags_ended = true;
    } else if (!flags_ended && word.size() > 1 && word[0] == '-') {
      absl::Status added =
          arguments.Add(command, word, words.subspan(i + 1), &i);
      if (!added.ok()) return added;
    } else {
      arguments.words_.push_back(word);
      // The rest of a program's command line is the program's.
      flags_ended = flags_ended || TakesRest(command);
    }
  }
  const size_t most =
      TakesRest(command) ? words.size() : ArgumentCount(command);
  if (arguments.words_.size() > most) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "unexpected argument %s", Quoted(arguments.words_[most])));
  }
  return arguments;
}

absl::Status Arguments::Add(const Command& command, const std::string& word,
                            absl::Span<const std::string> rest, size_t* used) {
  const size_t equals = word.find('=');
  const bool has_value = equals != std::string::npos;
  std::string name = word.substr(0, equals);
  const Flag* flag = FindFlag(command, name);
  if (flag == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrFormat("unknown flag %s%s", Quoted(name),
                        DidYouMean(name, FlagNames(command))));
  }
  name = flag->name;
  std::string value = has_value ? word.substr(equals + 1) : "";
  if (flag->value == nullptr && has_value) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s takes no value, but was given %s", name, Quoted(value)));
  }
  if (flag->value != nullptr && !has_value) {
    // A value that looks like a flag is a forgotten one; "-" alone is none.
    if (rest.empty() || (rest[0].size() > 1 && rest[0][0] == '-')) {
      return absl::InvalidArgumentError(
          absl::StrFormat("%s needs a value: %s", name, FlagTitle(*flag)));
    }
    value = rest[0];
    ++*used;
  }
  if (flag->value != nullptr && value.empty()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the value of %s is empty: %s", name, FlagTitle(*flag)));
  }
  flags_.emplace_back(name, std::move(value));
  return absl::OkStatus();
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
  text += "\n\n" + Wrap(command.details, kWidth, 0) + "\n\nFlags:\n";
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
            Wrap(flag.help, kWidth, kHelpColumn) + "\n";
  }
  text += "\nExit codes: 0 success; 1 failure; 2 wrong usage.\n";
  return text;
}

}  // namespace devrt::tools
