/* SPDX-License-Identifier: Apache-2.0
 *
 * The structs of DLPack 1.3, for C and C++, for programs without DLPack's own
 * header.
 *
 * The names and the include guard are DLPack's.  A program may include both
 * headers, in any order: the first one declares the types and the second one
 * adds nothing.  DLPack's header must be of version 1; what it lacks if it is
 * older than 1.3 is added here.
 *
 * DLPack's documentation says what the fields mean.  The layout is that of LP64
 * (tests/arrays/exchange has it in numbers).
 */
#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_ABI_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_ABI_H_

#include <stdint.h>

#ifdef DLPACK_DLPACK_H_
#if !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION != 1
#error "devrt needs version 1 of DLPack's header, or none"
#endif
#if DLPACK_MINOR_VERSION < 3
#define DEVRT_NEEDS_DLPACK_1_3
#endif
#else
#define DLPACK_DLPACK_H_
#define DEVRT_NEEDS_DLPACK_1_3

/* The version of DLPack whose structs these are. */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

/* Bits of DLManagedTensorVersioned.flags: the consumer must not write; the
 * tensor is a copy; elements below a byte have a byte each. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2)

#ifdef __cplusplus
extern "C" {
#endif

/* A version of DLPack; tensors of another major version cannot be read. */
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

/* Where memory is. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18
} DLDeviceType;

/* A device: its type, and its number among the devices of that type. */
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

/* The kind of a dtype. */
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U,
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  kDLFloat4_e2m1fn = 17U
} DLDataTypeCode;

/* A dtype: DLDataTypeCode, bits of a number, and numbers of an element. */
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

/* A borrowed tensor: `ndim` extents and strides over memory of `device`.  The
 * first element is `byte_offset` bytes behind `data`. */
typedef struct {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides; /* elements */
  uint64_t byte_offset;
} DLTensor;

/* A tensor with its owner, without a version.  The consumer calls `deleter`
 * once. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx; /* of the producer */
  void (*deleter)(struct DLManagedTensor* self);
} DLManagedTensor;

/* A tensor with its owner.  The consumer calls `deleter` once. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx; /* of the producer */
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags; /* DLPACK_FLAG_BITMASK_* */
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DLPACK_DLPACK_H_ */

#ifdef DEVRT_NEEDS_DLPACK_1_3
#undef DEVRT_NEEDS_DLPACK_1_3
#ifdef __cplusplus
extern "C" {
#endif

/* Makes a tensor with the prototype's dtype, shape and device.  Returns 0, or
 * -1 after one call of SetError. */
typedef int (*DLPackManagedTensorAllocator)(
    DLTensor* prototype, DLManagedTensorVersioned** out, void* error_ctx,
    void (*SetError)(void* error_ctx, const char* kind, const char* message));
/* Functions of the table.  Each returns 0, or -1 after it set an error as the
 * object's language does: */
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(
    void* py_object, DLManagedTensorVersioned** out);
typedef int (*DLPackManagedTensorToPyObjectNoSync)(
    DLManagedTensorVersioned* tensor, void** out_py_object);
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void* py_object, DLTensor* out);
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type,
                                       int32_t device_id,
                                       void** out_current_stream);

/* The head of a table: its version, and the table of an older version. */
typedef struct DLPackExchangeAPIHeader {
  DLPackVersion version;
  struct DLPackExchangeAPIHeader* prev_api;
} DLPackExchangeAPIHeader;

/* How a library exchanges its arrays without a call into Python. */
typedef struct DLPackExchangeAPI {
  DLPackExchangeAPIHeader header;
  DLPackManagedTensorAllocator managed_tensor_allocator;
  DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
  DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
  DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync;
  DLPackCurrentWorkStream current_work_stream;
} DLPackExchangeAPI;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_NEEDS_DLPACK_1_3 */

#endif /* DEVRT_ARRAYS_EXCHANGE_DLPACK_ABI_H_ */
