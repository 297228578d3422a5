// SPDX-License-Identifier: Apache-2.0
#include "tests/layers/validate_oracle.h"

namespace devrt::race::oracle {
namespace {

bool Writes(Effect effect) {
  return effect == Effect::kWrite || effect == Effect::kReadWrite;
}

bool Conflict(Effect a, int op_a, Effect b, int op_b) {
  if (Writes(a) || Writes(b)) return true;
  if (a != b) return true;  // a read and a reduction
  return a == Effect::kReduce && op_a != op_b;
}

void Append(const std::vector<int>& more, std::vector<int>* edges) {
  edges->insert(edges->end(), more.begin(), more.end());
}

}  // namespace

Oracle::Oracle(const Program* program)
    : program_(program),
      host_(At(program->threads), -1),
      streams_(program->streams.size()),
      events_(At(program->events), -1) {
  born_.fill(-1);
  freed_.fill(-1);
}

// ---- The graph

Nodes Oracle::Closed(const std::vector<int>& edges) const {
  Nodes nodes;
  for (const int edge : edges) {
    if (edge < 0) continue;
    nodes |= before_[At(edge)];
    nodes.set(At(edge));
  }
  return nodes;
}

int Oracle::Add(const std::vector<int>& edges) {
  before_.push_back(Closed(edges));
  return static_cast<int>(before_.size()) - 1;
}

// ---- The edges (C6, C8, C9, C21, C25, C26, C30)

std::vector<int> Oracle::EdgesOfSync(int stream) const {
  std::vector<int> edges = {streams_[At(stream)].last};
  if (InfoOf(stream).kind != Kind::kLegacy) return edges;
  for (size_t other = 0; other < streams_.size(); ++other) {
    const StreamInfo& info = program_->streams[other];
    if (info.device == InfoOf(stream).device && info.kind == Kind::kBlocking) {
      edges.push_back(streams_[other].last);
    }
  }
  return edges;
}

std::vector<int> Oracle::EdgesOfHandOver(int thread, int stream) const {
  std::vector<int> edges = {host_[Host(thread)]};
  if (stream < 0) return edges;
  Append(EdgesOfSync(stream), &edges);
  if (InfoOf(stream).kind != Kind::kBlocking) return edges;
  for (size_t other = 0; other < streams_.size(); ++other) {
    const StreamInfo& info = program_->streams[other];
    if (info.device == InfoOf(stream).device && info.kind == Kind::kLegacy) {
      edges.push_back(streams_[other].last);
    }
  }
  return edges;
}

std::vector<int> Oracle::EdgesOfSubmit(int thread, int stream) const {
  return EdgesOfHandOver(thread, stream);
}

std::vector<int> Oracle::EdgesOfDevice(int device) const {
  std::vector<int> edges;
  for (size_t other = 0; other < streams_.size(); ++other) {
    if (program_->streams[other].device == device) {
      edges.push_back(streams_[other].last);
    }
  }
  return edges;
}

bool Oracle::EventCovers(int event, int step) const {
  const int mark = events_[At(event)];
  const int node = NodeOf(step);
  return mark >= 0 && node >= 0 && (mark == node || IsBefore(node, mark));
}

// ---- Races

std::vector<Oracle::Access> Oracle::AccessesOf(const Step& step,
                                               std::vector<int>* edges) const {
  std::vector<Access> made;
  const auto whole = [&] {
    made.push_back({steps_, -1, step.block.mask(), Effect::kWrite, 0});
  };
  switch (step.what) {
    case Do::kSubmit:
    case Do::kHostUse:
      for (const Use& use : step.uses) {
        made.push_back({steps_, -1, use.cells.mask(), use.effect, use.op});
      }
      break;
    case Do::kFree:
    case Do::kFreeOn:
    case Do::kHandOut:
    case Do::kTakeBack:
      whole();
      break;
    default:
      break;
  }
  switch (step.what) {
    case Do::kSubmit:
    case Do::kFreeOn:
      *edges = EdgesOfSubmit(step.thread, step.stream);
      break;
    case Do::kHandOut:
    case Do::kTakeBack:
      *edges = EdgesOfHandOver(step.thread, step.stream);
      break;
    default:
      *edges = {host_[Host(step.thread)]};
  }
  return made;
}

std::vector<Race> Oracle::RacesOf(const Step& step) const {
  std::vector<int> edges;
  const std::vector<Access> made = AccessesOf(step, &edges);
  const Nodes before = Closed(edges);
  std::vector<Race> races;
  const auto add = [&](int earlier, int cell) {
    races.push_back({earlier, steps_, cell, born_[At(cell)]});
  };
  const bool is_use = step.what == Do::kSubmit || step.what == Do::kHostUse;
  for (const Access& later : made) {
    for (int cell = 0; cell < kCells; ++cell) {
      const uint64_t bit = uint64_t{1} << cell;
      if ((later.cells & bit) == 0) continue;
      if (is_use && freed_[At(cell)] >= 0) add(freed_[At(cell)], cell);
      for (const Access& earlier : accesses_) {
        if ((earlier.cells & bit) != 0 && !before[At(earlier.node)] &&
            Conflict(earlier.effect, earlier.op, later.effect, later.op)) {
          add(earlier.step, cell);
        }
      }
    }
  }
  return races;
}

// ---- Steps

void Oracle::Enqueue(const Step& step, const std::vector<int>& more_edges) {
  std::vector<int> edges = EdgesOfSubmit(step.thread, step.stream);
  Append(more_edges, &edges);
  const int node = Add(edges);
  streams_[At(step.stream)].last = node;
  node_of_.back() = node;
}

void Oracle::HostWait(int thread, std::vector<int> edges) {
  edges.push_back(host_[Host(thread)]);
  host_[Host(thread)] = Add(edges);
}

void Oracle::Take(const Step& step) {
  for (const Race& race : RacesOf(step)) races_.push_back(race);
  TakeOrder(step);
}

void Oracle::TakeOrder(const Step& step) {
  node_of_.push_back(-1);
  switch (step.what) {
    case Do::kNewThread:
      host_[Host(step.other)] = host_[Host(step.thread)];
      break;
    case Do::kNewStream:
      streams_[At(step.stream)].is_live = true;
      streams_[At(step.stream)].last = host_[Host(step.thread)];
      break;
    case Do::kDropStream:  // its work goes on (C17)
      streams_[At(step.stream)].is_live = false;
      streams_[At(step.stream)].was_dropped = true;
      break;
    case Do::kSubmit:
    case Do::kAllocateOn:
    case Do::kFreeOn:
      Enqueue(step, {});
      break;
    case Do::kRecord:
      Enqueue(step, {});
      events_[At(step.event)] = node_of_.back();
      break;
    case Do::kWait: {
      const int mark = events_[At(step.event)];
      if (mark < 0) break;  // C24
      if (InfoOf(step.stream).kind == Kind::kLegacy) {
        Enqueue(step, {mark});  // C9
        node_of_.back() = -1;
      } else {
        int& last = streams_[At(step.stream)].last;
        last = Add({last, mark});
      }
      break;
    }
    case Do::kSyncStream:
      HostWait(step.thread, EdgesOfSync(step.stream));
      break;
    case Do::kQueryStream:
      if (step.answer) HostWait(step.thread, EdgesOfSync(step.stream));
      break;
    case Do::kSyncEvent:
      HostWait(step.thread, {events_[At(step.event)]});
      break;
    case Do::kQueryEvent:
      if (step.answer) HostWait(step.thread, {events_[At(step.event)]});
      break;
    case Do::kSyncDevice:
      HostWait(step.thread, EdgesOfDevice(step.device));
      break;
    case Do::kHostUse:
      node_of_.back() = host_[Host(step.thread)] =
          Add({host_[Host(step.thread)]});
      break;
    default:
      break;
  }
  Lifetime(step);
  ++steps_;
}

void Oracle::Lifetime(const Step& step) {
  const uint64_t cells = step.block.mask();
  switch (step.what) {
    case Do::kSubmit:
    case Do::kHostUse:
      for (const Use& use : step.uses) {
        accesses_.push_back(
            {steps_, node_of_.back(), use.cells.mask(), use.effect, use.op});
      }
      return;
    case Do::kAllocate:
    case Do::kAllocateOn:
      for (Access& earlier : accesses_) earlier.cells &= ~cells;
      for (int cell = step.block.begin; cell < step.block.end; ++cell) {
        born_[At(cell)] = steps_;
        freed_[At(cell)] = -1;
      }
      if (step.what == Do::kAllocateOn) {
        accesses_.push_back(
            {steps_, node_of_.back(), cells, Effect::kWrite, 0});
      }
      return;
    case Do::kHandOut:
      for (int cell = step.block.begin; cell < step.block.end; ++cell) {
        freed_[At(cell)] = -1;
      }
      return;
    case Do::kFree:
    case Do::kFreeOn:
    case Do::kTakeBack:
      for (int cell = step.block.begin; cell < step.block.end; ++cell) {
        freed_[At(cell)] = steps_;
      }
      return;
    default:
      return;
  }
}

}  // namespace devrt::race::oracle
