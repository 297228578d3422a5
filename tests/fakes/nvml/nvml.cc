// SPDX-License-Identifier: Apache-2.0
//
// A libnvidia-ml.so.1 that counts as many devices as the fake driver has.
#include "tests/fakes/cuda/options.h"

extern "C" {
int nvmlInit_v2();
int nvmlDeviceGetCount_v2(unsigned* devices);
int nvmlShutdown();
}

int nvmlInit_v2() { return 0; }

int nvmlDeviceGetCount_v2(unsigned* devices) {
  const unsigned long said = devrt::fake::TheOptions().devices;
  *devices = said != 0 ? static_cast<unsigned>(said) : 2;
  return 0;
}

int nvmlShutdown() { return 0; }
