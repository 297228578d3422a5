// SPDX-License-Identifier: Apache-2.0
//
// Capture: a stream that another library captures into a graph.

#ifndef DEVRT_TESTS_HARDWARE_CAPTURE_H_
#define DEVRT_TESTS_HARDWARE_CAPTURE_H_

#include <cuda.h>

#include "tests/hardware/driver.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {

// In global mode, the strictest one.
class Capture {
 public:
  explicit Capture(StreamRef stream)
      : stream_(static_cast<CUstream>(Must(stream.Native()))) {
    DRIVER_OK(DRIVER_CALL(cuStreamBeginCapture)(stream_,
                                                CU_STREAM_CAPTURE_MODE_GLOBAL));
  }
  CUstream native() const { return stream_; }
  // Whether nothing has made it invalid.
  bool End() {
    CUgraph graph = nullptr;
    const CUresult error = DRIVER_CALL(cuStreamEndCapture)(stream_, &graph);
    if (error == CUDA_SUCCESS && graph != nullptr) {
      DRIVER_OK(DRIVER_CALL(cuGraphDestroy)(graph));
    }
    return error == CUDA_SUCCESS;
  }

 private:
  const CUstream stream_;
};

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_CAPTURE_H_
