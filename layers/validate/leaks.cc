// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/leaks.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace devrt::race {
namespace {

// A line has a number for each call stack.
struct Group {
  std::map<uint32_t, uint64_t> counts;  // by the number of the line
  uint64_t count = 0;
  uint64_t bytes = 0;

  void Add(uint32_t site) {
    ++counts[site];
    ++count;
  }
};
// The noun, the device and the line.
using Key = std::tuple<std::string, uint32_t, std::string>;

std::string NounOf(const Block& block) {
  return block.kind == MemoryKind::kPinned ? "pinned block" : "block";
}

Notice NoticeOf(const Key& key, const Group& group, const Names& names) {
  const auto& [noun, device, site] = key;
  const bool many = group.count != 1;
  Notice notice;
  notice.kind = "leak";
  notice.key = noun + "|" + names.DeviceName(device);
  notice.heading = std::to_string(group.count) + " " + noun +
                   (many ? "s" : "") + " of " + names.DeviceName(device);
  if (group.bytes != 0) {
    notice.heading += " with " + std::to_string(group.bytes) + " bytes";
  }
  notice.heading += many ? " are alive at the end" : " is alive at the end";
  Notice::Part made;
  made.name = noun;
  made.actor = "the host";
  made.site = site;
  // The stack that made most of them, the earliest one of several.
  const auto most = std::max_element(
      group.counts.begin(), group.counts.end(),
      [](const auto& a, const auto& b) { return a.second < b.second; });
  made.stack = names.StackOf(most->first);
  made.line = "made";
  if (most->second != group.count) {
    made.line += ", " + std::to_string(most->second) + " of " +
                 std::to_string(group.count) + " by these calls,";
  }
  notice.parts.push_back(std::move(made));
  notice.remedy = (group.bytes != 0 ? "free the " : "destroy the ") + noun +
                  (many ? "s" : "") + " before the end";
  return notice;
}

}  // namespace

void Leaks::RemoveDevices(uint32_t begin, uint32_t end) {
  for (auto at = objects_.begin(); at != objects_.end();) {
    const bool gone = at->second.device >= begin && at->second.device < end;
    at = gone ? objects_.erase(at) : std::next(at);
  }
}

std::vector<Notice> Leaks::Find(const std::vector<const Block*>& live,
                                const Names& names) const {
  std::map<Key, Group> groups;
  for (const auto& [object, made] : objects_) {
    groups[{made.noun, made.device, names.Text(made.site)}].Add(made.site);
  }
  for (const Block* const block : live) {
    Group& group =
        groups[{NounOf(*block), block->device, names.Text(block->made.site)}];
    group.Add(block->made.site);
    group.bytes += block->end - block->begin;
  }
  std::vector<Notice> notices;
  for (const auto& [key, group] : groups) {
    notices.push_back(NoticeOf(key, group, names));
  }
  return notices;
}

}  // namespace devrt::race
