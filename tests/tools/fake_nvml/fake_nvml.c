/* SPDX-License-Identifier: Apache-2.0
 *
 * Stands in for libnvidia-ml.so.1: GPUs at 0000:01:00.0 and 0000:02:00.0 with
 * an NVLink between them, one at 0000:03:00.0 without.
 */
#include <string.h>

#define NVML_NOT_FOUND 6
#define P2P_STATUS_NOT_SUPPORTED 5

static int g_users;

int nvmlInit_v2(void) {
  ++g_users;
  return 0;
}

int nvmlShutdown(void) { return --g_users < 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  static char addresses[][16] = {"0000:01:00.0", "0000:02:00.0",
                                 "0000:03:00.0"};
  for (int i = 0; i < 3; ++i) {
    if (strcmp(address, addresses[i]) == 0) {
      *device = addresses[i];
      return 0;
    }
  }
  return NVML_NOT_FOUND;
}

int nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status) {
  const int nvlink = 2;
  const int joined = ((char*)a)[6] != '3' && ((char*)b)[6] != '3';
  *status = capability == nvlink && joined ? 0 : P2P_STATUS_NOT_SUPPORTED;
  return g_users > 0 ? 0 : 1;
}
