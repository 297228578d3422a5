// SPDX-License-Identifier: Apache-2.0
//
// Captures of streams, as far as devrt meets them: which capture a stream is
// part of, what makes it invalid, and how long its graph is there.  Work that
// is captured runs at once, as if it were not: tests look at the capture and at
// who may use its memory, and a launch has nothing left to do.
#include <algorithm>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/fakes/cuda/driver.h"

// Gone with the last that refers to it.
struct CUuserObject_st {
  void* arg = nullptr;
  CUhostFn destroy = nullptr;
  ~CUuserObject_st() {
    const devrt::fake::CallbackScope inside;
    destroy(arg);
  }
};

struct CUgraph_st {
  std::vector<std::shared_ptr<CUuserObject_st>> objects;
};
struct CUgraphExec_st : CUgraph_st {};

namespace devrt::fake {
namespace {

struct Capture {
  CUstreamCaptureMode mode;
  std::thread::id thread;
  CUstream origin;
  unsigned long long id;
  bool valid = true;
  std::vector<CUstream> streams;
  std::unique_ptr<CUgraph_st> graph = std::make_unique<CUgraph_st>();
};

std::mutex g_mutex;
std::vector<std::unique_ptr<Capture>> g_captures;
unsigned long long g_last_id = 0;
thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

Registry<CUgraph_st>& Graphs() {
  static auto* const graphs = new Registry<CUgraph_st>();
  return *graphs;
}

Registry<CUuserObject_st>& UserObjects() {
  static auto* const objects = new Registry<CUuserObject_st>();
  return *objects;
}

Capture* Find(unsigned long long id) {
  for (const auto& capture : g_captures) {
    if (capture->id == id) return capture.get();
  }
  return nullptr;
}

Capture* Of(const CUstream_st* stream) {
  return stream != nullptr && stream->capture_id != 0 ? Find(stream->capture_id)
                                                      : nullptr;
}

void Break(Capture* capture) {
  capture->valid = false;
  for (const CUstream stream : capture->streams) {
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  }
}

void Join(Capture* capture, CUstream stream) {
  stream->capture_id = capture->id;
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  capture->streams.push_back(stream);
}

// Returns true if the calling thread, in its mode, may make unsafe calls during
// the capture.
bool Bears(const Capture& capture) {
  if (t_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
      capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return true;
  }
  if (capture.thread == std::this_thread::get_id()) return false;
  return t_mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
         capture.mode != CU_STREAM_CAPTURE_MODE_GLOBAL;
}

bool BlockingStreamCaptures(CUcontext context) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (const auto& capture : g_captures) {
    for (const CUstream stream : capture->streams) {
      if (stream->context == context &&
          (stream->flags & CU_STREAM_NON_BLOCKING) == 0) {
        return true;
      }
    }
  }
  return false;
}

CUresult OwnStream(const char* name, CUstream stream) {
  const CUresult error = Enter(name);
  if (error != CUDA_SUCCESS) return error;
  if (stream == nullptr || stream == CU_STREAM_LEGACY ||
      stream == CU_STREAM_PER_THREAD) {
    Die("%s: default streams are not known here", name);
  }
  Streams().Check(stream, name, "stream");
  return CUDA_SUCCESS;
}

}  // namespace

CUresult BreakCaptures() {
  const std::lock_guard<std::mutex> lock(g_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : g_captures) {
    if (Bears(*capture)) continue;
    Break(capture.get());
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult BreakCapturesIn(const CUctx_st* context) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : g_captures) {
    for (const CUstream stream : capture->streams) {
      if (stream->context != context) continue;
      Break(capture.get());
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      break;
    }
  }
  return result;
}

CUresult BreakCaptureOf(const CUstream_st* stream) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* const capture = Of(stream);
  if (capture == nullptr) return CUDA_SUCCESS;
  Break(capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult BreakCaptureOf(const CUevent_st* event) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (event->capture_id == 0) return CUDA_SUCCESS;
  if (Capture* const capture = Find(event->capture_id)) Break(capture);
  return CUDA_ERROR_CAPTURED_EVENT;
}

CUresult RecordInCapture(CUevent event, const CUstream_st* stream) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const Capture* const capture = Of(stream);
  if (capture != nullptr && !capture->valid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  event->capture_id = capture != nullptr ? capture->id : 0;
  return CUDA_SUCCESS;
}

