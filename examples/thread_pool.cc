// SPDX-License-Identifier: Apache-2.0
//
// Work handed to another thread keeps its current device and streams.

#include <cstdio>
#include <thread>

#include "devrt/devrt.h"

namespace {

// A library function that uses what is current in the calling thread.
bool SeesStream(devrt::StreamRef wanted) {
  auto device = devrt::CurrentDevice("mtia");
  return device.ok() && *device == wanted.device() &&
         devrt::CurrentStream(*device) == wanted;
}

absl::Status Run() {
  DEVRT_ASSIGN_OR_RETURN(devrt::Device device, devrt::GetDevice("mtia:1"));
  DEVRT_ASSIGN_OR_RETURN(devrt::Stream stream, devrt::Stream::Create(device));
  devrt::StreamGuard on_stream(stream);
  DEVRT_RETURN_IF_ERROR(on_stream.status());

  devrt::ThreadContext context = devrt::ThreadContext::Capture();
  bool inside = false;
  bool outside = true;
  std::thread worker([&] {
    {
      devrt::ThreadContextScope scope(context);
      inside = SeesStream(stream);
    }
    outside = SeesStream(stream);
  });
  worker.join();
  std::printf("with the scope the worker %s the stream, after it %s\n",
              inside ? "sees" : "does not see",
              outside ? "still does" : "no longer does");
  return inside && !outside ? absl::OkStatus()
                            : absl::InternalError("wrong context");
}

}  // namespace

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::printf("%s\n", devrt::StatusText(status).c_str());
  return status.ok() ? 0 : 1;
}
