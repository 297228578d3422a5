// SPDX-License-Identifier: Apache-2.0
#include "sim/fault_classes.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/common/text.h"

namespace devrt::sim {
namespace {

using Class = FaultClassOfSweep;

bool IsWork(const SimulatedOp& op) {
  return op.state == SimulatedOp::State::kDone &&
         (op.kind == SimulatedOp::Kind::kKernel ||
          op.kind == SimulatedOp::Kind::kCopy ||
          op.kind == SimulatedOp::Kind::kFill ||
          op.kind == SimulatedOp::Kind::kCollective);
}

// The operations that count, by `step`.
std::vector<FaultPoint> WorkBy(uint64_t SimulatedOp::*step,
                               std::vector<SimulatedOp> operations) {
  operations.erase(
      std::remove_if(operations.begin(), operations.end(),
                     [](const SimulatedOp& op) { return !IsWork(op); }),
      operations.end());
  std::stable_sort(operations.begin(), operations.end(),
                   [step](const SimulatedOp& a, const SimulatedOp& b) {
                     return a.*step < b.*step;
                   });
  std::vector<FaultPoint> points;
  std::map<std::string, uint64_t> counts;
  for (const SimulatedOp& op : operations) {
    FaultPoint point;
    point.call = op.name;
    point.index = ++counts[op.name];
    point.place = points.size() + 1;
    point.file = op.file;
    point.line = op.line;
    points.push_back(std::move(point));
  }
  return points;
}

// The pairs of devices that the run has used both.
std::vector<FaultPoint> Links(const std::vector<FaultPoint>& calls,
                              const std::vector<SimulatedOp>& operations) {
  std::set<int64_t> used;
  for (const FaultPoint& call : calls) {
    if (call.device >= 0) used.insert(call.device);
  }
  for (const SimulatedOp& op : operations) used.insert(op.device);
  std::vector<FaultPoint> links;
  for (auto a = used.begin(); a != used.end(); ++a) {
    for (auto b = std::next(a); b != used.end(); ++b) {
      FaultPoint point;
      point.call = absl::StrCat("link ", *a, "-", *b);
      point.index = 1;
      links.push_back(std::move(point));
    }
  }
  return links;
}

std::vector<FaultPoint> Numbers(const char* call, size_t count) {
  std::vector<FaultPoint> points(count);
  for (size_t i = 0; i < count; ++i) {
    points[i].call = call;
    points[i].index = i + 1;
  }
  return points;
}

bool TakesCall(const Class& c, const FaultPoint& call) {
  if (c.points == Class::kAllocations) {
    return (call.forms & DEVRT_FAULT_OOM) != 0;
  }
  const uint32_t form =
      std::string_view(c.name) == "late" ? DEVRT_FAULT_LATE : DEVRT_FAULT_EARLY;
  return (call.forms & form) != 0;
}

}  // namespace

const std::vector<Class>& FaultClasses() {
  static const auto* const classes = new std::vector<Class>{
      {"oom", Class::kAllocations,
       "api_error:call=#:nth=%:code=RESOURCE_EXHAUSTED", "RESOURCE_EXHAUSTED",
       Class::kFails},
      {"error", Class::kCalls, "api_error:call=#:nth=%:code=UNAVAILABLE",
       "UNAVAILABLE", Class::kFails},
      {"late", Class::kCalls,
       "api_error:call=#:nth=%:code=UNAVAILABLE:late=yes", "UNAVAILABLE",
       Class::kFails},
      {"kernel_fault", Class::kEnds, "kernel_fault:nth=%", nullptr,
       Class::kDiscards},
      {"fragmentation", Class::kCountedAllocations, "fragmentation:nth=%",
       "RESOURCE_EXHAUSTED", Class::kFails},
      {"device_lost", Class::kEnds, "device_lost:nth=%", nullptr,
       Class::kDiscards},
      {"link_down", Class::kLinks, "link_down:link=@", nullptr,
       Class::kDiscards},
      {"hang", Class::kBegins, "hang:nth=%:timeout=1ms", nullptr,
       Class::kDiscards},
      {"slow", Class::kBegins, "slow:nth=%:times=1:factor=1000", nullptr,
       Class::kLegal},
      {"stale_query", Class::kCountedQueries, "stale_query:nth=%", nullptr,
       Class::kLegal},
      {"ecc", Class::kEnds, "ecc:nth=%", nullptr, Class::kDiscards},
  };
  return *classes;
}

absl::StatusOr<std::vector<const Class*>> ChooseFaultClasses(
    const std::vector<std::string>& names, std::string_view backend,
    bool is_simulator) {
  std::vector<const Class*> chosen;
  std::set<std::string> known;
  for (const Class& c : FaultClasses()) {
    if (!c.is_of_calls() && !is_simulator) continue;
    known.insert(c.name);
    if (names.empty() ||
        std::find(names.begin(), names.end(), c.name) != names.end()) {
      chosen.push_back(&c);
    }
  }
  for (const std::string& name : names) {
    if (known.count(name) != 0) continue;
    std::vector<std::string> list;
    for (const Class& c : FaultClasses()) {
      if (known.count(c.name) != 0) list.emplace_back(c.name);
    }
    return absl::InvalidArgumentError(
        absl::StrCat("backend ", internal::ToAbsl(backend),
                     " has no class of faults ", internal::Quoted(name),
                     "; the classes are ", absl::StrJoin(list, ", ")));
  }
  return chosen;
}

uint64_t CountWork(const std::vector<SimulatedOp>& operations) {
  return static_cast<uint64_t>(
      std::count_if(operations.begin(), operations.end(), IsWork));
}

std::vector<FaultPoint> PointsOf(const Class& c,
                                 const std::vector<FaultPoint>& calls,
                                 const std::vector<SimulatedOp>& operations) {
  const auto called = [&calls](std::string_view a, std::string_view b) {
    return static_cast<size_t>(std::count_if(
        calls.begin(), calls.end(),
        [&](const FaultPoint& p) { return p.call == a || p.call == b; }));
  };
  switch (c.points) {
    case Class::kCalls:
    case Class::kAllocations: {
      std::vector<FaultPoint> taken;
      for (const FaultPoint& call : calls) {
        if (TakesCall(c, call)) taken.push_back(call);
      }
      return taken;
    }
    case Class::kEnds:
      return WorkBy(&SimulatedOp::end_step, operations);
    case Class::kBegins:
      return WorkBy(&SimulatedOp::begin_step, operations);
    case Class::kLinks:
      return Links(calls, operations);
    case Class::kCountedAllocations:
      return Numbers("allocation", called("alloc", "alloc_async"));
    case Class::kCountedQueries:
      return Numbers("query", called("stream_query", "event_query"));
  }
  return {};
}

std::string RuleOf(const Class& c, const FaultPoint& point) {
  std::string rule;
  for (const char* at = c.rule; *at != '\0'; ++at) {
    if (*at == '%') {
      absl::StrAppend(&rule, point.place != 0 ? point.place : point.index);
    } else if (*at == '#') {
      rule += point.call;
    } else if (*at == '@') {
      rule += point.call.substr(std::string_view("link ").size());
    } else {
      rule += *at;
    }
  }
  return rule;
}

}  // namespace devrt::sim
