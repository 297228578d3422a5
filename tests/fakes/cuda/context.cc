// SPDX-License-Identifier: Apache-2.0
//
// Devices, contexts and peers.
#include <cstdio>
#include <cstring>
#include <deque>

#include "tests/fakes/cuda/driver.h"

namespace devrt::fake {
namespace {

CUresult CheckDevice(CUdevice device) {
  int count = 0;
  if (cuDeviceGetCount(&count) != CUDA_SUCCESS || device < 0 ||
      device >= count) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  return CUDA_SUCCESS;
}

// Begins a call about a device.
CUresult EnterWith(const char* name, CUdevice device, unsigned rules) {
  const CUresult error = Enter(name, rules);
  return error != CUDA_SUCCESS ? error : CheckDevice(device);
}

CUctx_st* Primary(CUdevice device) {
  static auto* const mutex = new std::mutex();
  static auto* const primaries = new std::deque<CUctx_st>();
  const std::lock_guard<std::mutex> lock(*mutex);
  while (primaries->size() <= static_cast<size_t>(device)) {
    CUctx_st& made = primaries->emplace_back();
    made.device = static_cast<uint32_t>(primaries->size() - 1);
    Contexts().Add(&made);
  }
  return &(*primaries)[static_cast<size_t>(device)];
}

devrt_device_props_v0 PropsOf(CUdevice device) {
  return engine::PropsOf(SimDevice(static_cast<uint32_t>(device)));
}

unsigned long long NewContextId() {
  static std::atomic<unsigned long long> last{0};
  return ++last;
}

}  // namespace

Stack& ContextStack() {
  thread_local Stack stack;
  return stack;
}

CUresult CheckAlive(CUcontext context) {
  if (!Contexts().Has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  return context->alive ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult NeedContext(CUcontext* context) {
  const Stack& stack = ContextStack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = stack.back();
  return CheckAlive(*context);
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

// ---- Devices ----------------------------------------------------------------

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  const CUresult error = EnterWith("cuDeviceGet", ordinal, kQuiet);
  if (error == CUDA_SUCCESS) *device = ordinal;
  return error;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  const CUresult error = EnterWith("cuDeviceGetName", device, kQuiet);
  if (error != CUDA_SUCCESS) return error;
  std::snprintf(name, static_cast<size_t>(size), "fake CUDA device");
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  const CUresult error = EnterWith("cuDeviceGetUuid", device, kQuiet);
  if (error != CUDA_SUCCESS) return error;
  const devrt_device_props_v0 props = PropsOf(device);
  std::memcpy(uuid->bytes, props.uuid, sizeof uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  const CUresult error = EnterWith("cuDeviceTotalMem", device, kQuiet);
  if (error == CUDA_SUCCESS) *bytes = PropsOf(device).total_memory;
  return error;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                              CUdevice device) {
  const CUresult error = EnterWith("cuDeviceGetAttribute", device, kQuiet);
  if (error != CUDA_SUCCESS) return error;
  const devrt_device_props_v0 props = PropsOf(device);
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
      *value = static_cast<int>(props.pci_domain);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *value = static_cast<int>(props.pci_bus);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
      *value = static_cast<int>(props.pci_device);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = static_cast<int>(props.multiprocessors);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
      *value = static_cast<int>(props.copy_engines);
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
      *value = TheOptions().IsMissing("memory_pools") ? 0 : 1;
      return CUDA_SUCCESS;
    default:
      Die("cuDeviceGetAttribute: attribute %d is not known here", attribute);
  }
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  const CUresult error = EnterWith("cuDeviceCanAccessPeer", device, kQuiet);
  if (error != CUDA_SUCCESS) return error;
  if (CheckDevice(peer) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  *can = 0;
  if (device == peer) return CUDA_SUCCESS;
  uint32_t answer = 0;
  const CUresult result = Sim<&devrt_ops_v0::peer_can_access>(
      SimDevice(static_cast<uint32_t>(device)),
      SimDevice(static_cast<uint32_t>(peer)), &answer);
  *can = static_cast<int>(answer);
  return result;
}

// ---- Primary contexts -------------------------------------------------------

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  const CUresult error = EnterWith("cuDevicePrimaryCtxRetain", device, 0);
  if (error != CUDA_SUCCESS) return error;
  CUctx_st* const primary = Primary(device);
  const std::lock_guard<std::mutex> lock(primary->mutex);
  ++primary->retained;
  if (!primary->alive.exchange(true)) primary->id = NewContextId();
  *context = primary;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  const CUresult error = EnterWith("cuDevicePrimaryCtxRelease", device, kQuiet);
  if (error != CUDA_SUCCESS) return error;
  CUctx_st* const primary = Primary(device);
  const std::lock_guard<std::mutex> lock(primary->mutex);
  if (primary->retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary->retained == 0) primary->alive = false;
  return TheFault();
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags,
                                    int* active) {
  const CUresult error =
      EnterWith("cuDevicePrimaryCtxGetState", device, kQuiet);
  if (error != CUDA_SUCCESS) return error;
  *flags = 0;
  *active = Primary(device)->alive ? 1 : 0;
  return CUDA_SUCCESS;
}

// ---- The thread's context ---------------------------------------------------

CUresult cuCtxGetCurrent(CUcontext* context) {
  const CUresult error = Enter("cuCtxGetCurrent", kQuiet);
  if (error != CUDA_SUCCESS) return error;
  const Stack& stack = ContextStack();
  *context = stack.empty() ? nullptr : stack.back();
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  const CUresult error = Enter("cuCtxSetCurrent", kQuiet);
  if (error != CUDA_SUCCESS) return error;
  Stack& stack = ContextStack();
  if (context == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  if (!Contexts().Has(context)) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty()) stack.push_back(context);
  stack.back() = context;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuCtxGetDevice", kQuiet);
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error == CUDA_SUCCESS) *device = static_cast<CUdevice>(context->device);
  return error;
}

CUresult cuCtxSynchronize() {
  CUcontext context = nullptr;
  CUresult error = Enter("cuCtxSynchronize");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error == CUDA_SUCCESS) error = BreakCapturesIn(context);
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS) return error;
  return Sim<&devrt_ops_v0::device_sync>(SimDevice(context->device));
}

