// SPDX-License-Identifier: Apache-2.0
#include "layers/validate/notice.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "layers/validate/report.h"

namespace devrt::race {
namespace {

using nlohmann::json;

json PartJson(const Notice& notice, size_t i) {
  const Notice::Part& part = notice.parts[i];
  json out = {{"name", part.name},
              {"actor", part.actor},
              {"number", i + 1},
              {"site", part.site}};
  AddStack(part.stack, &out);
  return out;
}

// Takes "(a.cc:88)" off the end of a link of the simulator's chain.  "(after
// a.cc:88)" is not the link's place.
void TakeSite(Notice::Part* part) {
  const size_t open = part->line.rfind(" (");
  const size_t close = part->line.find(')', open);
  if (open == std::string::npos || close == std::string::npos) return;
  const std::string inside = part->line.substr(open + 2, close - open - 2);
  const size_t colon = inside.rfind(':');
  if (colon == std::string::npos || inside.rfind("after ", 0) == 0 ||
      inside.find_first_not_of("0123456789", colon + 1) != std::string::npos) {
    return;
  }
  part->site = inside;
  part->line.erase(open, close + 1 - open);
}

Notice::Part LinkOf(const std::string& text) {
  Notice::Part part;
  part.line = text;
  TakeSite(&part);
  const size_t space = part.line.find(' ');
  part.actor = part.line.substr(0, space);
  part.name = space == std::string::npos ? "" : part.line.substr(space + 1);
  return part;
}

// Calls each(piece) for the pieces of `text` between `separator`s.
template <typename Each>
void ForEachPiece(const std::string& text, const std::string& separator,
                  Each each) {
  size_t begin = 0;
  for (size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size()) {
    each(text.substr(begin, end - begin));
  }
  each(text.substr(begin));
}

}  // namespace

Notice DeadlockNotice(const std::string& text) {
  Notice notice;
  notice.kind = "deadlock";
  const size_t colon = text.find(": ");
  notice.heading = text.substr(0, colon) == "deadlock"
                       ? "a thread waits for what cannot go on"
                       : text.substr(0, colon);
  std::string chain = colon == std::string::npos ? "" : text.substr(colon + 2);
  chain.erase(std::min(chain.find(". No "), chain.size()));
  ForEachPiece(chain, "; ", [&](const std::string& thread) {
    ForEachPiece(thread, " -> ", [&](const std::string& link) {
      notice.parts.push_back(LinkOf(link));
    });
  });
  notice.remedy =
      "let work or a thread that the chain does not name set the flag or end "
      "the host function, or enqueue it before the wait";
  return notice;
}

std::string NoticeId(const Notice& notice) {
  std::string text = notice.kind + "|" + notice.key;
  for (const Notice::Part& part : notice.parts) {
    text += "|" + StablePlace(part.site);
  }
  return HashedId(text);
}

std::string NoticeText(const Notice& notice) {
  std::string text =
      NoticeId(notice) + " [" + notice.kind + "] " + notice.heading + "\n";
  for (const Notice::Part& part : notice.parts) {
    text += "  " + part.line;
    if (!part.site.empty()) text += "  " + part.site;
    text += "\n" + StackLines(part.stack);
  }
  return text + "  to mend it: " + notice.remedy;
}

std::string NoticeJson(const Notice& notice) {
  json parts = json::array();
  for (size_t i = 0; i < notice.parts.size(); ++i) {
    parts.push_back(PartJson(notice, i));
  }
  const json out = {
      {"id", NoticeId(notice)},     {"kind", notice.kind},
      {"text", NoticeText(notice)}, {"heading", notice.heading},
      {"participants", parts},      {"near_misses", json::array()},
      {"remedy", notice.remedy}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace devrt::race
