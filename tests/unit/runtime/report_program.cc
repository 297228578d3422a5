// SPDX-License-Identifier: Apache-2.0
//
// Prints the load report, settings of the exchange and of the allocators, and
// what GetBackend says about the backend that is named on the command line.
// set_user_id_test.cc runs it with more rights than its user.

#include <sys/auxv.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "devrt/arrays/exchange.h"
#include "devrt/memory/settings.h"
#include "devrt/runtime/backend.h"

int main(int argc, char** argv) {
  std::printf("secure=%lu\n%s", getauxval(AT_SECURE),
              devrt::LoadReportText().c_str());
  std::printf("release=%d\n",
              static_cast<int>(devrt::GetExchangeSettings().release));
  std::printf("settings=%s\n",
              devrt::ToString(devrt::GetAllocatorSettings()).c_str());
  for (int i = 1; i < argc; ++i) {
    const auto status = devrt::GetBackend(argv[i]).status();
    std::printf("%s\n", std::string(status.message()).c_str());
  }
  std::fflush(stdout);
  _exit(0);  // a leak checker cannot look at such a process
}