CUresult cuMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuMemGetInfo");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  return Sim<&devrt_ops_v0::mem_info>(SimDevice(context->device), free_bytes,
                                      total_bytes);
}

CUresult cuCtxGetId(CUcontext context, unsigned long long* id) {
  CUresult error = Enter("cuCtxGetId", kQuiet);
  if (error == CUDA_SUCCESS) error = CheckAlive(context);
  if (error == CUDA_SUCCESS) *id = context->id;
  return error;
}

// ---- What other libraries in the process do ---------------------------------
// The plugin asks for none of these; tests call them.

#if CUDA_VERSION >= 13000
CUresult cuCtxCreate(CUcontext* context, CUctxCreateParams*, unsigned,
                     CUdevice device) {
#else
CUresult cuCtxCreate(CUcontext* context, unsigned, CUdevice device) {
#endif
  const CUresult error = EnterWith("cuCtxCreate", device, kDeviceCall);
  if (error != CUDA_SUCCESS) return error;
  auto* const made = new CUctx_st();  // for ever: handles may outlive it
  made->device = static_cast<uint32_t>(device);
  made->alive = true;
  made->id = NewContextId();
  Contexts().Add(made);
  ContextStack().push_back(made);
  *context = made;
  return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context) {
  const CUresult error = Enter("cuCtxDestroy");
  if (error != CUDA_SUCCESS) return error;
  const CUresult alive = CheckAlive(context);
  if (alive != CUDA_SUCCESS) return alive;
  context->alive = false;
  Stack& stack = ContextStack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  const CUresult error = EnterWith("cuDevicePrimaryCtxReset", device, kQuiet);
  if (error == CUDA_SUCCESS) Primary(device)->alive = false;
  return error;
}

// ---- Peers ------------------------------------------------------------------

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuCtxEnablePeerAccess");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error == CUDA_SUCCESS) error = CheckAlive(peer);
  if (error != CUDA_SUCCESS) return error;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  error = Sim<&devrt_ops_v0::peer_enable>(SimDevice(context->device),
                                          SimDevice(peer->device));
  // The simulator's answer for a pair without a link.
  return error == CUDA_ERROR_INVALID_DEVICE ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
                                            : error;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuCtxDisablePeerAccess");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error == CUDA_SUCCESS) error = CheckAlive(peer);
  if (error != CUDA_SUCCESS) return error;
  return Sim<&devrt_ops_v0::peer_disable>(SimDevice(context->device),
                                          SimDevice(peer->device));
}
