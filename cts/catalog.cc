// SPDX-License-Identifier: Apache-2.0
#include "cts/catalog.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cts/waived.h"

namespace devrt::cts {
namespace {

bool Contains(const std::vector<std::string>& all, std::string_view one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

}  // namespace

const std::vector<TestCase>& Catalog() {
  static const auto* const all = [] {
    auto* const tests = new std::vector<TestCase>;
    const auto add = [tests](absl::Span<const TestCase> of_file) {
      tests->insert(tests->end(), of_file.begin(), of_file.end());
    };
#define DEVRT_CTS_TESTS(function) add(function());
#include "cts/test_lists.inc"
#undef DEVRT_CTS_TESTS
    return tests;
  }();
  return *all;
}

std::string_view GroupOf(const TestCase& test) {
  const std::string_view name = test.name;
  return name.substr(0, name.find('.'));
}

std::vector<std::string> ItemsOf(const TestCase& test) {
  return absl::StrSplit(test.items, ' ', absl::SkipEmpty());
}

TestInfo InfoOf(const TestCase& test) {
  return {std::string(GroupOf(test)), test.name, ItemsOf(test), test.promise};
}

bool IsAbout(std::string_view what, const TestInfo& test) {
  return what == test.name || Contains(test.items, what);
}

const TestCase& Named(std::string_view name) {
  return *std::find_if(Catalog().begin(), Catalog().end(),
                       [&](const TestCase& test) { return test.name == name; });
}

bool IsKnown(std::string_view item_or_test) {
  const auto& all = Catalog();
  return std::any_of(all.begin(), all.end(), [&](const TestCase& test) {
    return IsAbout(item_or_test, InfoOf(test));
  });
}

absl::Status CheckWaived(std::string_view item_or_test) {
  const absl::string_view what(item_or_test.data(), item_or_test.size());
  if (!IsKnown(item_or_test)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no test shows \"", what,
                     "\"; devrt cts --list prints all items and tests"));
  }
  if (what == "load.opens") {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " cannot be waived: nothing else could run"));
  }
  const auto& all = Catalog();
  if (std::none_of(all.begin(), all.end(), [&](const TestCase& test) {
        return IsWaivedBy(item_or_test, InfoOf(test));
      })) {
    return absl::InvalidArgumentError(
        absl::StrCat("no test has ", what,
                     " as its first item; waive the tests that fail by their "
                     "names"));
  }
  return absl::OkStatus();
}

std::vector<std::string> Groups() {
  std::vector<std::string> groups;
  for (const TestCase& test : Catalog()) {
    if (!Contains(groups, GroupOf(test))) groups.emplace_back(GroupOf(test));
  }
  return groups;
}

std::vector<TestInfo> List() {
  std::vector<TestInfo> list;
  for (const TestCase& test : Catalog()) list.push_back(InfoOf(test));
  return list;
}

absl::StatusOr<std::vector<size_t>> Choose(const Options& options) {
  const std::vector<std::string> groups = Groups();
  for (const std::string& group : options.groups) {
    if (Contains(groups, group)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("unknown group \"", group,
                     "\"; there are: ", absl::StrJoin(groups, ", ")));
  }
  for (const std::string& item : options.items) {
    if (IsKnown(item)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "no test shows \"", item, "\"; --list prints all items and tests"));
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < Catalog().size(); ++i) {
    const TestCase& test = Catalog()[i];
    const bool in_group =
        options.groups.empty() || Contains(options.groups, GroupOf(test));
    const bool of_item = options.items.empty() ||
                         std::any_of(options.items.begin(), options.items.end(),
                                     [&](const std::string& s) {
                                       return IsAbout(s, InfoOf(test));
                                     });
    if (in_group && of_item) chosen.push_back(i);
  }
  return chosen;
}

}  // namespace devrt::cts
