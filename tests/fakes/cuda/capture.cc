// SPDX-License-Identifier: Apache-2.0
//
// Captures of streams, as far as devrt meets them: whether a stream has one,
// and what makes it invalid.  Work that is captured runs at once, as if it were
// not: tests look at the capture, not at what the work does.
#include <algorithm>
#include <mutex>
#include <vector>

#include "tests/fakes/cuda/driver.h"

namespace devrt::fake {
namespace {

std::mutex g_mutex;
std::vector<CUstream> g_capturing;  // all in global mode

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
  for (const CUstream stream : g_capturing) {
    stream->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  }
  return g_capturing.empty() ? CUDA_SUCCESS
                             : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode) {
  const CUresult error = OwnStream("cuStreamBeginCapture", stream);
  if (error != CUDA_SUCCESS) return error;
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL) {
    Die("cuStreamBeginCapture: mode %d is not known here", mode);
  }
  const std::lock_guard<std::mutex> lock(g_mutex);
  if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    return CUDA_ERROR_ILLEGAL_STATE;
  }
  stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  g_capturing.push_back(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  const CUresult error = OwnStream("cuStreamEndCapture", stream);
  if (error != CUDA_SUCCESS) return error;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = std::find(g_capturing.begin(), g_capturing.end(), stream);
  if (found == g_capturing.end()) return CUDA_ERROR_ILLEGAL_STATE;
  g_capturing.erase(found);
  const bool valid = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
  stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
  // Nothing looks into a graph here.
  *graph = valid ? reinterpret_cast<CUgraph>(stream) : nullptr;
  return valid ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuGraphDestroy(CUgraph) { return Enter("cuGraphDestroy"); }

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  Target target;
  CUresult error = Enter("cuStreamIsCapturing");
  if (error == CUDA_SUCCESS) {
    error = Resolve("cuStreamIsCapturing", stream, &target);
  }
  if (error != CUDA_SUCCESS) return error;
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (target.own != nullptr) *status = target.own->capture;
  return CUDA_SUCCESS;
}
