// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/finding_picture.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace devrt::tools {
namespace {

// Steps of the picture's order: a bar, and the room behind it.
constexpr uint64_t kBar = 3;
constexpr uint64_t kStep = 4;

class Picture {
 public:
  explicit Picture(const CheckedFinding& finding) : finding_(finding) {
    // Rows in this order.
    Row(finding.earlier.actor);
    Row(finding.later.actor);
    Gather();
    std::sort(operations_.begin(), operations_.end(),
              [](const Drawn& a, const Drawn& b) {
                return a.operation.number < b.operation.number;
              });
    for (const Drawn& drawn : operations_) AddOp(drawn);
  }

  Timeline Draw() {
    timeline_.timed = false;
    timeline_.title = finding_.id + ": " + finding_.kind;
    timeline_.summary = absl::StrFormat(
        "\"%s\" (%s), then \"%s\" (%s), in the order of the calls. Times are "
        "not to scale.",
        finding_.earlier.name, Line(finding_.earlier), finding_.later.name,
        Line(finding_.later));
    timeline_.foot = "To mend it: " + finding_.remedy + ".";
    for (const CheckedNearMiss& miss : finding_.near_misses) {
      timeline_.foot += "\nNear miss: " + miss.text + ".";
    }
    if (finding_.witness.has_value()) {
      timeline_.foot += "\nWitness: " + finding_.witness->text + ".";
    }
    AddArrows();
    return std::move(timeline_);
  }

 private:
  struct Drawn {
    CheckedOperation operation;
    OpKind kind;
  };

  // "train.cc:52"
  static std::string Line(const CheckedOperation& operation) {
    const SourceLine source = SourceLineOf(operation.site);
    if (source.file.empty()) return "an unknown line";
    return absl::StrCat(std::filesystem::path(source.file).filename().string(),
                        ":", source.line);
  }

  // The row of "stream 1 of mtia:0".
  size_t Row(const std::string& actor) {
    const auto known = std::find(actors_.begin(), actors_.end(), actor);
    const auto row = static_cast<size_t>(known - actors_.begin());
    if (known != actors_.end()) return row;
    actors_.push_back(actor);
    const size_t of = actor.rfind(" of ");
    timeline_.rows.push_back(
        of == std::string::npos
            ? TimelineRow{"host", actor}
            : TimelineRow{actor.substr(of + 4), actor.substr(0, of)});
    return row;
  }

  void Add(const CheckedOperation& operation, OpKind kind) {
    const bool known = std::any_of(
        operations_.begin(), operations_.end(), [&](const Drawn& other) {
          return other.operation.number == operation.number;
        });
    if (!known) operations_.push_back({operation, kind});
  }

  // A call of two near misses, such as one record for two waits, counts once.
  void Gather() {
    Add(finding_.earlier, OpKind::kOther);
    Add(finding_.later, OpKind::kOther);
    for (const CheckedNearMiss& miss : finding_.near_misses) {
      if (miss.record) Add(*miss.record, OpKind::kRecord);
      if (miss.wait) Add(*miss.wait, OpKind::kWait);
    }
    if (finding_.last_ordered) {
      const CheckedOperation& last = *finding_.last_ordered;
      Add(last, last.name == "record" ? OpKind::kRecord : OpKind::kOther);
    }
  }

  void AddOp(const Drawn& drawn) {
    TimelineOp op;
    op.row = Row(drawn.operation.actor);
    op.kind = drawn.kind;
    op.name = drawn.operation.name;
    op.note = Line(drawn.operation);
    op.begin_ns = kStep * timeline_.ops.size();
    op.end_ns = op.begin_ns + kBar;
    timeline_.ops.push_back(op);
  }

  size_t Index(const CheckedOperation& operation) const {
    const auto found = std::find_if(
        operations_.begin(), operations_.end(), [&](const Drawn& drawn) {
          return drawn.operation.number == operation.number;
        });
    return static_cast<size_t>(found - operations_.begin());
  }

  void AddArrow(const CheckedOperation& from, const CheckedOperation& to,
                TimelineArrow::Kind kind, const std::string& tip) {
    if (from.actor == to.actor) return;  // nothing would be drawn
    timeline_.arrows.push_back({Index(from), Index(to), kind, tip});
  }

  void AddArrows() {
    using Kind = TimelineArrow::Kind;
    if (finding_.last_ordered) {
      AddArrow(*finding_.last_ordered, finding_.later, Kind::kOrder,
               finding_.later.actor + " comes after " + finding_.earlier.actor +
                   " up to here");
    }
    for (const CheckedNearMiss& miss : finding_.near_misses) {
      if (miss.record && miss.wait) {
        AddArrow(*miss.record, *miss.wait, Kind::kNearMiss, miss.text);
      }
    }
    if (finding_.LacksOrder()) {
      AddArrow(finding_.earlier, finding_.later, Kind::kMissing,
               finding_.remedy);
    }
  }

  const CheckedFinding& finding_;
  std::vector<Drawn> operations_;    // in the order of Timeline::ops
  std::vector<std::string> actors_;  // in the order of Timeline::rows
  Timeline timeline_;
};

}  // namespace

Timeline FindingPicture(const CheckedFinding& finding) {
  return Picture(finding).Draw();
}

}  // namespace devrt::tools