CUresult WaitInCapture(CUstream stream, const CUevent_st* event) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  Capture* const its = Of(stream);
  if (its != nullptr && !its->valid) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (event->capture_id == 0) {
    if (its == nullptr || !event->recorded) return CUDA_SUCCESS;
    Break(its);
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  Capture* const other = Find(event->capture_id);
  if (other == nullptr) return CUDA_ERROR_CAPTURED_EVENT;
  if (other == its) return CUDA_SUCCESS;
  if (its != nullptr) {
    Break(its);
    Break(other);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (stream == nullptr) {
    Die("cuStreamWaitEvent: a default stream in a capture is not known here");
  }
  Join(other, stream);
  return CUDA_SUCCESS;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  const CUresult error = OwnStream("cuStreamBeginCapture", stream);
  if (error != CUDA_SUCCESS) return error;
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  auto capture = std::make_unique<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->id = ++g_last_id;
  Join(capture.get(), stream);
  g_captures.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const CUresult error = OwnStream("cuStreamEndCapture", stream);
  if (error != CUDA_SUCCESS) return error;
  std::unique_ptr<Capture> ended;
  {
    const std::lock_guard<std::mutex> lock(g_mutex);
    const auto found = std::find_if(
        g_captures.begin(), g_captures.end(),
        [stream](const auto& capture) { return capture->origin == stream; });
    if (found == g_captures.end()) return CUDA_ERROR_ILLEGAL_STATE;
    ended = std::move(*found);
    g_captures.erase(found);
    for (const CUstream s : ended->streams) {
      s->capture = CU_STREAM_CAPTURE_STATUS_NONE;
      s->capture_id = 0;
    }
  }
  *graph = nullptr;
  if (!ended->valid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *graph = ended->graph.release();
  Graphs().Add(*graph);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  Target target;
  CUresult error = Enter("cuStreamIsCapturing");
  if (error == CUDA_SUCCESS) {
    error = Resolve("cuStreamIsCapturing", stream, &target);
  }
  if (error != CUDA_SUCCESS) return error;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (target.own != nullptr) {
    *status = target.own->capture;
    return CUDA_SUCCESS;
  }
  if (stream == CU_STREAM_PER_THREAD) return CUDA_SUCCESS;
  return BlockingStreamCaptures(target.context)
             ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
             : CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12030
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** nodes,
                                const CUgraphEdgeData** edges, size_t* count) {
  const bool more = edges != nullptr || nodes != nullptr || count != nullptr;
#else
CUresult cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus* status,
                                cuuint64_t* id, CUgraph* graph,
                                const CUgraphNode** nodes, size_t* count) {
  const bool more = nodes != nullptr || count != nullptr;
#endif
  const CUresult error = cuStreamIsCapturing(stream, status);
  if (error != CUDA_SUCCESS) return error;
  if (more) Die("cuStreamGetCaptureInfo: there are no nodes here");
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return error;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const Capture* const capture = Of(stream);
  *id = capture->id;
  *graph = capture->graph.get();
  return error;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  const CUresult error =
      Enter("cuThreadExchangeStreamCaptureMode", kInCallback | kQuiet);
  if (error == CUDA_SUCCESS) std::swap(*mode, t_mode);
  return error;
}

// ---- Graphs -----------------------------------------------------------------

CUresult cuUserObjectCreate(CUuserObject* object, void* arg, CUhostFn destroy,
                            unsigned count, unsigned flags) {
  const CUresult error = Enter("cuUserObjectCreate");
  if (error != CUDA_SUCCESS) return error;
  if (count != 1 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *object = new CUuserObject_st{arg, destroy};
  UserObjects().Add(*object);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
                                 unsigned count, unsigned flags) {
  const CUresult error = Enter("cuGraphRetainUserObject");
  if (error != CUDA_SUCCESS) return error;
  if (count != 1 || flags != CU_GRAPH_USER_OBJECT_MOVE) {
    Die("cuGraphRetainUserObject: only a move of one is known here");
  }
  UserObjects().Check(object, "cuGraphRetainUserObject", "user object");
  UserObjects().Remove(object);
  const std::lock_guard<std::mutex> lock(g_mutex);
  graph->objects.emplace_back(object);
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                     unsigned long long flags) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuGraphInstantiateWithFlags");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Graphs().Check(graph, "cuGraphInstantiateWithFlags", "graph");
  auto* const made = new CUgraphExec_st();
  made->objects = graph->objects;
  Graphs().Add(made);
  *exec = made;
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  Target target;
  const CUresult error = Enter("cuGraphLaunch");
  if (error != CUDA_SUCCESS) return error;
  Graphs().Check(exec, "cuGraphLaunch", "executable graph");
  return Resolve("cuGraphLaunch", stream, &target);
}

CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const CUresult error = Enter("cuGraphExecDestroy");
  if (error != CUDA_SUCCESS) return error;
  Graphs().Check(exec, "cuGraphExecDestroy", "executable graph");
  Graphs().Remove(exec);
  delete exec;
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  const CUresult error = Enter("cuGraphDestroy");
  if (error != CUDA_SUCCESS) return error;
  Graphs().Check(graph, "cuGraphDestroy", "graph");
  Graphs().Remove(graph);
  delete graph;
  return CUDA_SUCCESS;
}
