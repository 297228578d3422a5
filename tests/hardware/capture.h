// SPDX-License-Identifier: Apache-2.0
//
// Capture: a stream that another library captures into a graph.

#ifndef DEVRT_TESTS_HARDWARE_CAPTURE_H_
#define DEVRT_TESTS_HARDWARE_CAPTURE_H_

#include <cuda.h>

#include "tests/hardware/driver.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {

// A capture in global mode, the strictest one.
class Capture {
 public:
  explicit Capture(StreamRef stream)
      : stream_(static_cast<CUstream>(Must(stream.Native()))) {
    DRIVER_OK(DRIVER_CALL(cuStreamBeginCapture)(stream_,
                                                CU_STREAM_CAPTURE_MODE_GLOBAL));
  }
  CUstream native() const { return stream_; }
  // Ends the capture.  Returns true if nothing has invalidated it.
  bool End() {
    CUgraph graph = nullptr;
    const CUresult error = DRIVER_CALL(cuStreamEndCapture)(stream_, &graph);
    if (error == CUDA_SUCCESS && graph != nullptr) {
      DRIVER_OK(DRIVER_CALL(cuGraphDestroy)(graph));
    }
    return error == CUDA_SUCCESS;
  }
  // Makes the stream a part of the capture, as a fork of the capturing stream.
  void Take(StreamRef other) const {
    const CUcontext before = CurrentContext();
    CUcontext context = nullptr;
    DRIVER_OK(DRIVER_CALL(cuStreamGetCtx)(stream_, &context));
    DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(context));
    DRIVER_OK(DRIVER_CALL(cuEventCreate)(&forked_, CU_EVENT_DISABLE_TIMING));
    DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(before));
    Order(forked_, stream_, static_cast<CUstream>(Must(other.Native())));
  }
  // And its work is joined, as the end asks for.
  void Join(StreamRef other) const {
    Order(forked_, static_cast<CUstream>(Must(other.Native())), stream_);
    DRIVER_OK(DRIVER_CALL(cuEventDestroy)(forked_));
  }

 private:
  friend class Graph;

  static void Order(CUevent event, CUstream from, CUstream to) {
    DRIVER_OK(DRIVER_CALL(cuEventRecord)(event, from));
    DRIVER_OK(DRIVER_CALL(cuStreamWaitEvent)(to, event, CU_EVENT_WAIT_DEFAULT));
  }

  const CUstream stream_;
  mutable CUevent forked_ = nullptr;
};

// The executable graph of a capture.
class Graph {
 public:
  explicit Graph(const Capture& capture) : stream_(capture.stream_) {
    CUgraph graph = nullptr;
    DRIVER_OK(DRIVER_CALL(cuStreamEndCapture)(stream_, &graph));
    DRIVER_OK(DRIVER_CALL(cuGraphInstantiateWithFlags)(&exec_, graph, 0));
    DRIVER_OK(DRIVER_CALL(cuGraphDestroy)(graph));
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() { DRIVER_CALL(cuGraphExecDestroy)(exec_); }

  void Run() const {
    DRIVER_OK(DRIVER_CALL(cuGraphLaunch)(exec_, stream_));
    DRIVER_OK(DRIVER_CALL(cuStreamSynchronize)(stream_));
  }

 private:
  const CUstream stream_;
  CUgraphExec exec_ = nullptr;
};

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_CAPTURE_H_
