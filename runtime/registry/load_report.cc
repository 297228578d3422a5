// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/load_report.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/text/settings.h"
#include "runtime/common/text.h"
#include "runtime/registry/discovery.h"

namespace devrt::internal {
namespace {

using Result = LoadAttempt::Result;

// True if the file has no manifest, but `name` in its file name.
bool IsNamedAfter(const LoadAttempt& attempt, std::string_view name) {
  return attempt.backend.empty() &&
         absl::EndsWith(attempt.path,
                        absl::StrCat("/libdevrt_", ToAbsl(name), ".so"));
}

absl::StatusCode CodeFor(std::string_view name,
                         const std::vector<LoadAttempt>& attempts) {
  for (const LoadAttempt& attempt : attempts) {
    if (attempt.result != Result::kRefused) continue;
    if (attempt.source == kSourcePlugins || IsNamedAfter(attempt, name)) {
      return attempt.status.code();
    }
  }
  return absl::StatusCode::kNotFound;
}

void AppendList(std::string* text, const char* title,
                const std::vector<std::string>& parts) {
  if (!parts.empty()) {
    absl::StrAppend(text, "; ", title, ": ", absl::StrJoin(parts, "; "));
  }
}

}  // namespace

std::string NearestBackend(std::string_view name,
                           const std::vector<std::string>& known) {
  std::vector<std::string> candidates = known;
  for (const char* const own : {"cuda", "hip", "mtia"}) {
    candidates.push_back(own);
  }
  std::string nearest;
  size_t least = 0;
  for (std::string& candidate : candidates) {
    if (candidate == name) return "";
    const std::optional<size_t> distance = TypingDistance(name, candidate);
    if (!distance || (!nearest.empty() && *distance >= least)) continue;
    least = *distance;
    nearest = std::move(candidate);
  }
  return nearest;
}

absl::Status NotFoundError(std::string_view name,
                           const std::vector<LoadAttempt>& attempts) {
  std::vector<std::string> known, refused, searched, ignored;
  for (const LoadAttempt& attempt : attempts) {
    if (attempt.source == kSourceLayers) continue;
    switch (attempt.result) {
      case Result::kRefused:
        refused.push_back(std::string(ToStd(attempt.status.message())));
        break;
      case Result::kSearched:
        searched.push_back(
            absl::StrCat(PathText(attempt.path), " (", attempt.source,
                         attempt.status.ok() ? "" : ", does not exist", ")"));
        break;
      case Result::kShadowed:
        break;
      case Result::kIgnored:
        ignored.push_back(attempt.source);
        break;
      default:
        known.push_back(attempt.backend);
    }
  }
  std::string text = absl::StrCat("no backend ", Quoted(name), " was found");
  const std::string nearest = NearestBackend(name, known);
  if (!nearest.empty()) {
    absl::StrAppend(&text, "; did you mean \"", nearest, "\"?");
  }
  if (known.empty()) known.push_back("none");
  AppendList(&text, "known backends", known);
  AppendList(&text, "refused", refused);
  AppendList(&text, "searched", searched);
  AppendList(&text, "ignored, as this program has more rights than its user",
             ignored);
  return absl::Status(CodeFor(name, attempts), text);
}

absl::Status WithOtherPaths(const absl::Status& failure,
                            const LoadAttempt& attempt,
                            const std::vector<LoadAttempt>& attempts) {
  std::vector<std::string> others;
  for (const LoadAttempt& other : attempts) {
    if (other.source == attempt.source && other.path == attempt.path) continue;
    const bool unused =
        other.result == Result::kRefused || other.result == Result::kShadowed;
    if (unused && (other.backend == attempt.backend ||
                   IsNamedAfter(other, attempt.backend))) {
      others.push_back(std::string(ToStd(other.status.message())));
    }
  }
  std::string list;
  AppendList(&list, "other files", others);
  return WithSuffix(failure, list);
}

std::string FormatAttempts(const std::vector<LoadAttempt>& attempts) {
  std::string text;
  for (const LoadAttempt& attempt : attempts) {
    absl::StrAppendFormat(
        &text, "%-8s  %-17s  %s", ToString(attempt.result), attempt.source,
        attempt.path.empty() ? "(no file)" : PathText(attempt.path));
    if (!attempt.backend.empty()) {
      absl::StrAppend(&text, "  ", attempt.backend, " ", attempt.version);
    }
    if (!attempt.status.ok()) {
      absl::StrAppend(&text, "  ", attempt.status.message());
    }
    text += '\n';
  }
  return text;
}

}  // namespace devrt::internal
